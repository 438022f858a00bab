"""Draws without replays: the decisions are those that TVM makes with the same seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tvm
from torch import nn, zeros
from tvm.s_tir.schedule import Trace

from costhub.collector.propose import draws as draws_module
from costhub.collector.propose.draws import Draws, Refusals, trace_key
from costhub.collector.propose.register_tiles import MOST_SUMS, RegisterTile
from costhub.collector.propose.sampler import open_design_space
from costhub.collector.propose.spaces import DesignSpace, find_space
from costhub.collector.workloads.relax_import import fuse, import_network
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.trace import CHOICE, LOCATION, TILE

TARGET = '{"kind": "llvm", "num-cores": 2}'
SEEDS = range(1, 25)


@pytest.fixture(scope="module")
def blocked() -> tuple[Any, list[Any]]:
    """The context and the sketches of a convolution in blocked layouts; where a padding goes, replays alone draw."""
    layer = nn.Conv2d(32, 64, 1, bias=False).eval()
    mod, _ = import_network(layer, (zeros(1, 32, 8, 12),), lanes=8)
    fused = fuse(mod, tvm.target.Target({"kind": "llvm", "num-cores": 2}))
    found = next(function for name, function in fused.functions.items() if "conv2d" in name.name_hint)
    kernel = tvm.IRModule({"main": found.with_attr("global_symbol", "main")})
    return open_design_space(kernel, TARGET, find_space("blocked"), seed=0)


def decisions(trace: Any) -> list[tuple[str, Any]]:
    """Kind and decision of each instruction that samples."""
    own = trace.decisions
    found = []
    for instruction in trace.insts:
        if instruction in own:
            value = own[instruction]
            found.append(
                (str(instruction.kind.name), list(map(int, value)) if hasattr(value, "__len__") else int(value))
            )
    return found


def replayed(context: Any, sketches: list[Any], trace: Any, seed: int) -> Any:
    schedule = DesignSpace(context, sketches).finish(trace, seed)
    return None if schedule is None else schedule.trace


def drawn_as_replayed(draws: Draws, context: Any, sketches: list[Any]) -> Iterator[Any]:
    """Traces drawn for each sketch and seed, compared with their replay where that succeeds."""
    for sketch in sketches:
        bare = Trace(sketch.trace.insts, {})
        for seed in SEEDS:
            found, real = draws.decided(bare, seed), replayed(context, sketches, bare, seed)
            if real is not None:
                assert decisions(found) == decisions(real)
                assert trace_key(found) == trace_key(real)
                yield found


def test_drawn_decisions_are_those_of_the_replay_with_the_same_seed(blocked: tuple[Any, list[Any]]) -> None:
    context, sketches = blocked
    draws = Draws(sketches)
    compared = [trace_key(found) for found in drawn_as_replayed(draws, context, sketches)]

    assert len(compared) > len(SEEDS)
    assert len(set(compared)) > 8
    assert {TILE, CHOICE} == {kind for kind, _ in decisions(draws.decided(Trace(sketches[0].trace.insts, {}), 1))}


def test_a_draw_does_not_depend_on_those_before_it(
    blocked: tuple[Any, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sketches = blocked
    monkeypatch.setattr(draws_module, "_MOST_RECORDED", 20)
    draws = Draws(sketches)
    bare = [Trace(sketch.trace.insts, {}) for sketch in sketches]

    found = [decisions(draws.decided(trace, seed)) for seed in SEEDS for trace in bare]

    assert found == [decisions(Draws(sketches).decided(trace, seed)) for seed in SEEDS for trace in bare]
    assert len({str(each) for each in found}) > 8


def test_decisions_that_are_made_are_kept_and_use_up_no_random_number(blocked: tuple[Any, list[Any]]) -> None:
    context, sketches = blocked
    draws, own = Draws(sketches), sketches[0].trace
    kept = {instruction: value for place, (instruction, value) in enumerate(own.decisions.items()) if place % 2}
    half = Trace(own.insts, kept)

    found = [draws.decided(half, seed) for seed in SEEDS]

    real = [replayed(context, sketches, half, seed) for seed in SEEDS]
    pairs = [(one, other) for one, other in zip(found, real, strict=True) if other is not None]
    assert pairs
    assert all(decisions(one) == decisions(other) for one, other in pairs)
    assert all(found[0].decisions[instruction] == value for instruction, value in kept.items())
    assert draws.decided(own, 1) is own


def test_what_only_a_replay_can_draw_is_left_to_it() -> None:
    _, sketches = open_design_space(find_workload("softmax.64x1000").module(), TARGET, find_space("default"), seed=0)
    kinds = {str(i.kind.name) for sketch in sketches for i in sketch.trace.insts}
    assert "SampleComputeLocation" in kinds

    draws = Draws(sketches)
    found = {draws.decided(Trace(sketch.trace.insts, {}), 1) is None for sketch in sketches}

    assert True in found
    whole = [sketch.trace for sketch in sketches]
    assert all(draws.decided(trace, 1) is trace for trace in whole)


def depthwise() -> tuple[Any, Any, list[Any]]:
    """A convolution whose padding has many places to go, with its context and sketches."""
    layer = nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False).eval()
    mod, _ = import_network(layer, (zeros(1, 32, 8, 12),), lanes=8)
    fused = fuse(mod, tvm.target.Target({"kind": "llvm", "num-cores": 2}))
    found = next(function for name, function in fused.functions.items() if "depthwise" in name.name_hint)
    kernel = tvm.IRModule({"main": found.with_attr("global_symbol", "main")})
    return kernel, *open_design_space(kernel, TARGET, find_space("blocked"), seed=0)


def softmax() -> tuple[Any, Any, list[Any]]:
    """A kernel with several blocks that have a few places each, or one, next to its context and sketches."""
    mod = find_workload("softmax.64x1000").module()
    return mod, *open_design_space(mod, TARGET, find_space("default"), seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [depthwise, softmax])
def test_places_are_those_of_the_replay_with_the_same_seed(
    kernel: Callable[[], tuple[Any, Any, list[Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draws_module, "_FEW", 10_000)
    mod, context, sketches = kernel()
    compared = [
        value
        for found in drawn_as_replayed(Draws(sketches, mod), context, sketches)
        for kind, value in decisions(found)
        if kind == LOCATION
    ]

    assert len(compared) > len(SEEDS)
    assert len(set(compared)) > 2


def test_places_that_are_asked_for_once_are_left_to_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(*args: Any) -> Any:
        asked.append(args)
        return all_places(*args)

    all_places = draws_module._all_places
    monkeypatch.setattr(draws_module, "_all_places", note)

    def known(kernel: tuple[Any, Any, list[Any]]) -> list[bool]:
        asked.clear()
        mod, _, sketches = kernel
        draws = Draws(sketches, mod)
        return [draws.decided(Trace(each.trace.insts, {}), seed) is not None for each in sketches for seed in SEEDS]

    assert sum(known(softmax())) < len(SEEDS)
    assert len(asked) == draws_module._FEW
    assert all(known(depthwise()))
    assert 1 < len(asked) < len(SEEDS)


def test_keys_ignore_post_processing_and_tell_decisions_apart(blocked: tuple[Any, list[Any]]) -> None:
    context, sketches = blocked
    draws, bare = Draws(sketches), Trace(sketches[0].trace.insts, {})
    found = [draws.decided(bare, seed) for seed in SEEDS]

    by_key = {trace_key(trace): decisions(trace) for trace in found}

    assert len(by_key) == len({str(decisions(trace)) for trace in found}) > 1
    real = next(trace for trace in (replayed(context, sketches, each, 1) for each in found) if trace is not None)
    assert "EnterPostproc" in {str(i.kind.name) for i in real.insts}
    assert by_key[trace_key(real)] == decisions(real)


def wide(outputs: int, places: int) -> tuple[Any, list[Any]]:
    """The context and the sketches of a convolution on a CPU with many registers."""
    target = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "skylake-avx512", "num-cores": 2}
    layer = nn.Conv2d(32, outputs, 1, bias=False).eval()
    mod, _ = import_network(layer, (zeros(1, 32, 2, places),), lanes=8)
    fused = fuse(mod, tvm.target.Target(target))
    found = next(function for name, function in fused.functions.items() if "conv2d" in name.name_hint)
    kernel = tvm.IRModule({"main": found.with_attr("global_symbol", "main")})
    return open_design_space(kernel, json.dumps(target), find_space("blocked"), seed=0)


def test_tiles_that_post_processing_refuses_are_told_without_a_replay() -> None:
    context, sketches = wide(64, 24)
    draws, refusals = Draws(sketches), Refusals(context.space_generator.postprocs, sketches)
    found = [draws.decided(Trace(sketch.trace.insts, {}), seed) for sketch in sketches for seed in SEEDS]

    refused = [refusals.refuses(trace) for trace in found]

    tiles = [RegisterTile.of(trace) for trace in found]
    assert refused == [tile is not None and not tile.fits(MOST_SUMS) for tile in tiles]
    assert set(refused) == {True, False}
    made = [replayed(context, sketches, trace, 1) for trace in found]
    assert all(trace is None for trace, is_refused in zip(made, refused, strict=True) if is_refused)
    assert any(made)


def test_what_decisions_alone_do_not_tell_is_left_to_the_replay() -> None:
    context, sketches = wide(64, 24)
    refusals = Refusals(context.space_generator.postprocs, sketches)
    refused = next(
        trace
        for seed in range(1, 99)
        if refusals.refuses(trace := Draws(sketches).decided(Trace(sketches[0].trace.insts, {}), seed))
    )

    assert not refusals.refuses(Trace(refused.insts, {}))
    _, others = wide(96, 24)
    # The same factors in a convolution of other sizes, where a replay would replace them.
    assert not Refusals(context.space_generator.postprocs, others).refuses(refused)
    assert not Refusals(context.space_generator.postprocs[1:], sketches).refuses(refused)
    assert not Refusals((), sketches).refuses(refused)
