"""How often a program is called, and on what: no zeros, no denormals, and no index out of range."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.collector.build.builder import build_library
from costhub.collector.propose.sampler import Program
from costhub.collector.run import evaluator as module_under_test
from costhub.collector.run.evaluator import COLLECTING, Evaluator, forget, nbytes, on_device, on_host, take

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn")


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_are_neither_zero_nor_denormal_nor_all_the_same(dtype: str) -> None:
    (values,) = on_host(((dtype, (64, 65)),))
    assert str(values.dtype) == dtype
    plain = values.astype(np.float64)
    assert plain.min() > 0.09
    assert plain.max() <= 1.0
    assert np.unique(plain).size > 10


def test_both_halves_of_a_float32_are_such_numbers_in_bfloat16() -> None:
    """Or kernels of pairs would multiply infinities and NaN."""
    (values,) = on_host((("float32", (64, 65)),))
    bits = values.view(np.uint32)
    low, high = (bits << 16).view(np.float32), (bits & 0xFFFF0000).view(np.float32)
    for half in (low, high):
        assert half.min() > 0.09
        assert half.max() <= 1.0
    assert (low != high).mean() > 0.9
    (scalar,) = on_host((("float32", ()),))
    assert (type(scalar), scalar.shape) == (np.ndarray, ())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint32"])
def test_integers_are_small_and_not_zero(dtype: str) -> None:
    (values,) = on_host(((dtype, (100, 200)),))
    assert str(values.dtype) == dtype
    assert set(np.unique(values).tolist()) == set(range(1, 8))


def test_an_index_stays_within_every_extent_over_one() -> None:
    table, index, scalar = on_host((("float32", (1, 3, 64)), ("int64", (50,)), ("int32", ())))
    assert table.shape == (1, 3, 64)
    assert set(index.tolist()) == {1, 2}
    assert scalar.shape == ()


def test_truth_values_are_of_both_kinds() -> None:
    (values,) = on_host((("bool", (100,)),))
    assert values.dtype == bool
    assert set(values.tolist()) == {True, False}


def test_they_are_the_same_every_time() -> None:
    wanted = (("float32", (4, 4)), ("int8", (9,)))
    assert all(np.array_equal(a, b) for a, b in zip(on_host(wanted), on_host(wanted), strict=True))


@pytest.mark.parametrize("dtype", [*FLOATS, "bool", "int8"])
def test_devices_take_them(dtype: str) -> None:
    import tvm

    (tensor,) = on_device(((dtype, (3, 5)),), "cpu", tvm.cpu())
    assert tensor.dtype == dtype
    assert np.array_equal(tensor.numpy().view(np.uint8), on_host(((dtype, (3, 5)),))[0].view(np.uint8))


def test_they_are_kept_until_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    import tvm

    small, other = (("float32", (8,)),), (("float32", (9,)),)
    forget()
    kept = on_device(small, "cpu", tvm.cpu())
    assert on_device(small, "cpu", tvm.cpu()) is kept
    monkeypatch.setattr(module_under_test, "ARGUMENT_CACHE_BYTES", nbytes(small))
    on_device(other, "cpu", tvm.cpu())
    assert on_device(small, "cpu", tvm.cpu()) is not kept


@dataclass
class Loaded:
    """A program and what it is called with."""

    module: Any
    device: Any
    arguments: list[Any]


@pytest.fixture(scope="module")
def loaded(target: str, programs: list[Program], tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    import tvm

    path = str(tmp_path_factory.mktemp("evaluator") / "p.so")
    reply = build_library(programs[0].module_json, target, path)
    assert reply is not None
    assert reply.error is None
    device = tvm.cpu()
    return Loaded(tvm.runtime.load_module(path), device, on_device(programs[0].arguments, "cpu", device))


def test_by_default_it_is_tvms(loaded: Loaded) -> None:
    assert Evaluator() == Evaluator(number=1, repeat=3, min_repeat_ms=10, cache_flush=False, max_repeat=None)
    assert len(take(loaded.module, loaded.device, loaded.arguments, Evaluator(min_repeat_ms=1))) == 3


def test_repeats_go_on_until_they_agree_or_the_cap(loaded: Loaded) -> None:
    easy = Evaluator(repeat=2, min_repeat_ms=1, max_repeat=6, agree=1e9)
    assert len(take(loaded.module, loaded.device, loaded.arguments, easy)) == 2
    impossible = replace(easy, agree=-1.0)
    assert len(take(loaded.module, loaded.device, loaded.arguments, impossible)) == 6


def test_half_of_the_repeats_must_be_near_the_fastest() -> None:
    evaluator = Evaluator(repeat=2, max_repeat=5, agree=0.02)
    assert not evaluator.is_enough([1.0, 1.1])
    assert not evaluator.is_enough([1.0, 1.1, 1.03])
    assert evaluator.is_enough([1.0, 1.1, 1.01])
    assert evaluator.is_enough([1.0, 2.0, 3.0, 4.0, 5.0]), "the cap"
    assert COLLECTING.max_repeat is not None


def test_a_slow_program_is_timed_once(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_under_test, "SLOW_CALL_S", 0.0)
    run_s = take(loaded.module, loaded.device, loaded.arguments, Evaluator())
    assert len(run_s) == 1
    assert run_s[0] > 0


def test_a_flush_comes_before_every_call() -> None:
    flushing = Evaluator(cache_flush=True)
    assert (flushing.number, flushing.min_repeat_ms) == (1, 0)
    assert replace(COLLECTING, cache_flush=True).min_repeat_ms == 0


def test_what_a_flush_removes_from_the_caches_is_slower_to_read(target: str, tmp_path: Path) -> None:
    import tvm
    from tvm import te

    from costhub.dataset.workload import module_to_json

    size = 1 << 15  # 128 KiB each: in a second level cache, and never in one after a flush
    a, b = (te.placeholder((size,), name=name) for name in "AB")
    added = te.create_prim_func([a, b, te.compute((size,), lambda i: a[i] + b[i], name="C")])
    module = tvm.IRModule({"main": added.with_attr("global_symbol", "main")})
    path = str(tmp_path / "added.so")
    reply = build_library(module_to_json(module), target, path)
    assert reply is not None
    assert reply.error is None
    device = tvm.cpu()
    arguments = on_device((("float32", (size,)),) * 3, "cpu", device)
    loaded = tvm.runtime.load_module(path)
    cold = take(loaded, device, arguments, Evaluator(repeat=20, cache_flush=True))
    warm = take(loaded, device, arguments, Evaluator(number=1, repeat=20, min_repeat_ms=0))
    assert len(cold) == 20
    # The least of many: what else runs on the machine only ever adds.
    assert min(cold) > 1.2 * min(warm)


def test_one_call_includes_the_wait_for_the_device(loaded: Loaded) -> None:
    @dataclass
    class Slow:
        sync: Callable[[], None]

    seconds = module_under_test.one_call(loaded.module, Slow(lambda: time.sleep(0.05)), loaded.arguments)
    assert seconds >= 0.05
