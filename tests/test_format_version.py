from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.adaptation import transfer_facts
from costhub.cli.tune_report import REPORT, refuse_newer_report
from costhub.dataset.shards.journal import read_journal
from costhub.dataset.splits.split_file import load_split
from costhub.errors import CosthubError, DataError
from costhub.format_version import refuse_newer
from costhub.hub.index import read_devices
from costhub.hub.install import write_recorded_card
from costhub.hub.manifest import MANIFEST, read_manifest
from costhub.hub.shelf import EVALUATION
from costhub.models.folder import CONFIG, load_model

TOLD = {"source": "a", "method": "b", "trials": 1, "chosen": "adapted"}


@pytest.mark.parametrize("content", [{}, {"version": 1}, {"version": 2}])
def test_versions_up_to_the_newest_pass(content: dict[str, Any]) -> None:
    refuse_newer(content, newest=2, what="a.json", error=DataError)


@pytest.mark.parametrize("version", [3, 0, -1, "1", None, True, 1.0, [1]])
def test_others_are_refused(version: object) -> None:
    with pytest.raises(DataError, match=r"a\.json has version .*up to 2\. Update costhub\."):
        refuse_newer({"version": version}, newest=2, what="a.json", error=DataError)


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        (CONFIG, {"costhub_format": 9}, load_model),
        (MANIFEST, {"version": 9, "contents": []}, read_manifest),
        (EVALUATION, {"version": 9}, lambda folder: write_recorded_card(folder, name="x")),
        (
            "devices.json",
            {"version": 9, "machines": []},
            lambda folder: read_devices(folder / "devices.json"),
        ),
        (REPORT, {"version": 9}, refuse_newer_report),
        ("a.json", {"costhub": "split", "version": 9}, lambda folder: load_split(folder / "a.json")),
        ("adaptation.json", {}, lambda folder: transfer_facts({**TOLD, "version": 9}, [])),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_of_a_newer_costhub_is_refused_with_a_sentence_that_says_to_update(
    name: str, content: dict[str, Any], read: Any, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(json.dumps(content))

    with pytest.raises(CosthubError, match=r"9.*(Update costhub|: upgrade)\."):
        read(tmp_path)


def test_a_journal_with_columns_of_a_newer_costhub_says_so(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text('{"record_id": "a", "watts": 3}\n')

    with pytest.raises(DataError, match=r"unknown column 'watts'.*update costhub if a newer one wrote it"):
        read_journal(tmp_path / "journal.jsonl")


def test_a_folder_without_a_report_or_with_a_torn_one_may_be_tuned_into(tmp_path: Path) -> None:
    refuse_newer_report(tmp_path)
    (tmp_path / REPORT).write_text('{"vers')
    refuse_newer_report(tmp_path)
