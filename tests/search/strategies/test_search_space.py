"""What every strategy builds on: programs that TVM accepts, scored once, proposed once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from torch import nn, zeros

from costhub.collector.propose.sampler import open_design_space
from costhub.collector.propose.spaces import find_space
from costhub.collector.workloads.relax_import import fuse, import_network
from costhub.collector.workloads.suites import SuiteWorkload
from costhub.search.strategies.search_space import MIN_SCORE, SearchSpace


def test_random_programs_are_different_and_hold_together(space: SearchSpace) -> None:
    programs = space.random(24)

    assert len({program.structure for program in programs}) == len(programs) == 24
    for program in programs:
        assert "EnterPostproc" in [str(i.kind.name) for i in program.trace.insts]


def test_equal_seeds_draw_equal_programs_whatever_the_threads(new_space: Callable[..., SearchSpace]) -> None:
    one, two, other = new_space(seed=1), new_space(seed=1), new_space(seed=2)
    one._threads, two._threads = 1, 4

    drawn = [[program.structure for program in each.random(12)] for each in (one, two, other)]

    assert drawn[0] == drawn[1] != drawn[2]


def test_neighbours_differ_a_little(space: SearchSpace) -> None:
    (program,) = space.random(1)

    near = [p for p in space.neighbours([program.trace] * 16) if p is not None]

    assert len({p.structure for p in near}) > 4
    for other in near:
        pairs = zip(program.trace.insts, other.trace.insts, strict=False)
        changed = [
            str(program.trace.get_decision(a)) != str(other.trace.get_decision(b))
            for a, b in pairs
            if a.kind.name.startswith("Sample")
        ]
        assert sum(changed) <= 2


def test_a_program_is_scored_once_in_a_round(new_space: Callable[..., SearchSpace], likes: Any) -> None:
    space = new_space()
    model, programs = space._cost_model, space.random(6)

    scores = space.score([*programs, *programs])
    space.score(programs[:3])
    assert model.asked == [6]
    np.testing.assert_allclose(scores, [likes(program.schedule) for program in programs] * 2)

    space.new_round()
    space.score(programs[:3])
    assert model.asked == [6, 3]


def test_the_best_are_proposed_once(space: SearchSpace) -> None:
    programs = space.random(12)
    scores = space.score(programs)
    order = [programs[place].structure for place in np.argsort(-scores, kind="stable")]

    first, second = space.best_new(4), space.best_new(20)

    by_structure = dict(zip((p.structure for p in programs), scores.tolist(), strict=True))
    assert [by_structure[p.structure] for p in first] == [by_structure[s] for s in order[:4]]
    assert {p.structure for p in first + second} == set(order)
    assert space.best_new(1) == space.propose(programs) == []
    assert not {p.structure for p in space.random(12)} & set(order)


@pytest.mark.parametrize("told", [0.0, -3.0, float("nan")])
def test_a_model_that_gives_nothing_useful_gives_the_least_score(
    new_space: Callable[..., SearchSpace], told: float
) -> None:
    class Odd:
        def predict(self, context: Any, candidates: Any) -> Any:
            return np.full(len(candidates), told)

    space = new_space(Odd())

    assert space.score(space.random(2)).tolist() == [np.log(MIN_SCORE)] * 2


def test_the_fastest_come_back_and_failures_do_not(space: SearchSpace) -> None:
    programs = space.random(3)
    for program, latency_s in zip(programs, (3e-6, float("inf"), 1e-6), strict=True):
        space.add_measured(program.trace, latency_s)

    assert [p.structure for p in space.fastest(5)] == [programs[2].structure, programs[0].structure]


def test_a_small_space_has_an_end(new_space: Callable[..., SearchSpace]) -> None:
    tiny = SuiteWorkload("matmul.tiny", "matmul", (1, 1, 2)).module()

    programs = new_space(mod=tiny).random(200)

    assert 0 < len(programs) < 200


def test_what_was_measured_before_is_a_start_and_not_proposed_again(
    new_space: Callable[..., SearchSpace],
) -> None:
    first, second = new_space(seed=1), new_space(seed=1)
    fast, slow, failed, *others = first.random(6)

    second.measured_before([(slow.trace, 2e-3), (fast.trace, 1e-3), (failed.trace, None)])
    second.score([fast, slow, failed, *others])

    assert [program.structure for program in second.fastest(3)] == [fast.structure, slow.structure]
    new = {program.structure for program in second.best(6, new=True)}
    assert new == {program.structure for program in others}
    assert {fast.structure, slow.structure, failed.structure} < {p.structure for p in second.best(6)}


def test_equal_programs_are_made_once_and_the_same_ones_are_found(
    new_space: Callable[..., SearchSpace], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = SuiteWorkload("matmul.tiny", "matmul", (1, 1, 2)).module()
    once, again = new_space(mod=tiny), new_space(mod=tiny)
    again._preview._draws = None
    made: list[int] = []
    for space in (once, again):
        finish = space._design.finish
        monkeypatch.setattr(
            space._design, "finish", lambda propose, seed, f=finish: (made.append(seed), f(propose, seed))[1]
        )

    found = [program.structure for program in once.random(100)]
    few = len(made)

    assert found == [program.structure for program in again.random(100)]
    assert few < (len(made) - few) / 4
    near = [[p and p.structure for p in space.neighbours([space.random(1)[0].trace] * 24)] for space in (once, again)]
    assert near[0] == near[1]


def test_refused_tiles_are_not_replayed_and_the_same_programs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    target = json.dumps({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "haswell", "num-cores": 2})
    mod, _ = import_network(nn.Conv2d(16, 64, 1, bias=False).eval(), (zeros(1, 16, 2, 24),), lanes=8)
    fused = fuse(mod, tvm.target.Target(json.loads(target)))
    found = next(function for name, function in fused.functions.items() if "conv2d" in name.name_hint)
    kernel = tvm.IRModule({"main": found.with_attr("global_symbol", "main")})
    context, sketches = open_design_space(kernel, target, find_space("blocked"), seed=0)
    spaces = [SearchSpace(context, sketches, None, seed=1) for _ in range(2)]
    monkeypatch.setattr(spaces[1]._preview._refusals, "refuses", lambda trace: False)
    made: list[list[int]] = [[], []]
    for space, seeds in zip(spaces, made, strict=True):
        finish = space._design.finish
        monkeypatch.setattr(
            space._design, "finish", lambda propose, seed, f=finish, s=seeds: (s.append(seed), f(propose, seed))[1]
        )

    drawn = [space.random(64) for space in spaces]

    assert [p.structure for p in drawn[0]] == [p.structure for p in drawn[1]]
    assert len(made[0]) < len(made[1])
    near = [
        [p and p.structure for p in space.neighbours([found[0].trace] * 24)]
        for space, found in zip(spaces, drawn, strict=True)
    ]
    assert near[0] == near[1]
