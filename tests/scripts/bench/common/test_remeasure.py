"""The best programs in a MetaSchedule database after so many trials."""

from __future__ import annotations

import json
from pathlib import Path

from costhub.dataset.metaschedule.lines import RECORDS_FILE, STORED_FAILURE_S, UNMEASURED_S
from scripts.bench.common.remeasure import best_trace, best_traces, compiled_trace


def database(folder: Path, seconds: list[list[float]]) -> None:
    lines = [json.dumps([0, [[f"trace {place}"], run_s, {}, []]]) for place, run_s in enumerate(seconds)]
    (folder / RECORDS_FILE).write_text("\n".join(lines) + "\n")


def test_the_best_so_far_is_that_of_the_first_records_by_the_median_of_their_repeats(tmp_path: Path) -> None:
    database(tmp_path, [[3.0], [1.0, 2.0, 9.0], [2.5], [1.0]])

    assert best_traces(tmp_path, [1, 2, 3, 4]) == {
        n: json.dumps([f"trace {place}"]) for n, place in [(1, 0), (2, 1), (3, 1), (4, 3)]
    }
    assert best_trace(tmp_path, 3) == json.dumps(["trace 1"])


def test_numbers_of_trials_of_which_none_ran_have_no_best(tmp_path: Path) -> None:
    database(tmp_path, [[STORED_FAILURE_S], [], [4.0], [STORED_FAILURE_S]])

    assert best_traces(tmp_path, [1, 2, 3, 4]) == dict.fromkeys([3, 4], json.dumps(["trace 2"]))


def test_a_kernel_compiled_without_trials_has_one_trace_though_its_record_has_no_latency(tmp_path: Path) -> None:
    database(tmp_path, [[UNMEASURED_S]])

    assert compiled_trace(tmp_path) == json.dumps(["trace 0"])
    assert best_traces(tmp_path, [1]) == {}  # to a search, it is a record that failed
