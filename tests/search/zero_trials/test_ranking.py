"""Programs from all sources in one ranking, with where each comes from."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from costhub.collector.device.local import local_target
from costhub.collector.workloads.suites import SuiteWorkload, find_workload
from costhub.hub.catalogue.hubs import dataset_folders
from costhub.search.zero_trials.known import DeviceRows, KnownSchedules
from costhub.search.zero_trials.plan import CARRIED, CHOSEN, MEASURED, SOURCES, ZeroTrialPlan
from costhub.search.zero_trials.ranking import rank_programs

ZEN4 = dataset_folders()["costhub/amd-epyc-zen4"]
TARGET = json.dumps(local_target())


def known(*, is_target: bool = False, is_own: bool = False) -> KnownSchedules:
    return KnownSchedules([DeviceRows(ZEN4, "amd-epyc-zen4-2c", is_target, is_like_target=True, is_own=is_own)])


def ranked(linear: Any, name: str, known: KnownSchedules, *sources: str) -> Any:
    plan = ZeroTrialPlan(sources=sources or tuple(SOURCES), pool=8, generations=1, children=4)
    mod = find_workload(name).module()
    return rank_programs(mod, TARGET, linear(np.linspace(-1.0, 1.0, 172)), known, plan)


@pytest.mark.parametrize(("is_target", "is_own"), [(False, False), (True, False), (False, True)])
def test_all_sources_are_ranked_together_by_the_model(linear: Any, is_target: bool, is_own: bool) -> None:
    ranking = ranked(linear, "matmul.128x128x128", known(is_target=is_target, is_own=is_own))

    assert [each.rank for each in ranking.programs] == list(range(1, len(ranking.programs) + 1))
    assert ranking.counts.keys() == set(SOURCES.values())
    assert all(count > 0 for count in ranking.counts.values())
    assert sum(ranking.counts.values()) == len(ranking.programs)
    assert len({each.program.structure for each in ranking.programs}) == len(ranking.programs)
    assert ranking.stages.keys() == {"other", "space", "carrying", "choosing", "features", "prediction"}
    assert min(ranking.stages.values()) > 0.0


def test_what_the_user_measured_on_the_device_itself_comes_first_by_its_latency(linear: Any) -> None:
    ranking = ranked(linear, "matmul.128x128x128", known(is_target=True, is_own=True))

    first = [each.origin for each in ranking.programs[: ranking.counts[MEASURED]]]
    assert {origin.source for origin in first} == {MEASURED}
    latencies = [origin.known.latency_us for origin in first if origin.known]
    assert latencies == sorted(latencies)
    assert MEASURED not in {each.origin.source for each in ranking.programs[len(first) :]}


@pytest.mark.parametrize(("source", "name"), [("carried", CARRIED), ("model", CHOSEN)])
def test_one_source_alone(linear: Any, source: str, name: str) -> None:
    ranking = ranked(linear, "matmul.128x128x128", known(is_target=True), source)

    assert {each.origin.source for each in ranking.programs} == {name}
    assert all((each.origin.known is None) == (name == CHOSEN) for each in ranking.programs)


def test_a_source_that_knows_nothing_ranks_nothing(linear: Any) -> None:
    mod = SuiteWorkload("made", "matmul", (17, 19, 23)).module()
    plan = ZeroTrialPlan(sources=("measured",))

    assert rank_programs(mod, TARGET, linear(np.ones(172)), known(), plan).programs == ()


def test_all_programs_are_from_the_space_that_was_asked_for(linear: Any, marked_space: str) -> None:
    limits: dict[str | None, set[tuple[int, ...]]] = {}
    for space in (marked_space, None):
        plan = ZeroTrialPlan(pool=4, generations=1, children=2, space=space)
        mod = find_workload("matmul.128x128x128").module()
        ranking = rank_programs(mod, TARGET, linear(np.linspace(-1.0, 1.0, 172)), known(), plan)
        assert ranking.programs
        limits[ranking.space] = {
            tuple(int(each.attrs[1]) for each in ranked.program.trace.insts if each.kind.name == "SamplePerfectTile")
            for ranked in ranking.programs
        }

    assert limits[marked_space] == {(48,)}
    assert (48,) not in limits["default"]


def test_known_schedules_count_wherever_they_were_drawn_if_they_are_of_the_spaces_sketches(
    linear: Any, marked_space: str
) -> None:
    mod, counts = find_workload("matmul.128x128x128").module(), {}
    for space in ("llvm", marked_space):
        plan = ZeroTrialPlan(sources=("measured",), space=space)
        counts[space] = rank_programs(mod, TARGET, linear(np.ones(172)), known(), plan).counts[MEASURED]

    assert counts["llvm"] > 0, "the hub's rows are from TVM's default"
    assert counts[marked_space] == 0
