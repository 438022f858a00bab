"""docs/formats.md says the versions that the code has."""

from __future__ import annotations

from pathlib import Path

import pytest

from costhub.api.tune_report import REPORT_VERSION
from costhub.cards import dataset_card, model_card
from costhub.cards.adaptation import ADAPTATION_VERSION
from costhub.dataset.doctor.manifest import VERSION as DATABASE_MANIFEST_VERSION
from costhub.dataset.hidden.submission import SUBMISSION_VERSION
from costhub.dataset.hidden.task import TASK_VERSION
from costhub.dataset.metaschedule.origin import VERSION as ORIGIN_VERSION
from costhub.dataset.schema import SCHEMA_VERSION
from costhub.dataset.splits.split import SPLIT_VERSION
from costhub.hub.catalogue.devices import INDEX_VERSION
from costhub.hub.install import EVALUATION_VERSION
from costhub.hub.remote.manifest import MANIFEST_VERSION
from costhub.models.folder import FORMAT

PAGE = (Path(__file__).parents[1] / "docs/formats.md").read_text(encoding="utf-8")
ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize(
    ("what", "version"),
    [
        ("data folder: shards", SCHEMA_VERSION),
        ("data folder: card", dataset_card.CARD_VERSION),
        ("data folder: split", SPLIT_VERSION),
        ("model folder: `config.json`", FORMAT),
        ("model folder: card", model_card.CARD_VERSION),
        ("model folder: `evaluation.json`", EVALUATION_VERSION),
        ("`adaptation.json`", ADAPTATION_VERSION),
        ("`manifest.json`", MANIFEST_VERSION),
        ("`devices.json`", INDEX_VERSION),
        ("`costhub doctor --manifest`", DATABASE_MANIFEST_VERSION),
        ("`costhub_origin.json`", ORIGIN_VERSION),
        ("`report.json`", REPORT_VERSION),
        ("`task.json`", TASK_VERSION),
        ("`about.json`", SUBMISSION_VERSION),
    ],
)
def test_the_page_says_the_version_of_today(what: str, version: int) -> None:
    (row,) = [cells for cells in ROWS if what in cells[0]]

    assert row[1].startswith(f"{version};")
