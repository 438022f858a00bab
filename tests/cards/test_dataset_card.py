from __future__ import annotations

from typing import Any

import pytest

from costhub.cards.dataset_card import complete_dataset_card
from costhub.cards.front_matter import split
from costhub.dataset.readme import readme_text
from costhub.errors import DataError


def complete(text: str, **changes: Any) -> str:
    known: dict[str, Any] = {
        "rows": 12_000,
        "devices": ["nvidia-h200"],
        "licences": ["CC-BY-4.0"],
        "tvm_versions": ["0.27.0"],
    }
    return complete_dataset_card(text, **{**known, **changes})


def test_what_a_hub_files_it_under_is_written_and_the_rest_stays() -> None:
    block, body = split(complete(readme_text()))
    before, text = split(readme_text())

    assert (block["license"], block["size_categories"]) == ("cc-by-4.0", ["10K<n<100K"])
    assert block["tags"] == ["costhub", "tvm", "cost-model", "device:nvidia-h200", "tvm:0.27.0"]
    assert (block["configs"], body) == (before["configs"], text)


def test_completing_twice_is_completing_once_and_old_devices_go() -> None:
    once = complete("---\ntags: [mine, 'device:old']\nlicense: mit\nlicense_name: x\n---\n# T\n")

    assert complete(once) == once
    assert split(once)[0]["tags"][-1] == "mine"
    assert "device:old" not in once
    assert "license_name" not in once


@pytest.mark.parametrize(
    ("licences", "expected"),
    [
        (["MIT", "CC-BY-4.0"], {"license": ["cc-by-4.0", "mit"]}),
        (["LicenseRef-Lab"], {"license": "other", "license_name": "licenseref-lab"}),
    ],
)
def test_several_licences_and_unknown_ones_are_announced(
    licences: list[str], expected: dict[str, Any]
) -> None:
    block = split(complete(readme_text(), licences=licences))[0]

    assert {key: value for key, value in block.items() if key.startswith("license")} == expected


@pytest.mark.parametrize("licences", [[], [""], ["MIT", " "]])
def test_rows_without_a_licence_are_refused(licences: list[str]) -> None:
    with pytest.raises(DataError, match="without a licence"):
        complete(readme_text(), licences=licences)
