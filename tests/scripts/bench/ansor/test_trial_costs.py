"""What a trial took is read from logs of Ansor: of programs that ran, of operators that costhub imports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.bench.ansor.trial_costs import main, rows_of
from tests.dataset.ansor.ansor_steps import MATMUL, record

OTHER_MATMUL = '["matmul_layer", 64, 32, 256]'
UNKNOWN = '["pool_layer", 1]'


def trial(key: str, all_cost_s: float, at_s: int, error: int = 0) -> bytes:
    return record(key, [], r=[[1e-3], error, all_cost_s, at_s])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "gpu.jsonl"
    lines = [
        trial(MATMUL, 2.0, 100),
        trial(MATMUL, 3.0, 104),
        trial(MATMUL, 90.0, 108, error=4),
        trial(MATMUL, 10.0, 112),
        trial(OTHER_MATMUL, 4.0, 9000),
        trial(UNKNOWN, 500.0, 1),
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_the_median_is_over_programs_that_ran_of_operators_that_are_imported(log: Path) -> None:
    one, together = rows_of(log, "gpu")

    assert one == {**together, "operator": "matmul_layer"}
    assert (together["operator"], together["ran"], together["failed"]) == ("all", 4, 1)
    assert (together["median_s"], together["mean_s"]) == (3.5, 4.75)


def test_the_time_between_results_is_that_of_one_workload_with_its_failures(log: Path) -> None:
    *_, together = rows_of(log, "gpu")

    assert together["between_s"] == 4.0


def test_the_quick_form_reads_the_first_records_of_each_operator(log: Path) -> None:
    assert [row["ran"] for row in rows_of(log, "gpu", 2)] == [2, 2]


def test_a_result_file_has_the_rows_of_every_log(log: Path, tmp_path: Path) -> None:
    logs = [word for device in ("gpu0", "gpu1") for word in ("--log", str(log), device)]
    done = CliRunner().invoke(main, [*logs, "--json", str(tmp_path / "costs.json")])

    assert done.exit_code == 0, done.output
    assert "| gpu1 | all | 4 | 1 | 3.50 | 4.75 | 4.00 |" in done.output
    assert [row["device"] for row in json.loads((tmp_path / "costs.json").read_text())["rows"]] == [
        *("gpu0", "gpu0"),
        *("gpu1", "gpu1"),
    ]
