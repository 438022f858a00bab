"""Provides Evaluator: how often a program is called until its latency is trusted, and with which arguments."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# A call this long is timed once: its spread is far below the differences between programs, and a few such
# programs would otherwise cost more than all the others together.
SLOW_CALL_S = 0.05

# If a call takes this long, the warm-up call is the measurement: the effect of cold caches is a hundredth of it.
HOPELESS_CALL_S = 0.2
FLUSH = "cache_flush_cpu_non_first_arg"
ARGUMENT_CACHE_BYTES = 1 << 30
LARGEST_INTEGER = 7

Arguments = tuple[tuple[str, tuple[int, ...]], ...]
"""(dtype, shape) of each argument of a program."""


@dataclass(frozen=True)
class Evaluator:
    """How a latency is measured; by default as by TVM's time evaluator.

    With `max_repeat`, repeats end as soon as they agree, which is AdaTune's idea (Li et al., NeurIPS 2020):
    a program whose first repeats agree needs no more of them, while one whose repeats disagree does.
    """

    number: int = 1
    """Minimum number of calls per repeat."""
    repeat: int = 3
    """Number of repeats; the minimum if `max_repeat` is set."""
    min_repeat_ms: int = 10
    cache_flush: bool = False
    """Whether all arguments but the first are flushed from the caches before each repeat (CPUs only); each
    repeat is a single call then, whatever `number` and `min_repeat_ms` say."""
    max_repeat: int | None = None
    agree: float = 0.02
    """The repeats agree if their median exceeds the fastest by at most this fraction."""

    def __post_init__(self) -> None:
        if self.cache_flush:
            # The flush comes before a repeat, not before a call: only the first of several calls would be cold.
            object.__setattr__(self, "number", 1)
            object.__setattr__(self, "min_repeat_ms", 0)

    def is_enough(self, run_s: Sequence[float]) -> bool:
        """Whether no more repeats are needed after these.

        Example:
            >>> evaluator = Evaluator(repeat=2, max_repeat=9)
            >>> [evaluator.is_enough(run_s) for run_s in ([1.0], [1.0, 1.2], [1.2, 1.0, 1.01])]
            [False, False, True]
        """
        if self.max_repeat is None or len(run_s) >= self.max_repeat:
            return len(run_s) >= self.repeat
        return len(run_s) >= self.repeat and statistics.median(run_s) <= (1 + self.agree) * min(run_s)


COLLECTING = Evaluator(repeat=2, min_repeat_ms=3, max_repeat=9)
"""What collections, searches and `adapt` use: as reliable as three repeats of 10 ms each, in a third of the time (ADR
0004)."""


def take(module: Any, device: Any, arguments: Sequence[Any], evaluator: Evaluator) -> tuple[float, ...]:
    """Seconds per call in each repeat of the module's function ``main``, after one warm-up call.

    Of a call that takes long, one figure: the better of two calls, or that of the warm-up call itself.
    """
    warm_up_s = one_call(module, device, arguments)
    if warm_up_s > HOPELESS_CALL_S:
        return (warm_up_s,)
    if warm_up_s > SLOW_CALL_S:
        return (min(warm_up_s, one_call(module, device, arguments)),)
    run_s = _repeats(module, device, arguments, evaluator, evaluator.repeat)
    while not evaluator.is_enough(run_s):
        # One by one, although TVM warms up again for each: few programs get here.
        run_s += _repeats(module, device, arguments, evaluator, 1)
    return tuple(run_s)


def _repeats(module: Any, device: Any, arguments: Sequence[Any], evaluator: Evaluator, count: int) -> list[float]:
    timer = module.time_evaluator(
        "main",
        device,
        number=evaluator.number,
        repeat=count,
        min_repeat_ms=evaluator.min_repeat_ms,
        f_preproc=FLUSH if evaluator.cache_flush else "",
    )
    return [float(s) for s in timer(*arguments).results]


def one_call(module: Any, device: Any, arguments: Sequence[Any]) -> float:
    """Seconds of a single call, including the wait for the device."""
    start = time.perf_counter()
    module["main"](*arguments)
    device.sync()
    return time.perf_counter() - start


_held: dict[tuple[str, Arguments], list[Any]] = {}


def on_device(arguments: Arguments, device_kind: str, device: Any) -> list[Any]:
    """Tensors of these types and shapes on the device, filled as by `on_host`.

    They are reused for the programs of one workload, as filling them costs as much as running.
    """
    key = (device_kind, arguments)
    if key not in _held:
        if sum(nbytes(kept) for _, kept in _held) + nbytes(arguments) > ARGUMENT_CACHE_BYTES:
            _held.clear()
        _held[key] = [to_device(value, device) for value in on_host(arguments)]
    return _held[key]


def forget() -> None:
    """Drops the tensors kept on devices, which an incorrect program may have overwritten."""
    _held.clear()


def to_device(value: Any, device: Any) -> Any:
    """A copy of the array on the device."""
    import tvm

    return tvm.runtime.tensor(value, device)


def on_host(arguments: Arguments) -> list[Any]:
    """Returns the same arrays for the same arguments, every time.

    Floating point: about [0.1, 1), since zeros and denormals run at a different speed than the values of a real
    network. The two halves of a float32 are such numbers in bfloat16 as well.
    Integers: from 1 to 7 but less than any extent above 1, since they may be indices into another argument, and
    an index out of range crashes the process. Booleans: both values.

    Example:
        >>> [float(v.min()) >= 0.1 for v in on_host((("float16", (2, 3)), ("float64", (4,))))]
        [True, True]
        >>> on_host((("int64", (3,)), ("float32", (2, 2))))[0].tolist()
        [1, 1, 1]
    """
    import tvm  # noqa: F401 - registers bfloat16 and similar types with NumPy

    extents = [extent for _, shape in arguments for extent in shape if extent > 1]
    largest = min(LARGEST_INTEGER, min(extents, default=2) - 1)
    rng = np.random.default_rng(0)
    return [_values(rng, dtype, shape, largest) for dtype, shape in arguments]


def nbytes(arguments: Arguments) -> int:
    """Bytes of all arguments together.

    Example:
        >>> nbytes((("float32", (2, 3)), ("int8", (4,))))
        28
    """
    return sum(math.prod(shape) * np.dtype(dtype).itemsize for dtype, shape in arguments)


def _values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], largest: int) -> Any:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        return rng.integers(1, largest + 1, shape).astype(dtype)
    if dtype == "float64":
        return rng.uniform(0.1, 1.0, shape)
    values = np.asarray(rng.random(shape, dtype=np.float32) * np.float32(0.9) + np.float32(0.1))
    if dtype == "float32":
        # Kernels of pairs read both halves as bfloat16 (docs/adr/0022): the lower ones are the upper ones, reversed.
        bits = values.view(np.uint32)
        return np.asarray((bits & 0xFFFF0000) | (bits.ravel()[::-1].reshape(shape) >> 16)).view(np.float32)
    # Rounding up to 1 is harmless; a type of few bits must not round down to a denormal.
    return values.astype(dtype)
