from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder

TO = "hf-hub:acme/data"


@pytest.fixture
def mine(measured: Any, publish_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Measurements for a dataset that is on the hub; the deep rules have a test elsewhere."""
    monkeypatch.setattr("costhub.hub.contribute.check_folder", lambda *_, **__: [])
    publish_rows()
    return str(measured(tmp_path / "mine", 100))


def test_everything_that_will_be_sent_is_shown(costhub: Any, mine: str, hugging_face: Any) -> None:
    done = costhub("contribute", mine, "--to", TO, "--dry-run")

    assert (done.code, done.err) == (0, "")
    for word in (
        "amd-epyc-zen5-1c: 40 rows",
        "workloads",
        " kB in 3 files",
        "CC-BY-4.0",
        "contributor",
        "personal",
    ):
        assert word in done.out
    uses = DataFolder.open(mine).workloads()["networks"].to_pylist()
    names = sorted({each["name"] for networks in uses for each in networks or ()})
    assert names
    assert f"  networks     {', '.join(names[:10])}" in done.out
    assert done.out.splitlines()[-1] == "Nothing was sent."
    assert hugging_face.pulls.get("datasets/acme/data", []) == []


def test_without_consent_nothing_is_sent(costhub: Any, mine: str, hugging_face: Any) -> None:
    done = costhub("contribute", mine, "--to", TO)

    assert done.code == 1
    assert "costhub contribute --yes" in done.err
    assert hugging_face.pulls.get("datasets/acme/data", []) == []


def test_the_pull_request_is_named_once_and_again(costhub: Any, mine: str, hugging_face: Any) -> None:
    first = costhub("contribute", mine, "--to", TO, "--yes")
    again = costhub("contribute", mine, "--to", TO, "--yes")
    told = json.loads(costhub("contribute", mine, "--to", TO, "--yes", "--json").out)

    page = f"{hugging_face.url}/datasets/acme/data/discussions/1"
    assert first.out.splitlines()[-1] == f"Sent: {page}"
    assert again.out == f"Already sent: {page}\n"
    assert (told["url"], told["sent"], told["was_there"], told["rows"]) == (
        page,
        True,
        True,
        {"amd-epyc-zen5-1c": 40},
    )


def test_json_of_a_dry_run_says_that_nothing_went(costhub: Any, mine: str) -> None:
    told = json.loads(costhub("contribute", mine, "--to", TO, "--dry-run", "--json").out)

    assert (told["sent"], told["url"], told["licences"]) == (False, None, ["CC-BY-4.0"])


def test_a_dry_run_without_a_dataset_says_what_was_not_checked(costhub: Any, mine: str) -> None:
    done = costhub("contribute", mine, "--dry-run")
    told = json.loads(costhub("contribute", mine, "--dry-run", "--json").out)

    assert (done.code, done.err) == (0, "")
    first, *_, open_, last = done.out.splitlines()
    assert first.startswith("To no dataset yet, as contribution ")
    assert open_ == "  not checked  whether a dataset holds some of these rows already: none is named"
    assert last == "Nothing was sent."
    assert (told["to"], told["sent"], told["not_checked"]) == (None, False, open_.partition("checked  ")[2])
    assert json.loads(costhub("contribute", mine, "--to", TO, "--dry-run", "--json").out)["not_checked"] is None


def test_what_a_shared_folder_holds_already_is_not_sent(costhub: Any, measured: Any, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    folder, to = str(measured(tmp_path / "mine")), ("--to", str(tmp_path / "hub"), "--as", "lab/data")
    costhub("publish", folder, *to, "--yes")

    done, told = costhub("contribute", folder, *to), json.loads(costhub("contribute", folder, *to, "--json").out)

    place = tmp_path / "hub/datasets/lab/data"
    assert (done.code, done.out) == (0, f"Nothing to send to {place}: 40 rows that the dataset has already.\n")
    assert (told["was_there"], told["sent"], told["left_out"]) == (True, False, {"disturbed": 0, "held": 40})


def test_rows_that_are_left_out_are_counted(costhub: Any, measured: Any, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    to = ("--to", str(tmp_path / "hub"), "--as", "lab/data")
    costhub("publish", str(measured(tmp_path / "old", 120)), *to, "--yes")

    done = costhub("contribute", str(measured(tmp_path / "mine", 100)), *to, "--dry-run")

    assert "  left out     20 rows that the dataset has already" in done.out.splitlines()
