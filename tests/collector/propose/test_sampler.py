"""Programs of a design space: by shares of random ones, mutations and picks of a model, each at most once."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.collector.propose.draws import TracePreview
from costhub.collector.propose.sampler import POOL_PER_PROGRAM, RANDOM_FIRST, Program, Sampler, Shares, Turns
from costhub.collector.propose.spaces import DesignSpace, NamedSpace
from costhub.collector.workloads.suites import SuiteWorkload, find_workload
from costhub.dataset.trace import replay
from costhub.dataset.workload import module_from_json
from costhub.errors import ArgumentError, UnknownNameError, WorkloadError


def test_a_source_that_is_not_named_has_no_share() -> None:
    assert Shares.parse("random=0.5, mutation=0.3, model=0.2") == Shares(0.5, 0.3, 0.2)
    assert Shares.parse("random=1") == Shares(1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("random=0.5,mutation=0.4", "sum to 1"),
        ("random=1.5,model=-0.5", "between 0 and 1"),
        ("random=nan", "sum to 1"),
        ("random=0.5,luck=0.5", "'luck' is not a source"),
        ("random=half,model=0.5", "'random' is not a source"),
        ("random=0.5,random=0.5", "twice"),
        ("", "are not of the form"),
    ],
)
def test_what_is_not_a_share_is_refused_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        Shares.parse(text)


@given(
    st.tuples(*[st.integers(0, 9)] * 3).filter(any),
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
)
def test_many_small_requests_keep_the_shares(parts: tuple[int, ...], counts: list[int]) -> None:
    shares = [part / sum(parts) for part in parts]
    turns = Turns()
    taken = [turns.take(count, Shares(*shares)) for count in counts]

    assert [sum(t) for t in taken] == counts
    for source, share in enumerate(shares):
        # Never more than two programs off, however the requests are cut.
        assert abs(sum(t[source] for t in taken) - share * sum(counts)) < 2


def test_a_source_without_a_share_has_no_turn_whatever_it_was_owed() -> None:
    turns = Turns()
    turns.take(1, Shares(0.5, 0.25, 0.25))
    assert turns.take(5, Shares(1, 0, 0)) == (5, 0, 0)


RAISES = """
def space(target):
    def schedule(sch):
        raise ValueError("first line\\nno such tile")
    return schedule
"""
ALL_THREE = Shares(0.5, 0.3, 0.2)


class LongerIsBetter:
    """Scores a schedule by the length of its module; remembers all that it was asked."""

    def __init__(self) -> None:
        self.pools: list[np.ndarray[Any, Any]] = []

    def score(self, context: Any, schedules: Sequence[Any]) -> np.ndarray[Any, Any]:
        scores = np.array([float(len(schedule.mod.script())) for schedule in schedules])
        self.pools.append(scores)
        return scores


def decisions(trace: str) -> list[object]:
    return [d for _, d in sorted(json.loads(trace)[1])]


@pytest.fixture(scope="module")
def sampler(target: str) -> Sampler:
    return Sampler(find_workload("matmul.128x128x128").module(), target, seed=5)


def test_no_program_comes_twice(sampler: Sampler) -> None:
    programs = sampler.random(20) + sampler.random(20)
    programs += sampler.mutate([p.trace for p in programs[:4]], 20)
    programs += sampler.guide([p.trace for p in programs[:4]], 4, LongerIsBetter())
    assert len({p.program_id for p in programs}) == len(programs) >= 54
    assert len({p.module_json for p in programs}) == len(programs)


def test_mutations_stay_near_their_parents(sampler: Sampler) -> None:
    parent = sampler.random(1)[0]
    children = sampler.mutate([parent.trace], 10)

    assert {p.proposed_by for p in children} == {"mutation"}
    for child in children:
        ours, theirs = decisions(parent.trace), decisions(child.trace)
        assert len(ours) == len(theirs)
        # Up to three mutations, and a tile mutation changes one split.
        assert 0 < sum(a != b for a, b in zip(ours, theirs, strict=True)) <= 4


def test_shares_are_kept_over_many_small_requests(target: str) -> None:
    sampler = Sampler(find_workload("matmul.128x128x128").module(), target, seed=6)
    parents = [p.trace for p in sampler.random(RANDOM_FIRST)[:4]]

    programs: list[Program] = []
    for count in (7, 7, 6):
        programs += sampler.propose(count, parents=parents, shares=ALL_THREE, scorer=LongerIsBetter())

    assert Counter(p.proposed_by for p in programs) == {"random": 10, "mutation": 6, "model": 4}
    assert len({p.program_id for p in programs}) == 20


def test_the_first_programs_are_not_mutated(target: str) -> None:
    sampler = Sampler(find_workload("softmax.64x1000").module(), target, seed=6)
    first = sampler.propose(8, parents=(), shares=Shares())
    second = sampler.propose(8, parents=[first[0].trace], shares=Shares())
    assert Counter(p.proposed_by for p in first + second) == {"random": 16}


def test_a_model_picks_the_best_of_its_pool(sampler: Sampler) -> None:
    scorer = LongerIsBetter()
    programs = sampler.guide((), 6, scorer)

    (pool,) = scorer.pools
    assert len(pool) == 6 * POOL_PER_PROGRAM
    scores = [p.predicted_score or 0.0 for p in programs]
    assert {p.proposed_by for p in programs} == {"model"}
    assert np.median(scores) > np.median(pool)
    assert max(pool) in scores


def test_a_share_for_a_model_needs_one(sampler: Sampler) -> None:
    with pytest.raises(ArgumentError, match="--model"):
        sampler.propose(4, parents=(), shares=ALL_THREE)


def test_the_same_seed_draws_the_same_programs(target: str) -> None:
    mod = find_workload("matmul.128x128x128").module()
    drawn = []
    for _ in range(2):
        sampler = Sampler(mod, target, seed=9)
        first = sampler.random(RANDOM_FIRST)
        parents = [p.trace for p in first[:4]]
        drawn.append(first + sampler.propose(10, parents=parents, shares=ALL_THREE, scorer=LongerIsBetter()))
    assert [p.program_id for p in drawn[0]] == [p.program_id for p in drawn[1]]


def test_seen_programs_are_not_drawn_again(target: str) -> None:
    mod = find_workload("softmax.64x1000").module()
    seen = frozenset(p.program_id for p in Sampler(mod, target, seed=9).random(5))
    again = Sampler(mod, target, seed=9, seen=seen).random(5)
    assert not seen & {p.program_id for p in again}


@pytest.mark.slow
def test_programs_that_are_drawn_again_are_not_made_again(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mod = SuiteWorkload("matmul.tiny", "matmul", (1, 4, 8)).module()
    made: list[Any] = []
    finish = DesignSpace.finish

    def counted(self: DesignSpace, trace: Any, seed: int) -> Any:
        made.append(finish(self, trace, seed))
        return made[-1]

    def drawn(sampler: Sampler) -> list[str]:
        first = sampler.random(RANDOM_FIRST)
        parents = [p.trace for p in first[:4]]
        rest = [sampler.propose(32, parents=parents, shares=ALL_THREE, scorer=LongerIsBetter()) for _ in range(3)]
        return [p.program_id for p in [*first, *(program for programs in rest for program in programs)]]

    monkeypatch.setattr(DesignSpace, "finish", counted)
    quick, made_quickly = drawn(Sampler(mod, target, seed=9)), len(made)
    made.clear()
    monkeypatch.setattr(TracePreview, "decided", lambda self, trace, seed: (trace, None))
    monkeypatch.setattr(TracePreview, "refuses", lambda self, trace: False)

    assert quick == drawn(Sampler(mod, target, seed=9))
    assert made_quickly < len(made) / 2


def test_a_small_space_runs_out_without_a_loop(target: str) -> None:
    import tvm
    from tvm import te

    a = te.placeholder((4,), name="A")
    function = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1.0, name="C")])
    sampler = Sampler(tvm.IRModule({"main": function}), target, seed=1)

    assert 1 <= len(sampler.random(50)) < 50
    assert sampler.propose(8, parents=(), shares=ALL_THREE, scorer=LongerIsBetter()) == []


def test_a_workload_that_cannot_be_scheduled_is_refused(target: str) -> None:
    import tvm
    from tvm.script import tirx as T

    @T.prim_func
    def nothing(a: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def, valid-type, type-arg]
        T.evaluate(0)

    with pytest.raises(WorkloadError, match="no block"):
        Sampler(tvm.IRModule({"main": nothing}), target, seed=0)


def test_programs_say_their_space_and_an_unknown_one_is_refused(target: str) -> None:
    mod = find_workload("softmax.64x1000").module()
    assert {p.space for p in Sampler(mod, target, seed=1, space="llvm").random(2)} == {"llvm"}
    with pytest.raises(UnknownNameError, match="vnni"):
        Sampler(mod, target, seed=1, space="vni")


def test_an_error_in_a_users_code_is_told_by_its_last_line(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules_that_raise.py").write_text(RAISES)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(WorkloadError, match="'rules_that_raise:space' failed with ValueError: no such tile"):
        Sampler(find_workload("softmax.64x1000").module(), target, seed=1, space="rules_that_raise:space")


@pytest.mark.slow
def test_tensor_core_programs_need_no_gpu_and_replay() -> None:
    """Half-precision products of a GPU's default space name the wmma intrinsics, and replay with them."""
    import tvm_ffi

    gpu = {
        "kind": "cuda",
        "arch": "sm_90",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
    }
    mod = find_workload("float16.512x512x512").module()
    for space in ("default", "tensor-core"):
        (program,) = Sampler(mod, json.dumps(gpu), seed=1, space=space).random(1)
        named = [i[2][0] for i in json.loads(program.trace)[0] if i[0] == "Tensorize"]
        assert any(name.startswith("wmma_sync_16x16x16_f16f16f16") for name in named)
        replayed = replay(mod, program.trace).mod
        assert tvm_ffi.structural_equal(replayed, module_from_json(program.module_json))


@pytest.mark.parametrize("place", [(NamedSpace, "generator"), (DesignSpace, "finish")], ids=["open", "draw"])
def test_an_interruption_in_code_that_tvm_calls_is_no_failure_of_the_workload(
    target: str, place: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TVM's C++ makes a RuntimeError of a KeyboardInterrupt that passes through it."""
    import tvm_ffi

    def interrupted(*_: object) -> None:
        tvm_ffi.convert(lambda: signal.raise_signal(signal.SIGINT))()

    monkeypatch.setattr(*place, interrupted)
    with pytest.raises(KeyboardInterrupt):
        Sampler(find_workload("softmax.64x1000").module(), target, seed=0).random(1)


def test_a_parent_that_does_not_replay_any_more_is_left_out(target: str) -> None:
    sampler = Sampler(find_workload("matmul.128x128x128").module(), target, seed=1)
    good = sampler.random(RANDOM_FIRST)[0].trace
    instructions, _ = json.loads(good)
    gone = json.dumps([[["GoneInstruction", [], [], []], *instructions], []])

    found = sampler.propose(8, parents=[gone, good], shares=Shares(random=0.0, mutation=1.0))

    assert {program.proposed_by for program in found} == {"mutation"}
    assert {program.proposed_by for program in sampler.propose(4, parents=[gone], shares=Shares())} == {"random"}
