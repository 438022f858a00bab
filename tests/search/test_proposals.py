"""What a search measures beside its strategy's programs: known schedules first, then neighbours of the fastest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.collector.device.local import local_target
from costhub.collector.measurer import Measurer
from costhub.collector.propose.sampler import open_design_space
from costhub.collector.propose.spaces import best_space
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.trace import trace_to_json
from costhub.dataset.workload import parse_target
from costhub.hub.catalogue.hubs import dataset_folders
from costhub.search.database import SearchDatabase
from costhub.search.options import Search
from costhub.search.proposals import BEGIN_FROM, OwnProposals
from costhub.search.strategies.search_space import SearchSpace
from costhub.search.strategies.strategy import Evolutionary, measure_candidate
from costhub.search.task import OWN_SHARE
from costhub.search.tune import tune
from costhub.search.zero_trials.carry import TraceDecisions
from costhub.search.zero_trials.known import DeviceRows, KnownSchedules

NAME = "matmul.128x128x128"
BATCH = 8


class Result:
    """What a runner gives."""

    def __init__(self, seconds: float | None) -> None:
        self.run_secs = None if seconds is None else [seconds]
        self.error_msg = "it failed" if seconds is None else None


def module() -> Any:
    return find_workload(NAME).module()


@pytest.fixture(scope="module")
def hub() -> KnownSchedules:
    data = dataset_folders()["costhub/amd-epyc-zen4"]
    return KnownSchedules([DeviceRows(data, "amd-epyc-zen4-2c", is_target=True)])


def proposals(linear: Any, **how: Any) -> tuple[OwnProposals, SearchSpace]:
    context, sketches = open_design_space(module(), json.dumps(local_target()), best_space(module()), 0)
    search = Search(linear(np.full(172, -0.01)), **how)
    return OwnProposals(module(), search, context, sketches), SearchSpace(context, sketches, None, seed=1)


def decisions(candidate: Any) -> TraceDecisions:
    found = TraceDecisions.read(trace_to_json(candidate.sch.trace))
    assert found is not None
    return found


def first_batch(folder: Path, measurer: Measurer, target: str, linear: Any, **how: Any) -> list[TraceDecisions]:
    """What a search of one batch has measured."""
    model, strategy = linear(np.full(172, -0.01)), Evolutionary(population=64, generations=1)
    search = Search(model, strategy=strategy, trials_per_round=BATCH, **how)
    tune(module(), NAME, search, measurer, out=folder, trials=BATCH)
    found = SearchDatabase(folder).records(module(), parse_target(target))
    return [decisions(each.record.as_measure_candidate()) for each in found]


def test_the_first_programs_are_the_fastest_known_of_the_very_workload(linear: Any, hub: KnownSchedules) -> None:
    own, _ = proposals(linear, known=hub)

    found = [decisions(each) for each in own.propose()]

    known = hub.measured(module(), own._sketches)
    assert known
    assert [each.tiles for each in found] == [each.decisions.tiles for each in known]


def test_those_of_near_workloads_come_only_if_asked_for(linear: Any, hub: KnownSchedules) -> None:
    alone, _ = proposals(linear, known=hub)
    both, _ = proposals(linear, known=hub, known_sources=("measured", "carried"))

    assert len(both.propose()) > len(alone.propose()) > 0


def test_without_known_schedules_nothing_is_proposed_at_first(linear: Any) -> None:
    own, _ = proposals(linear, known=None)

    assert own.propose() == []


def test_neighbours_are_one_decision_away_from_the_fastest(linear: Any) -> None:
    own, space = proposals(linear, descends=True)
    candidates = [measure_candidate(each) for each in space.random(6)]
    own.add(candidates, [Result(seconds) for seconds in (5e-3, 1e-3, None, 4e-3, 2e-3, 3e-3)])

    near = [decisions(each) for each in own.propose()]

    starts = [decisions(candidates[place]) for place in (1, 4)]
    assert len(starts) == BEGIN_FROM
    distances = [min(changed(start, each) for start in starts) for each in near]
    assert distances.count(1) > BATCH
    assert set(distances) <= {0, 1}  # a knob at its end stays where it is


def changed(one: TraceDecisions, other: TraceDecisions) -> int:
    """How many decisions differ between two schedules; a great number where they are of different sketches."""
    if one.structure != other.structure:
        return 99
    pairs = [
        *zip(one.tiles, other.tiles, strict=True),
        *zip(one.choices, other.choices, strict=True),
        *zip(one.locations, other.locations, strict=True),
    ]
    return sum(mine != theirs for mine, theirs in pairs)


@pytest.mark.parametrize("descends", [True, False])
def test_a_search_descends_if_it_is_to(linear: Any, descends: bool) -> None:
    own, space = proposals(linear, descends=descends)
    (program,) = space.random(1)

    own.add([measure_candidate(program)], [Result(1e-3)])

    assert bool(own.propose()) == descends


def test_known_schedules_are_in_the_first_batch_of_a_search(
    tmp_path: Path, measurer: Measurer, target: str, linear: Any, hub: KnownSchedules
) -> None:
    own, _ = proposals(linear, known=hub)
    known = {each.decisions.tiles for each in hub.measured(module(), own._sketches)}

    began = first_batch(tmp_path / "hub", measurer, target, linear, known=hub)
    scratch = first_batch(tmp_path / "scratch", measurer, target, linear)

    expected = min(len(known), int(OWN_SHARE * BATCH))
    assert sum(each.tiles in known for each in began) >= expected
    assert sum(each.tiles in known for each in scratch) < expected
