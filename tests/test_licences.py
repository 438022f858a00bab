"""The licences of what the package holds: each is named, and comes with the text or the notice that it asks for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from costhub.cards.dataset_card import DatasetCard, parse
from costhub.hub.catalogue.hubs import EMBEDDED, list_models, read_config

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with pytest there

ROOT = Path(__file__).parents[1]
DATASETS = sorted(path for path in (EMBEDDED / "datasets/costhub").iterdir() if path.is_dir())
NOTICE = " ".join((ROOT / "NOTICE").read_text(encoding="utf-8").split())
CC_BY = "https://creativecommons.org/licenses/by/4.0/"
TITLES = {"MIT": "MIT License", "Apache-2.0": "Apache License Version 2.0, January 2004"}


def card(folder: Path) -> DatasetCard:
    return parse((folder / "README.md").read_text(encoding="utf-8"))


def declared() -> tuple[str, list[str]]:
    """The licences and the files that hold them, as the wheel's metadata declare them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["license"], project["license-files"]


def test_the_package_declares_the_licences_of_code_models_and_data() -> None:
    models = {read_config(entry.folder)["licence"] for entry in list_models()}
    data = {licence for folder in DATASETS for licence in card(folder).licences}

    assert declared()[0].split(" AND ") == sorted({"Apache-2.0", "CC-BY-4.0", *models, *data})


def test_the_licences_of_the_imported_datasets_are_among_the_declared_files() -> None:
    files = {path.relative_to(ROOT).as_posix() for pattern in declared()[1] for path in ROOT.glob(pattern)}
    imported = {folder.name for folder in DATASETS if card(folder).origins}

    place = "src/costhub/hub/embedded/datasets/costhub"
    assert files == {"LICENSE", "NOTICE", *(f"{place}/{name}/LICENSE.md" for name in imported)}


@pytest.mark.parametrize("folder", DATASETS, ids=lambda folder: folder.name)
def test_a_dataset_of_others_comes_with_their_licence_and_ours_with_its_address(folder: Path) -> None:
    [licence] = card(folder).licences

    if licence == "CC-BY-4.0":
        assert not card(folder).origins
        assert CC_BY in NOTICE
    else:
        assert TITLES[licence] in " ".join((folder / "LICENSE.md").read_text(encoding="utf-8").split())


def entry_of(name: str) -> str:
    """What the notice says of a dataset."""
    [entry] = [each for each in NOTICE.split(" - ") if name in each.partition(":")[0].replace(",", "").split()]
    return entry


@pytest.mark.parametrize("folder", DATASETS, ids=lambda folder: folder.name)
def test_the_notice_credits_each_dataset(folder: Path) -> None:
    entry = entry_of(folder.name)
    places = [place for origin in card(folder).origins for place in origin["places"]]

    assert card(folder).licences[0] in entry
    assert all(place["repository"] in entry and place.get("paper", "") in entry.replace('"', "") for place in places)


def test_the_notice_says_of_which_data_nobody_recorded_who_measured_them() -> None:
    unknown = [folder.name for folder in DATASETS if any(each.get("only_imported") for each in card(folder).origins)]

    assert unknown == ["nvidia-h200"]
    assert "who measured it is not recorded" in entry_of("nvidia-h200")
