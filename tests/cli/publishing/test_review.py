from __future__ import annotations

import errno
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.hub.catalogue.hubs import HUB_VARIABLE
from costhub.hub.contribute import contribute


def test_a_sound_contribution_is_accepted_and_merged(costhub: Any, measured: Any, tmp_path: Path) -> None:
    held, new = (measured(tmp_path / f"{session}", session=session) for session in (0, 1))

    done = costhub("review", str(new), "--against", str(held), "--merge", "--shallow")

    assert (done.code, done.err) == (0, "")
    first, *_, verdict, merged, card = done.out.splitlines()
    assert "programs in both, latency ratio" in first
    assert verdict == f"{new}: accepted."
    assert merged == f"Merged: {held}"
    assert card.startswith("The card is unchanged")
    total = DataFolder.open(new).measurements().num_rows
    assert DataFolder.open(held).measurements().num_rows > total


def test_a_contribution_that_awaited_the_review_is_said_to_be_gone(costhub: Any, measured: Any, tmp_path: Path) -> None:
    held = measured(tmp_path / "hub" / "datasets" / "lab" / "held", session=0)
    inbox = measured(held / "contributions" / "abc", session=1)

    # The dataset in whose inbox it is need not be named.
    done = costhub("review", str(inbox), "--merge", "--shallow")

    assert f"`costhub publish {held} --to {tmp_path / 'hub'} --as lab/held` renews its licences" in done.out
    assert f"Removed: {inbox}, which awaited the review" in done.out.splitlines()
    assert not inbox.exists()


def test_after_the_merge_of_a_pull_request_the_commands_name_its_dataset(
    costhub: Any, measured: Any, publish_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.hub.contribute.check_folder", lambda *_, **__: [])
    publish_rows(session=0)
    sent = contribute(measured(tmp_path / "mine", session=1), "hf-hub:acme/data", deep=False, agree=True)
    assert sent is not None

    done = costhub("review", f"hf-hub:acme/data@refs/pr/{sent.pull_request}", "--merge", "--shallow")

    merged = re.search(r"^Merged: ([0-9a-f]+)$", done.out, re.MULTILINE)
    assert merged is not None
    folder = f"renewed-{merged[1][:7]}/"
    assert done.out.splitlines()[-1] == (
        f"The card is unchanged; `hf download acme/data --repo-type dataset --local-dir {folder}`, then "
        f"`costhub publish {folder} --to hf-hub:acme/data` renews its licences and contributors."
    )


def test_a_contribution_that_may_not_be_removed_is_said_to_be_merged(
    costhub: Any, measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = measured(tmp_path / "held", 0, 5)
    inbox = measured(held / "contributions" / "abc", 10, 5)
    remove = shutil.rmtree

    def refuse(path: Any, *given: Any, **options: Any) -> None:
        if Path(path) == inbox:
            raise PermissionError(errno.EACCES, "Permission denied")
        remove(path, *given, **options)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    done = costhub("review", str(inbox), "--merge", "--shallow")

    assert done.code == 0
    assert f"Merged: {held}" in done.out.splitlines()
    assert f"Not removed: {inbox} (Permission denied). Its rows are in the tables; its owner must" in done.out
    assert f"Removed: {inbox}, which awaited" not in done.out
    assert DataFolder.open(held).measurements().num_rows == 10


def test_a_refusal_is_told_and_exits_with_1(costhub: Any, measured: Any, tmp_path: Path) -> None:
    folder = str(measured(tmp_path / "data"))

    done = costhub("review", folder, "--against", folder, "--shallow")
    told = json.loads(costhub("review", folder, "--against", folder, "--shallow", "--json").out)

    assert done.code == 1
    assert "refuse: The hub already holds all of the rows (40)." in done.out
    assert "programs in both" not in done.out
    assert (told["accepted"], told["merged"], told["comparisons"][0]["replayed"]) == (False, None, 40)


def test_a_refused_contribution_in_a_folder_says_how_to_close_it(costhub: Any, measured: Any, tmp_path: Path) -> None:
    held = measured(tmp_path / "held")
    inbox = measured(tmp_path / "held" / "contributions" / "abc")

    done = costhub("review", str(inbox), "--against", str(held), "--shallow")

    assert done.code == 1
    assert done.out.splitlines()[-1] == f"Remove the folder {inbox} to close the contribution."


def test_a_contribution_that_the_hub_has_already_is_said_to_be_gone(
    costhub: Any, measured: Any, tmp_path: Path
) -> None:
    held = measured(tmp_path / "held")
    inbox = measured(held / "contributions" / "abc")

    done = costhub("review", str(inbox), "--merge", "--shallow")

    assert done.code == 0
    assert f"Removed: {inbox}, which awaited the review" in done.out.splitlines()
    assert done.out.splitlines()[-1] == "Closed: all of its rows were in the tables already."
    assert "to close the contribution" not in done.out
    assert not inbox.exists()


def test_the_rules_of_check_are_among_the_reasons(costhub: Any, measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data")
    (folder / "measurements/amd-epyc-zen5-1c/x.pkl").write_bytes(b"\x80\x04.")

    done = costhub("review", str(folder), "--shallow")

    assert done.code == 1
    assert "refuse: CH008 in measurements/amd-epyc-zen5-1c" in done.out


def test_traces_are_replayed_unless_it_is_shallow(costhub: Any, measured: Any, tmp_path: Path) -> None:
    folder = DataFolder.open(measured(tmp_path / "data", 0, 3))
    row = folder.workloads().to_pylist()[0]
    folder.put_workloads([{**row, "flop": row["flop"] * 1.5}])

    assert "CH022" in costhub("review", str(folder.path)).out
    assert "CH022" not in costhub("review", str(folder.path), "--shallow").out


def test_a_hub_that_cannot_be_read_is_no_refusal(
    costhub: Any, measured: Any, tmp_path: Path, hugging_face: Any
) -> None:
    folder, broken = str(measured(tmp_path / "data", 0, 5)), measured(tmp_path / "hub", 9, 5)
    (broken / "measurements/amd-epyc-zen5-1c/train-00000-of-00001.parquet").write_bytes(b"PAR1")

    for against in (str(broken), "hf-hub:acme/nothing"):
        done = costhub("review", folder, "--against", against, "--shallow")
        assert (done.code, done.out) == (2, "")


@pytest.mark.slow
def test_without_a_contribution_those_that_wait_are_listed(
    costhub: Any, measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path / "hub"))
    held = measured(tmp_path / "hub/datasets/lab/held", 0, 5)
    nothing = costhub("review")
    inbox = measured(held / "contributions/abc", 100, 10)

    done, of_dataset = costhub("review"), costhub("review", "--list", "lab/held")
    (told,) = json.loads(costhub("review", "--json").out)

    assert nothing.code == 0
    assert nothing.out.startswith("No contribution awaits a review in the hubs on this machine. COSTHUB_HUB names ")
    assert (done.code, done.err) == (0, "")
    titles, line, advice = done.out.splitlines()
    assert titles.split() == ["contribution", "device", "rows", "workloads", "licence", "from", "since"]
    assert line.split()[:3] == [str(inbox), "amd-epyc-zen5-1c", "10"]
    assert advice.startswith("`costhub review CONTRIBUTION` judges one")
    assert of_dataset.out == done.out == costhub("review", "--against", "lab/held").out
    assert (told["address"], told["rows"], told["licences"]) == (str(inbox), 10, ["CC-BY-4.0"])
    assert costhub("review", str(inbox), "--shallow").out.endswith(f"{inbox}: accepted.\n")


def test_texts_of_a_contribution_do_not_reach_the_terminal(costhub: Any, measured: Any, tmp_path: Path) -> None:
    old = DataFolder.open(measured(tmp_path / "old", 0, 5))
    new = DataFolder.create(tmp_path / "hub/datasets/lab/held/contributions/abc")
    with new.writer("amd-epyc-zen5-1c") as writer:
        for row in old.measurements().to_pylist():
            writer.append({**row, "contributor": "\x1b[2Jada" + 200 * "!"})

    done = costhub("review", "--list", str(tmp_path / "hub"))

    assert done.code == 0
    assert "?[2Jada!" in done.out
    assert "\x1b" not in done.out
    assert 61 * "!" not in done.out


def test_a_list_takes_one_name(costhub: Any) -> None:
    done = costhub("review", "--list", "lab/held", "--against", "lab/other")

    assert done.code == 2
    assert "--list takes the dataset as SUBJECT: leave --against out." in done.err


@pytest.mark.parametrize("option", ["--merge", "--shallow"])
def test_a_list_has_nothing_to_merge(costhub: Any, option: str) -> None:
    done = costhub("review", option)

    assert (done.code, done.out) == (2, "")
    assert "are for one contribution: name it" in done.err


def test_what_cannot_be_read_exits_with_2(costhub: Any, tmp_path: Path) -> None:
    done = costhub("review", str(tmp_path))

    assert (done.code, done.out) == (2, "")
