from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.hub.review.contribution import review_contribution

SHARD = "measurements/amd-epyc-zen5-1c/train-00000-of-00001.parquet"


def refusals(folder: Path, held: Path | None) -> list[str]:
    verdict = review_contribution(folder, held, deep=False)
    return [reason.what for reason in verdict.reasons if reason.weight == "refuse"]


def test_two_sessions_of_one_device_agree(measured: Any, tmp_path: Path) -> None:
    held, new = (measured(tmp_path / f"{session}", session=session) for session in (0, 1))

    verdict = review_contribution(new, held, deep=False)

    assert verdict.is_accepted
    (found,) = verdict.comparisons
    assert found.repeated > 100
    assert found.shift is not None
    assert 0.9 < found.shift < 1.1
    assert found.agreement is not None
    assert found.agreement > 0.9


def test_the_first_of_a_device_has_nothing_beside_it(measured: Any, tmp_path: Path) -> None:
    verdict = review_contribution(measured(tmp_path / "new"), None, deep=False)

    assert verdict.is_accepted
    assert "nothing to compare with" in verdict.reasons[0].what


def test_twice_as_slow_is_another_device(measured: Any, tmp_path: Path) -> None:
    held, new = (measured(tmp_path / f"{session}", session=session) for session in (0, 1))
    folder = DataFolder.open(new)
    rows = folder.measurements().to_pylist()
    slow = DataFolder.create(tmp_path / "slow")
    slow.put_device(folder.devices().to_pylist()[0])
    slow.put_workloads(folder.workloads().to_pylist())
    with slow.writer("amd-epyc-zen5-1c") as writer:
        for row in rows:
            changed = {"run_s": [2 * seconds for seconds in row["run_s"]], "run_wall_s": None}
            writer.append({**row, **changed, "record_id": f"s{row['record_id']}"})

    (what,) = refusals(slow.path, held)
    assert "times as long here" in what


@pytest.mark.parametrize(
    "changes",
    [{"peak_gflops": 1e5}, {"dram_gbs": 1e4}, {"cores": 64}, {"microarchitecture": "zen9"}],
)
def test_a_probe_that_would_hide_a_roofline_is_refused(
    changes: dict[str, Any], measured: Any, tmp_path: Path
) -> None:
    held, new = (measured(tmp_path / f"{session}", session=session) for session in (0, 1))
    folder = DataFolder.open(new)
    folder.put_device({**folder.devices().to_pylist()[0], **changes})

    found = refusals(new, held)

    assert [what for what in found if f"{next(iter(changes))} differ from what the hub knows" in what] != []


def test_what_has_an_error_is_not_read_any_further(measured: Any, tmp_path: Path) -> None:
    new = measured(tmp_path / "new")
    shard = new / SHARD
    shard.write_bytes(shard.read_bytes()[:-300] + bytes(300))

    verdict = review_contribution(new, new, deep=False)

    assert not verdict.is_accepted
    assert verdict.comparisons == ()
    assert verdict.findings[0].severity == "error"


def test_nothing_is_no_contribution(tmp_path: Path) -> None:
    DataFolder.create(tmp_path / "empty")

    assert refusals(tmp_path / "empty", None) == ["It holds no measurement."]
