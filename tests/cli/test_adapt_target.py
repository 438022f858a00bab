from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from costhub.cli.adapt_target import Stored, live
from costhub.errors import DataError

_measured = runpy.run_path(str(Path(__file__).with_name("measured_folder.py")))
build_data = _measured["build_data"]
SPEC = "per_store@1"


def test_stored_measurements_are_divided_once_for_each_spec(tmp_path: Path) -> None:
    target = Stored(build_data(tmp_path / "data", each=16), None, None, 32, 0)

    learn, test = target.first(SPEC), target.test(SPEC)

    assert target.row["device_id"] == "acme-one"
    assert not set(learn.workload.tolist()) & set(test.workload.tolist())
    assert target.first(SPEC) is learn


def test_a_device_that_was_not_measured_is_refused(tmp_path: Path) -> None:
    target = Stored(build_data(tmp_path / "data", each=16), "acme-none", None, None, 0)

    with pytest.raises(DataError, match="acme-none"):
        target.first(SPEC)


def test_a_live_target_holds_out_nothing_of_few_trials(tmp_path: Path) -> None:
    about = {"device": None, "tracker": None, "key": None, "networks": (), "seed": 0, "licence": "CC-BY-4.0"}
    with live(tmp_path / "data", suites=("matmul.128x128x128",), trials=4, **about) as target:  # type: ignore[arg-type]
        first = target.first("trace_decisions@1")

        assert first.n == 4
        assert target.test("trace_decisions@1") is None
        assert target.row["device_id"] == target.trials.device_id
