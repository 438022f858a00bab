"""Provides named_workload: the computation that a named Ansor workload key stands for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from costhub.errors import WorkloadError

MOST_EXTENT = 1 << 20
_HASH = re.compile(r"[0-9a-f]{32}")
DTYPES = ("float32", "float16")
_CHOICES: Mapping[str, tuple[str, ...]] = {"padding": ("SAME", "VALID"), "dtype": DTYPES}
"""Parameters that take these words; a padding may be a number too."""


@dataclass(frozen=True)
class WorkloadKey:
    """A workload key of Ansor, parsed: the name of a registered function and its arguments."""

    function: str
    arguments: tuple[Any, ...]

    @property
    def has_free_layouts(self) -> bool:
        """Whether the function lets Ansor change the layout of an input, which a record's task may permit or not."""
        return _FUNCTIONS[self.function].has_free_layouts

    @property
    def name(self) -> str:
        """A readable name of the workload, such as `conv2d_128x64x56x56_64x3x3_s1_pSAME`."""
        return _FUNCTIONS[self.function].name(*self.arguments)

    def module(self) -> Any:
        """Builds the ``tvm.IRModule``, in float32 unless the key has a dtype.

        Raises:
            WorkloadError: TVM rejects the arguments.
        """
        import tvm
        from tvm import te

        try:
            function = te.create_prim_func(_FUNCTIONS[self.function].tensors(*self.arguments))
        except Exception as error:
            raise WorkloadError(f"TVM cannot build {self.name} ({error})") from error
        return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def parse_key(text: str) -> WorkloadKey:
    """Reads a workload key, a JSON list of a name and arguments.

    Args:
        text: The key as written in a log.

    Raises:
        WorkloadError: The key is a hash, names a function that costhub does not know, or has other arguments
            than that function takes.

    Example:
        >>> parse_key('["matmul_layer", 512, 1024, 4096]').name
        'matmul_512x1024_1024x4096'
    """
    try:
        name, *arguments = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise WorkloadError("its workload key is not a JSON list of a name and arguments") from error
    if not isinstance(name, str):
        raise WorkloadError("its workload key does not begin with a name")
    if _HASH.fullmatch(name):
        raise WorkloadError("its workload key is a hash, from which the computation cannot be rebuilt")
    if name not in _FUNCTIONS:
        raise WorkloadError(f"its workload is {name!r:.60}; the known ones are {', '.join(_FUNCTIONS)}")
    _FUNCTIONS[name].check(arguments)
    return WorkloadKey(name, tuple(arguments))


@dataclass(frozen=True)
class _Function:
    """A function that the authors of logs registered with Ansor under this name."""

    parameters: tuple[str, ...]
    tensors: Callable[..., list[Any]]
    """Makes the arguments and the result from the arguments of the key."""
    name: Callable[..., str]
    has_free_layouts: bool = False

    def check(self, arguments: list[Any]) -> None:
        """Compares the arguments with the parameters.

        Raises:
            WorkloadError: They do not fit.
        """
        if len(arguments) != len(self.parameters):
            raise WorkloadError(f"its workload key has {len(arguments)} arguments, not {', '.join(self.parameters)}")
        for parameter, value in zip(self.parameters, arguments, strict=True):
            words = _CHOICES.get(parameter, ())
            if isinstance(value, str) and value in words:
                continue
            if parameter == "dtype":
                raise WorkloadError(
                    f"the dtype in its workload key is {value!r:.40}; the known ones are {', '.join(words)}"
                )
            least = 0 if parameter == "padding" else 1
            if type(value) is not int or not least <= value <= MOST_EXTENT:
                raise WorkloadError(f"the {parameter} in its workload key is {value!r:.40}")


def _conv2d(n: int, ci: int, h: int, w: int, co: int, kh: int, kw: int, stride: int, padding: str | int) -> list[Any]:
    from tvm import te, topi

    data, kernel = te.placeholder((n, ci, h, w), name="data"), te.placeholder((co, ci, kh, kw), name="kernel")
    return [data, kernel, topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")]


def _depthwise(n: int, c: int, h: int, w: int, kh: int, kw: int, stride: int, padding: str | int) -> list[Any]:
    from tvm import te, topi

    data, kernel = te.placeholder((n, c, h, w), name="data"), te.placeholder((c, 1, kh, kw), name="kernel")
    result = topi.nn.depthwise_conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
    return [data, kernel, result]


def _matmul(rows: int, inner: int, columns: int, dtype: str = "float32") -> list[Any]:
    from tvm import te

    a, b = te.placeholder((rows, inner), dtype, name="A"), te.placeholder((inner, columns), dtype, name="B")
    k = te.reduce_axis((0, inner), name="k")
    return [a, b, te.compute((rows, columns), lambda x, y: te.sum(a[x, k] * b[k, y], axis=k), name="C")]


def _mmperf_matmul(rows: int, columns: int, inner: int, dtype: str) -> list[Any]:
    """The sum is of type `dtype` too: mmperf's definition accumulates products of float16 in float16."""
    return _matmul(rows, inner, columns, dtype)


def _batch_matmul(batch: int, heads: int, rows: int, inner: int, columns: int) -> list[Any]:
    from tvm import te, topi

    a = te.placeholder((batch * heads, rows, inner), name="A")
    b = te.placeholder((batch * heads, inner, columns), name="B")
    return [a, b, topi.nn.batch_matmul(a, b, transpose_a=False, transpose_b=False)]


_WINDOW = ("kernel height", "kernel width", "stride", "padding")
_FUNCTIONS: Mapping[str, _Function] = {
    "conv2d_layer": _Function(
        ("batch", "input channels", "height", "width", "output channels", *_WINDOW),
        _conv2d,
        lambda n, ci, h, w, co, kh, kw, s, p: f"conv2d_{n}x{ci}x{h}x{w}_{co}x{kh}x{kw}_s{s}_p{p}",
    ),
    "depthwise_conv2d_layer": _Function(
        ("batch", "channels", "height", "width", *_WINDOW),
        _depthwise,
        lambda n, c, h, w, kh, kw, s, p: f"depthwise_{n}x{c}x{h}x{w}_{kh}x{kw}_s{s}_p{p}",
    ),
    "matmul_layer": _Function(("rows", "inner extent", "columns"), _matmul, lambda m, k, n: f"matmul_{m}x{k}_{k}x{n}"),
    "batch_matmul_layer": _Function(
        ("batch", "heads", "rows", "inner extent", "columns"),
        _batch_matmul,
        lambda b, h, m, k, n: f"batch_matmul_{b * h}x{m}x{k}_{b * h}x{k}x{n}",
    ),
    # Of mmperf/mmperf; the others are of microsoft/nnfusion, which gives the inner extent second.
    "matmul": _Function(
        ("rows", "columns", "inner extent", "dtype"),
        _mmperf_matmul,
        lambda m, n, k, dtype: f"matmul_{m}x{k}_{k}x{n}{'' if dtype == 'float32' else f'_{dtype}'}",
        has_free_layouts=True,
    ),
}
