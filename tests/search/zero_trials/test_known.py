"""What the embedded hub knows of a workload and of those near it, and what is held out."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from costhub.collector.device.local import local_target
from costhub.collector.propose.sampler import open_design_space
from costhub.collector.propose.spaces import DEFAULT, find_space
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.load import load_measurements
from costhub.dataset.workload import workload_id
from costhub.hub.catalogue.hubs import dataset_folders
from costhub.search.zero_trials import known
from costhub.search.zero_trials.carry import SketchTraces, TraceDecisions
from costhub.search.zero_trials.known import NEAR_WORKLOADS, PER_WORKLOAD, DeviceRows, KnownSchedules

DEVICE = "amd-epyc-zen4-2c"
NAME = "matmul.128x128x128"


def rows(**kind: bool) -> DeviceRows:
    return DeviceRows(dataset_folders()["costhub/amd-epyc-zen4"], DEVICE, **kind)


def sketches(mod: Any) -> SketchTraces:
    context, found = open_design_space(mod, json.dumps(local_target()), find_space(DEFAULT), 0)
    del context
    return SketchTraces(found, 2)


def test_the_fastest_schedules_of_the_very_workload_come_first() -> None:
    mod = find_workload(NAME).module()
    known = KnownSchedules([rows(is_target=True)]).measured(mod, sketches(mod))

    table = load_measurements(rows().data, device=DEVICE, workload=NAME, status="ok", columns=["run_s"])
    fastest = min(np.median(run_s) for run_s in table["run_s"].to_pylist())
    assert known[0].latency_us == pytest.approx(fastest * 1e6)
    assert known[0].is_target
    assert [each.latency_us for each in known] == sorted(each.latency_us for each in known)
    assert 0 < len(known) <= PER_WORKLOAD
    assert {(each.workload, each.device_id, each.cores) for each in known} == {(NAME, DEVICE, 2)}


def test_a_device_with_other_instructions_is_not_believed_about_the_workload_itself_but_its_tiles_are() -> None:
    mod = find_workload(NAME).module()
    own = sketches(mod)
    known = KnownSchedules([rows()])

    assert known.measured(mod, own) == []
    near = known.near(mod, own)
    assert near[0].workload == NAME
    assert own.distance(near[0].decisions) == 0


def test_near_workloads_are_others_of_the_operator_the_nearest_first() -> None:
    mod = find_workload(NAME).module()
    own = sketches(mod)
    near = KnownSchedules([rows(is_target=True)]).near(mod, own)

    names = list(dict.fromkeys(each.workload for each in near))
    assert NAME not in names
    assert 1 < len(names) <= NEAR_WORKLOADS
    nearest = [min(own.distance(e.decisions) for e in near if e.workload == name) for name in names]
    assert nearest == sorted(nearest)
    assert math.isfinite(nearest[-1])


def test_what_is_held_out_is_not_known() -> None:
    mod = find_workload(NAME).module()
    own = sketches(mod)
    near = KnownSchedules([rows(is_like_target=True)]).near(mod, own)
    held = KnownSchedules([rows(is_like_target=True)], without={workload_id(mod), near[0].workload_id})

    assert held.measured(mod, own) == []
    names = {each.workload for each in held.near(mod, own)}
    assert names
    assert names & {NAME, near[0].workload} == set()


def test_only_the_traces_of_workloads_that_are_asked_for_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    mod, parsed = find_workload(NAME).module(), []
    own = sketches(mod)

    class Counted(TraceDecisions):
        @classmethod
        def read(cls, trace_json: str) -> TraceDecisions | None:
            parsed.append(trace_json)
            return TraceDecisions.read(trace_json)

    monkeypatch.setattr(known, "TraceDecisions", Counted)
    asked = KnownSchedules([rows(is_target=True)])
    measured = asked.measured(mod, own)

    assert 0 < len(measured) <= len(parsed) <= PER_WORKLOAD
    near = asked.near(mod, own)
    assert len(near) <= len(parsed) < sum(map(len, known._fastest(asked.rows[0]).values()))
    count = len(parsed)
    assert (asked.measured(mod, own), asked.near(mod, own)) == (measured, near)
    assert len(parsed) == count


def test_a_workload_whose_traces_cannot_be_read_is_that_of_the_next_device(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = find_workload(NAME).module()
    own, damaged, sound = sketches(mod), rows(is_target=True), rows(is_like_target=True)
    before = KnownSchedules([damaged, sound]).near(mod, own)
    lost, fastest = before[0].workload_id, known._fastest
    torn = {lost: [(1e-6, "[", "{}")]}
    monkeypatch.setattr(known, "_fastest", lambda each: {**fastest(each), **(torn if each is damaged else {})})

    found = KnownSchedules([damaged, sound]).near(mod, own)

    assert [each.decisions for each in found] == [each.decisions for each in before]
    assert all(each.is_target for each in before)
    assert [each.is_target for each in found] == [each.workload_id != lost for each in found]


def test_no_devices_know_nothing() -> None:
    mod = find_workload(NAME).module()
    known = KnownSchedules([])

    assert known.measured(mod, sketches(mod)) == known.near(mod, sketches(mod)) == []


@pytest.mark.parametrize("target", ["[" * 100_000, "{", "5", '{"num-cores": "many"}'])
def test_a_target_that_cannot_be_read_has_one_core(target: str) -> None:
    assert known._cores(target) == 1
