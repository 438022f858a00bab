"""Decisions carried over to another workload: tiles divide its loops, and what comes out replays or is dropped."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from costhub.collector.device.local import local_target
from costhub.collector.propose.sampler import Sampler, open_design_space
from costhub.collector.propose.spaces import DEFAULT, DesignSpace, find_space
from costhub.collector.workloads.suites import SuiteWorkload
from costhub.dataset.trace import trace_to_json
from costhub.search.zero_trials.carry import SketchTraces, TraceDecisions, rescaled

CORES = 2


def target() -> str:
    return json.dumps(local_target(threads=CORES))


def space(mod: Any) -> tuple[DesignSpace, SketchTraces]:
    context, sketches = open_design_space(mod, target(), find_space(DEFAULT), 0)
    return DesignSpace(context, sketches), SketchTraces(sketches, CORES)


def decisions_of(mod: Any, count: int) -> list[TraceDecisions]:
    read = [TraceDecisions.read(each.trace) for each in Sampler(mod, target(), seed=1).random(count)]
    assert all(read)
    return [each for each in read if each]


def workload(operator: str, *sizes: int) -> Any:
    return SuiteWorkload("made", operator, sizes).module()


def matmul(*sizes: int) -> Any:
    return workload("matmul", *sizes)


@pytest.mark.parametrize("shared", [False, True])
def test_rescaled_tiles_divide_the_new_extent_and_keep_vectors_that_divide_it(shared: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        factors = rng.integers(1, 17, size=rng.integers(1, 5)).tolist()
        extent, limit = int(rng.integers(1, 2000)), int(rng.choice([0, 8, 64]))
        new = rescaled(factors, extent, innermost=limit, shared=shared)

        assert math.prod(new) == extent
        assert len(new) == len(factors)
        if len(factors) > 1:
            assert not 0 < limit < new[-1]
            if extent % factors[-1] == 0 and math.prod(factors) != extent and not 0 < limit < factors[-1]:
                assert new[-1] == factors[-1]


def test_the_outermost_tile_takes_up_the_difference_or_all_but_vectors_share_it() -> None:
    assert rescaled([4, 4, 1, 16], 4096) == (64, 4, 1, 16)
    assert rescaled([4, 4, 1, 16], 4096 * 2, shared=True) == (8, 16, 4, 16)


@pytest.mark.parametrize(
    "trace",
    [
        "nothing",
        "[[],1]",
        '[[["SamplePerfectTile",["l1"],[2,64],["v1","v2"]]],[[0,[-8,16]]]]',
        '[[["SamplePerfectTile",["l1"],[2,64],["v1","v2"]]],[[0,[8,16,2]]]]',
        '[[["SamplePerfectTile",["l1"],[2,64],["v1","v2"]]],[[0,[8,1e400]]]]',
        '[[["SamplePerfectTile",["l1"],7,["v1","v2"]]],[[0,[8,16]]]]',
        '[[["SamplePerfectTile",["l1"],[2,64],["v1","v2"]]],[]]',
        '[[["SampleCategorical",[],[[0,16],[0.5,0.5]],["v1"]]],[[0,2]]]',
        '[[["SampleCategorical",[],{},["v1"]]],[[0,1]]]',
        '[[["SampleComputeLocation",["b0"],[],["l1"]]],[[0,"a"]]]',
        '[[["SampleComputeLocation",["b0"],[],["l1"]]],[[0,1000000000000000000000000000000]]]',
        '[["GetSBlock"],[]]',
        '[[["Annotate",["b0",2305843009213693952],["meta_schedule.parallel"],[]]],[]]',
        '[[["Annotate",["b0",-1],["meta_schedule.parallel"],[]]],[]]',
    ],
)
def test_traces_that_tvm_does_not_write_are_not_read(trace: str) -> None:
    assert TraceDecisions.read(trace) is None


def test_a_schedule_of_the_same_workload_is_the_same_program_whatever_blocks_are_called() -> None:
    import tvm

    mod = matmul(64, 64, 64)
    renamed = tvm.script.from_source(mod.script().replace('T.sblock("C")', 'T.sblock("product")'))
    design, sketches = space(mod)
    _, of_renamed = space(renamed)
    for program in Sampler(mod, target(), seed=3).random(6):
        known = TraceDecisions.read(program.trace)
        assert known is not None
        assert sketches.knows(known)
        (trace,) = sketches.unchanged(known, CORES)
        schedule = design.finish(trace, 1)

        assert trace_to_json(schedule.trace) == program.trace
        assert of_renamed.knows(known)


@pytest.mark.parametrize(
    ("known", "new"),
    [
        (("matmul", 64, 64, 64), ("matmul", 96, 320, 17)),
        (("conv2d", 1, 14, 14, 16, 32, 3, 1, 1), ("conv2d", 1, 28, 28, 24, 64, 3, 1, 1)),
    ],
)
def test_carried_decisions_replay_or_are_dropped(known: tuple[Any, ...], new: tuple[Any, ...]) -> None:
    source, mod = (workload(*each) for each in (known, new))
    design, sketches = space(mod)
    tried = made = 0
    for decisions in decisions_of(source, 8):
        assert not sketches.knows(decisions)
        assert 0 < sketches.distance(decisions) < math.inf
        for trace in sketches.carried(decisions, CORES):
            schedule = design.finish(trace, 1)
            tried += 1
            if schedule is not None:
                made += 1
                again = TraceDecisions.read(trace_to_json(schedule.trace))
                assert again is not None
                assert sketches.knows(again), "it is a program of the new workload's own space"
    assert 0 < made <= tried


def test_nothing_carries_over_between_operators() -> None:
    _, sketches = space(matmul(64, 64, 64))

    for decisions in decisions_of(workload("conv2d", 1, 14, 14, 16, 32, 3, 1, 1), 4):
        assert sketches.distance(decisions) == math.inf
        assert sketches.carried(decisions, CORES) == []


def test_the_most_parallel_tasks_follow_the_cores() -> None:
    mod = matmul(64, 64, 64)
    _, sketches = space(mod)
    (known,) = decisions_of(mod, 1)

    for cores, tasks in ((CORES, 32), (2 * CORES, 16), (1, 64)):
        (trace,) = sketches.unchanged(known, cores)
        (annotated,) = [i for i in trace.insts if i.kind.name == "Annotate" and i.attrs[0] == "meta_schedule.parallel"]
        assert int(annotated.inputs[1]) == tasks
