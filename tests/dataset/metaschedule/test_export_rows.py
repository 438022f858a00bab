from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costhub.dataset.folder import DataFolder
from costhub.dataset.metaschedule import export_rows
from costhub.dataset.metaschedule.export_rows import ExportSelection
from costhub.errors import DataError, UnknownNameError

Make = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path, measurement: Make, workload: Make) -> DataFolder:
    folder = DataFolder.create(tmp_path / "data")
    folder.put_workloads([workload(i, operator="conv" if i == 2 else "matmul") for i in range(3)])
    with folder.writer("cpu0") as writer:
        for number in range(12):
            failed = {"status": "run_error", "run_s": [], "error": "x"} if number % 4 == 3 else {}
            writer.append(measurement(number, **failed))
    return folder


def select(folder: DataFolder, **options: Any) -> ExportSelection:
    asked = {"device": None, "workload": None, "operator": None, "failures": True, **options}
    return ExportSelection.of(folder.path, **asked)


def test_every_measurement_is_counted_and_comes_once(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_rows, "_BATCH_ROWS", 5)
    selection = select(folder)

    rows = list(selection.rows())

    assert sorted(row.record_id for row in rows) == [f"r{number:05d}" for number in range(12)]
    assert selection.count() == {"w0": 4, "w1": 4, "w2": 4}
    assert {row.run_s for row in rows} == {(1e-3, 1.1e-3, 2e-3), ()}
    assert [row.record_id for row in selection.rows(["r00004"])] == ["r00004"]


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({"workload": "w1"}, {"w1": 4}),
        ({"workload": ["matmul0", "w2"]}, {"w0": 4, "w2": 4}),
        ({"operator": "conv"}, {"w2": 4}),
        ({"operator": "matmul", "workload": "w1"}, {"w1": 4}),
        ({"operator": "conv", "workload": "w1"}, {}),
        ({"failures": False}, {"w0": 3, "w1": 3, "w2": 3}),
    ],
)
def test_names_choose_measurements(folder: DataFolder, options: dict[str, Any], counts: dict[str, int]) -> None:
    assert select(folder, **options).count() == counts


def test_an_unknown_name_is_refused_with_the_close_ones(folder: DataFolder) -> None:
    with pytest.raises(UnknownNameError, match="matmul0"):
        select(folder, workload="matmull0")
    with pytest.raises(UnknownNameError, match="Did you mean conv"):
        select(folder, operator="convv")


def test_several_devices_are_refused_unless_one_is_named(folder: DataFolder, measurement: Make) -> None:
    with folder.writer("cpu1") as writer:
        writer.append(measurement(99, device_id="cpu1"))

    with pytest.raises(DataError, match=r"measurements of 2 devices \(cpu0, cpu1\); name one"):
        select(folder)
    assert select(folder, device="cpu1").count() == {"w0": 1}


seconds = st.sampled_from([1e-6, 2e-6, 1e-3, 1.0])
measured = st.lists(st.tuples(st.integers(0, 2), st.lists(seconds, max_size=3)), max_size=30)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(measured, st.integers(1, 3))
def test_the_best_are_those_of_lowest_median(
    tmp_path_factory: pytest.TempPathFactory,
    measurement: Make,
    measured: list[tuple[int, list[float]]],
    count: int,
) -> None:
    folder = DataFolder.create(tmp_path_factory.mktemp("data"))
    with folder.writer("cpu0") as writer:
        for number, (key, run_s) in enumerate(measured):
            writer.append(measurement(number, workload_id=f"w{key}", run_s=run_s))

    found = select(folder).best({"w0": 0, "w1": 1}, count)

    for group in (0, 1):
        expected = sorted(statistics.median(run_s) for key, run_s in measured if run_s and key == group)
        got = [statistics.median(measured[int(i[1:])][1]) for i in found.get(group, [])]
        assert got == expected[: len(got)]
        assert min(count, len(expected)) <= len(got)
    assert 2 not in found
