from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from costhub.hub.review import comparison
from costhub.hub.review.comparison import COMPARED_COLUMNS, Reason, ReviewVerdict, compare_device, judge


def test_only_a_refusal_refuses() -> None:
    assert ReviewVerdict("x", "dataset", [Reason("look", "Look.")]).is_accepted
    assert not ReviewVerdict("x", "dataset", [Reason("look", "Look."), Reason("refuse", "No.")]).is_accepted


def test_it_is_json() -> None:
    told = json.loads(json.dumps(ReviewVerdict("x", "model", [Reason("refuse", "No.")]).to_json()))

    assert (told["accepted"], told["reasons"]) == (False, [{"weight": "refuse", "what": "No."}])


def rows(
    *, n: int = 40, start: int = 0, prefix: str = "r", factor: float = 1.0, seed: int = 0, order: int = 1
) -> pa.Table:
    """Programs of two workloads whose latencies are the same for all seeds, but for a noise of 2 %."""
    rng = np.random.default_rng(seed)
    made: list[dict[str, Any]] = []
    for number in range(start, start + n):
        latency = 1e-3 * (1 + (number if order > 0 else 1000 - number)) * factor
        made.append(
            {
                "record_id": f"{prefix}{number}",
                "program_id": f"p{number}",
                "workload_id": f"w{number % 2}",
                "status": "ok",
                "run_s": (latency * rng.uniform(0.99, 1.01, 3)).tolist(),
            }
        )
    return pa.Table.from_pylist(made).select(list(COMPARED_COLUMNS))


def weights(new: pa.Table, held: pa.Table) -> list[tuple[str, str]]:
    return [(reason.weight, reason.what) for reason in judge(compare_device("cpu", new, held))]


def test_the_same_device_measured_again_is_accepted() -> None:
    found = compare_device("cpu", rows(prefix="n", seed=1), rows())

    assert (found.repeated, found.replayed, found.copied) == (40, 0, 0)
    assert found.shift is not None
    assert 0.95 < found.shift < 1.05
    assert found.agreement is not None
    assert found.agreement > 0.9
    assert list(judge(found)) == []


def test_programs_are_ranked_within_their_workload_and_small_workloads_do_not_count() -> None:
    def made(prefix: str, workloads: dict[str, list[float]]) -> pa.Table:
        columns: dict[str, list[Any]] = {name: [] for name in COMPARED_COLUMNS}
        for workload, latencies in workloads.items():
            for number, latency in enumerate(latencies):
                row = (f"{prefix}{workload}{number}", f"p{workload}{number}", workload, "ok", [latency])
                for name, value in zip(COMPARED_COLUMNS, row, strict=True):
                    columns[name].append(value)
        return pa.table(columns)

    up, down = [1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 4.0, 3.0, 2.0, 1.0]
    held = made("h", {"b": up, "a": up, "few": up[:4], "c": up})
    new = made("n", {"c": [value * 1.1 for value in up], "a": down, "few": down[:4], "b": [v * 1.2 for v in up]})

    agreement = compare_device("cpu", new, held).agreement
    assert agreement == pytest.approx((1 - 1 + 1) / 3)


def test_no_row_is_looked_at_once_for_each_workload() -> None:
    class Pairs(np.ndarray[Any, Any]):
        """Counts the rows that masks and lists of places look at."""

        looked_at = 0

        def __getitem__(self, key: Any) -> Any:
            Pairs.looked_at += key.size if isinstance(key, np.ndarray) else 0
            return super().__getitem__(key)

    names = [f"w{number // 5:03}" for number in range(500)]
    pairs = np.arange(1000, dtype=np.float64).reshape(-1, 2).view(Pairs)

    assert comparison._agreement(names, pairs) == pytest.approx(1.0)
    assert Pairs.looked_at <= len(names)


def test_rows_that_the_hub_has_are_no_contribution() -> None:
    (only,) = weights(rows(), rows())
    assert only[0] == "look"
    assert "already holds all of the rows (40)" in only[1]

    partly = weights(pa.concat_tables([rows(n=10), rows(start=100, n=10)]), rows())
    assert ("look", "cpu: 10 of 20 rows are already in the hub; they are left out.") in partly


def test_rows_under_new_names_are_found() -> None:
    assert "40 rows under new names" in weights(rows(prefix="stolen"), rows())[0][1]


def test_a_single_time_under_a_new_name_is_found_too() -> None:
    """One dataset with both would break a rule of `costhub check`."""
    held = rows().to_pylist()
    once = [{**row, "run_s": row["run_s"][:1]} for row in held]
    new = [{**row, "record_id": f"stolen{number}"} for number, row in enumerate(once)]

    assert "40 rows under new names" in weights(pa.Table.from_pylist(new), pa.Table.from_pylist(once))[0][1]


def test_another_device_under_the_same_name_is_refused() -> None:
    slower = weights(rows(prefix="n", seed=1, factor=2.0), rows())
    other_order = weights(rows(prefix="n", seed=1, order=-1, factor=0.02), rows())

    assert [weight for weight, what in slower if "times as long here" in what] == ["refuse"]
    assert [weight for weight, what in other_order if "rank differently" in what] == ["refuse"]


def test_equal_latencies_agree_with_no_order_and_hide_no_other_workload() -> None:
    def of_third(prefix: str, latencies: Sequence[float]) -> pa.Table:
        made = [
            {
                "record_id": f"{prefix}{n}",
                "program_id": f"p{n}",
                "workload_id": "w9",
                "status": "ok",
                "run_s": [latency],
            }
            for n, latency in enumerate(latencies, start=900)
        ]
        return pa.Table.from_pylist(made).select(list(COMPARED_COLUMNS))

    rising, level = [1e-3 * number for number in range(1, 7)], [2e-3] * 6
    held, new = rows(), rows(prefix="n", seed=1, order=-1, factor=0.02)

    hidden = compare_device(
        "cpu", pa.concat_tables([new, of_third("n", level)]), pa.concat_tables([held, of_third("r", rising)])
    )
    assert [reason.weight for reason in judge(hidden) if "rank differently" in reason.what] == ["refuse"]
    assert compare_device("cpu", of_third("n", level), of_third("r", rising)).agreement == 0.0
    assert compare_device("cpu", of_third("n", rising), of_third("r", level)).agreement is None


def test_a_workload_far_faster_than_known_deserves_a_look() -> None:
    held = rows(start=100)
    new = rows(start=0, n=5, prefix="n")

    assert [weight for weight, what in weights(new, held) if "times faster than the best" in what] == ["look"]


def test_nothing_in_common_is_said() -> None:
    assert "the hub measured none of these programs" in weights(rows(start=99, n=3, prefix="n"), rows())[-1][1]
    assert "nothing to compare with" in weights(rows(), rows().slice(0, 0))[-1][1]


def test_few_programs_in_common_are_no_comparison() -> None:
    said = weights(rows(start=36, n=9, prefix="n", seed=1), rows())

    assert [weight for weight, what in said if "only 4 of these programs" in what] == ["look"]


def test_a_device_name_cannot_paint_the_terminal() -> None:
    (only,) = judge(compare_device("\x1b[2Jcpu", rows(), rows()))
    assert only.what.isprintable()


def test_failures_have_no_latency_and_do_not_count() -> None:
    failed = rows(prefix="n").to_pylist()
    for row in failed:
        row.update(status="run_error", run_s=[])

    found = compare_device("cpu", pa.Table.from_pylist(failed, schema=rows().schema), rows())

    assert (found.repeated, found.shift, found.gain) == (0, None, None)
