"""The sampler: programs of the design space, each once, at random or near given ones."""

from __future__ import annotations

import pytest

from costhub.collector.sampler import Sampler
from costhub.collector.suite import find_workload
from costhub.errors import WorkloadError


@pytest.fixture(scope="module")
def sampler(target: str) -> Sampler:
    return Sampler(find_workload("matmul.128x128x128").module(), target, seed=5)


def test_no_program_comes_twice(sampler: Sampler) -> None:
    programs = sampler.random(20) + sampler.random(20)
    programs += sampler.mutate([p.trace for p in programs[:4]], 20)
    assert len({p.program_id for p in programs}) == len(programs) >= 50


def test_mutations_stay_near_their_parents(sampler: Sampler) -> None:
    import json

    parent = sampler.random(1)[0]
    children = sampler.mutate([parent.trace], 10)

    def decisions(trace: str) -> list[object]:
        return [d for _, d in sorted(json.loads(trace)[1])]

    assert {p.proposed_by for p in children} == {"mutation"}
    for child in children:
        ours, theirs = decisions(parent.trace), decisions(child.trace)
        assert len(ours) == len(theirs)
        # Up to three mutations, and a tile mutation changes one split.
        assert 0 < sum(a != b for a, b in zip(ours, theirs, strict=True)) <= 4


def test_the_same_seed_draws_the_same_programs(target: str) -> None:
    mod = find_workload("softmax.64x1000").module()
    first, second = (Sampler(mod, target, seed=9).random(5) for _ in range(2))
    assert [p.program_id for p in first] == [p.program_id for p in second]


def test_seen_programs_are_not_drawn_again(target: str) -> None:
    mod = find_workload("softmax.64x1000").module()
    seen = frozenset(p.program_id for p in Sampler(mod, target, seed=9).random(5))
    again = Sampler(mod, target, seed=9, seen=seen).random(5)
    assert not seen & {p.program_id for p in again}


def test_a_small_space_runs_out_without_a_loop(target: str) -> None:
    import tvm
    from tvm import te

    a = te.placeholder((4,), name="A")
    function = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name="C")])
    programs = Sampler(tvm.IRModule({"main": function}), target, seed=1).random(50)
    assert 1 <= len(programs) < 50


def test_a_workload_that_cannot_be_scheduled_is_refused(target: str) -> None:
    import tvm
    from tvm.script import tirx as T

    @T.prim_func
    def nothing(a: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def, valid-type, type-arg]
        T.evaluate(0)

    with pytest.raises(WorkloadError, match="no block"):
        Sampler(tvm.IRModule({"main": nothing}), target, seed=0)
