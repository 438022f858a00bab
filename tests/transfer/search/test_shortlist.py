"""What a selection leaves waits and competes with what comes; nothing is chosen twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from costhub.collector.sampler import Sampler
from costhub.collector.suite import find_workload
from costhub.dataset.trace import replay
from costhub.transfer.search.shortlist import POOL, Shortlist, knobs_of
from costhub.transfer.selection.clustered import Clustered
from costhub.transfer.selection.diverse import Diverse
from costhub.transfer.selection.ranked import Ranked

SCORES = [float(score) for score in np.random.default_rng(0).permutation(24)]


@pytest.fixture(scope="module")
def candidates(target: str) -> list[Any]:
    from tvm.s_tir import meta_schedule as ms

    mod = find_workload("matmul.128x128x128").module()
    schedules = [replay(mod, program.trace) for program in Sampler(mod, target, seed=1).random(24)]
    arguments = ms.arg_info.ArgInfo.from_entry_func(mod, False)
    return [ms.MeasureCandidate(schedule, arguments) for schedule in schedules]


def shortlist(candidates: Sequence[Any], selection: Any, scores: Sequence[float] = SCORES) -> Shortlist:
    by_knobs = dict(zip(map(knobs_of, candidates), scores, strict=True))
    return Shortlist(selection, lambda some: np.array([by_knobs[knobs_of(c)] for c in some]), seed=0)


def test_what_is_left_competes_with_what_comes(candidates: list[Any]) -> None:
    best = sorted(range(24), key=lambda i: -SCORES[i])
    chooser = shortlist(candidates, Ranked(epsilon=0.0))

    first = chooser.choose(candidates[:12], 3)
    second = chooser.choose(candidates[12:], 24)

    assert first == [candidates[i] for i in best if i < 12][:3]
    assert second == [candidates[i] for i in best if candidates[i] not in first]
    assert chooser.choose([], 4) == []


@pytest.mark.parametrize("selection", [Ranked(), Diverse(), Clustered()], ids=lambda s: s.name)
def test_all_are_chosen_once_in_the_end(candidates: list[Any], selection: Any) -> None:
    chooser, found = shortlist(candidates, selection), []
    for start in range(0, 24, 8):
        found += chooser.choose(candidates[start : start + 8], 2)
    while more := chooser.choose([], 6):
        found += more

    assert len({knobs_of(c) for c in found}) == len(found)
    assert len(found) >= 2 * POOL


def test_what_an_earlier_search_measured_is_not_chosen(candidates: list[Any]) -> None:
    chooser = shortlist(candidates, Ranked(epsilon=0.0))
    chooser.measured(candidates[:20])

    assert {knobs_of(c) for c in chooser.choose(candidates, 24)} == set(map(knobs_of, candidates[20:]))


def test_no_more_wait_than_were_proposed_for_a_batch(candidates: list[Any]) -> None:
    chooser = shortlist(candidates, Ranked(epsilon=0.0))

    chooser.choose(candidates, 1)

    assert len(chooser.choose([], 24)) == POOL


def test_knobs_are_those_of_the_trace_as_text(candidates: list[Any]) -> None:
    from costhub.dataset.trace import trace_to_json
    from costhub.transfer.selection.knobs import Knobs

    for candidate in candidates[:4]:
        text = trace_to_json(candidate.sch.trace)
        assert knobs_of(candidate) == Knobs.read(text)
        assert json.loads(text)
