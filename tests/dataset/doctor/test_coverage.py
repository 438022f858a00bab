"""A network's kernels beside what a real search has measured of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.reports.doctor import doctor_text
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.doctor.coverage import NetworkKernel, add_findings, cover
from costhub.dataset.doctor.examine import Examination, examine_database
from costhub.dataset.doctor.manifest import manifest
from costhub.dataset.workload import module_to_json

OTHER = module_to_json(find_workload("matmul.128x128x128").module())


def examined(folder: Path) -> Examination:
    return examine_database(folder, workers=1, progress=False)


def kernels(found: Examination, calls: tuple[float, ...] = (1, 1)) -> list[NetworkKernel]:
    rows = [each.examined.row for each in found.distinct]
    return [NetworkKernel(f"k{n}", calls[n], row["flop"], row["module_json"]) for n, row in enumerate(rows)]


def test_shares_of_work_time_and_trials_stand_side_by_side(search: Any, tmp_path: Path) -> None:
    for number in range(12):
        workload = search.record(number)[0]
        search.change(number, run_secs=[1e-6 if workload == 0 else 4e-6])
    found = examined(search.write(tmp_path / "db"))

    coverage = cover(found, "net", kernels(found, calls=(2, 1)), {"moves data only": 3})

    assert (coverage.tuned, coverage.tuned_flop_share) == (2, pytest.approx(1.0))
    assert [each.best_us for each in coverage.kernels] == [pytest.approx(1.0), pytest.approx(4.0)]
    assert [each.time_share for each in coverage.kernels] == [pytest.approx(2 / 6), pytest.approx(4 / 6)]
    assert [each.trial_share for each in coverage.kernels] == [0.5, 0.5]
    flop = [row.examined.row["flop"] for row in found.distinct]
    assert coverage.kernels[0].flop_share == pytest.approx(2 * flop[0] / (2 * flop[0] + flop[1]))
    assert (coverage.foreign_trials, dict(coverage.left_out)) == (0, {"moves data only": 3})


def test_a_kernel_without_a_program_that_ran_is_not_tuned(search: Any, tmp_path: Path) -> None:
    for number in range(12):
        if search.record(number)[0] == 1:
            search.change(number, run_secs=[1e10])
    found = examined(search.write(tmp_path / "db"))

    coverage = cover(found, "net", kernels(found), {})
    add_findings(found, coverage)

    assert [each.is_tuned for each in coverage.kernels] == [True, False]
    assert (coverage.kernels[1].trials, coverage.kernels[1].failed) == (6, 6)
    assert [each.where for each in found.log.kept["DB15"]] == ["k1"]


def test_trials_on_what_does_not_matter_are_counted(search: Any, tmp_path: Path) -> None:
    found = examined(search.write(tmp_path / "db"))
    first, second = kernels(found)
    heavy = NetworkKernel("heavy", 1e6, first.flop, first.module_json)

    coverage = cover(found, "net", [heavy, second], {})
    add_findings(found, coverage)
    assert (coverage.idle_trials, coverage.foreign_trials) == (6, 0)
    assert [each.where for each in found.log.kept["DB16"]] == ["k1"]

    found = examined(tmp_path / "db")
    coverage = cover(found, "net", [first], {})
    add_findings(found, coverage)
    assert (coverage.idle_trials, coverage.foreign_trials) == (0, 6)
    assert "6 trials (50.0%) of workloads that net lacks" in found.log.kept["DB16"][0].message


def test_a_kernel_is_found_whatever_its_variables_are_called(search: Any, tmp_path: Path) -> None:
    import tvm

    found = examined(search.write(tmp_path / "db"))
    [kernel, _] = kernels(found)
    text = tvm.ir.load_json(kernel.module_json).script()
    renamed = tvm.script.from_source(text.replace("v_i0", "v_row").replace("v_i1", "v_column"))
    assert "v_row" in renamed.script()

    coverage = cover(found, "net", [NetworkKernel("k", 1, kernel.flop, tvm.ir.save_json(renamed))], {})

    assert coverage.tuned == 1


def test_a_kernel_has_its_name_in_the_network_everywhere(search: Any, tmp_path: Path) -> None:
    for number in range(12):
        if search.record(number)[0] == 1:
            search.change(number, run_secs=[1e10])
    found = examined(search.write(tmp_path / "db"))
    first, second = (each.name for each in found.distinct)
    assert [each.where for each in found.log.kept["DB14"]] == [second]

    coverage = cover(found, "net", kernels(found), {})
    add_findings(found, coverage)
    text = doctor_text(found, coverage)

    assert [each.where for each in found.log.kept["DB14"]] == ["k1"]
    assert [line.split()[0] for line in text.splitlines() if line.startswith("k")] == ["k0", "k1", "kernel", "k0", "k1"]
    assert first not in text
    assert second not in text
    assert [each["name"] for each in manifest(found)["workloads"]] == [first, second]


def test_kernels_that_tune_leaves_out_are_counted_apart_unless_they_were_tuned(search: Any, tmp_path: Path) -> None:
    found = examined(search.write(tmp_path / "db"))
    first, second = kernels(found)
    small = NetworkKernel("small", 1, second.flop, OTHER, "too little work")

    coverage = cover(found, "net", [replace(first, not_tuned="too much memory"), second, small], {})
    add_findings(found, coverage)

    assert [each.name for each in coverage.kernels] == ["k0", "k1"]
    assert coverage.default_schedule == {"too little work": 1}
    assert coverage.tuned_flop_share == pytest.approx(1 - second.flop / (first.flop + 2 * second.flop))
    assert "DB15" not in found.log.counts

    coverage = cover(found, "net", [first, second, replace(small, not_tuned="")], {})
    add_findings(found, coverage)
    assert (coverage.default_schedule, found.log.counts["DB15"]) == ({}, 1)
