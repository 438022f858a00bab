from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from costhub.cli.shared.adapt_target import LiveTarget, StoredTarget, live_target
from costhub.collector.device.identity import identify
from costhub.dataset.folder import DataFolder
from costhub.errors import ArgumentError, DataError, WorkloadError
from costhub.transfer.adapt import Adaptation
from costhub.transfer.online_trials import OnlineTrials
from costhub.transfer.stopping import Stopped

_measured = runpy.run_path(str(Path(__file__).parents[1] / "measured_folder.py"))
build_data = _measured["build_data"]
SPEC = "per_store@1"


def test_stored_measurements_are_divided_once_for_each_spec(tmp_path: Path) -> None:
    target = StoredTarget(build_data(tmp_path / "data", each=16), None, None, 32, 0)

    learn, test = target.first(SPEC), target.test(SPEC)

    assert target.row["device_id"] == "acme-one"
    assert not set(learn.workload.tolist()) & set(test.workload.tolist())
    assert target.first(SPEC) is learn


def test_a_device_that_was_not_measured_is_refused(tmp_path: Path) -> None:
    target = StoredTarget(build_data(tmp_path / "data", each=16), "acme-none", None, None, 0)

    with pytest.raises(DataError, match="acme-none"):
        target.first(SPEC)


def test_a_network_of_which_nothing_can_be_measured_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.cli.shared.adapt_target.named_workloads", lambda *_: [])
    about = {"where": "auto", "seed": 0, "contributor": "anonymous"}
    place = live_target(tmp_path / "data", suites=(), networks=("odd.pt2",), trials=4, **about)  # type: ignore[arg-type]

    with pytest.raises(WorkloadError, match=r"odd\.pt2 has no kernel"), place:
        pass


def test_a_device_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    def refuse(row: Mapping[str, Any]) -> None:
        raise ArgumentError(f"{row['device_id']} is another device.")

    about = {"where": "auto", "networks": (), "seed": 0, "contributor": "me", "check": refuse}
    place = live_target(tmp_path / "data", suites=("matmul.128x128x128",), trials=4, **about)  # type: ignore[arg-type]

    with pytest.raises(ArgumentError, match=f"{identify()['device_id']} is another device"), place:
        pass
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_a_live_target_holds_out_nothing_of_few_trials(tmp_path: Path) -> None:
    about = {"where": "auto", "networks": (), "seed": 0, "contributor": "me"}
    with live_target(tmp_path / "data", suites=("matmul.128x128x128",), trials=4, **about) as target:  # type: ignore[arg-type]
        first = target.first("trace_decisions@1")

        assert first.n == 4
        assert target.test("trace_decisions@1") is None
        assert target.row["device_id"] == target.trials.device_id
        assert {
            row["contributor"] for row in target.trials.folder.measurements(columns=["contributor"]).to_pylist()
        } == {"me"}


@pytest.mark.parametrize(
    ("held", "failed", "stopped", "says"),
    [
        (300, 0, None, "All 300 trials were spent. Of 300 measured programs, none failed."),
        (40, 3, None, "40 of 300 trials were spent: the workloads have no more programs. Of 40 measured programs, 3"),
        (96, 1, Stopped("gain", "Enough.", 96, 300), "Enough. Measuring ended after 96 of 300 trials. Of 96 measured"),
    ],
)
def test_it_says_why_measuring_ended_and_how_many_programs_failed(
    tmp_path: Path, held: int, failed: int, stopped: Stopped | None, says: str
) -> None:
    folder = DataFolder.create(tmp_path / "data")
    trials = OnlineTrials([], folder, cast(Any, None), 300, held=held, failed=failed)
    done = Adaptation(cast(Any, None), "adapted", "frozen", cast(Any, None), (), (), (), stopped)

    assert LiveTarget(folder.path, {}, trials, None).ended(done).startswith(says)
