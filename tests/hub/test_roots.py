from __future__ import annotations

from pathlib import Path

import pytest

from costhub.errors import CosthubError
from costhub.hub.roots import (
    EMBEDDED,
    HUB_VARIABLE,
    embedded_root,
    folder_root,
    hub_roots,
)


def test_the_embedded_hub_is_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HUB_VARIABLE, raising=False)
    (root,) = hub_roots()

    assert root.path == EMBEDDED
    assert root.devices_file.is_file()


def test_a_shared_hub_stands_before_the_embedded_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path))

    assert [root.path for root in hub_roots()] == [tmp_path, EMBEDDED]


def test_a_shared_hub_that_is_no_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path / "typo"))

    with pytest.raises(CosthubError, match=r"COSTHUB_HUB names .*typo, which is not a folder"):
        hub_roots()


def test_a_folder_with_any_part_of_a_hub_is_one(tmp_path: Path) -> None:
    with pytest.raises(CosthubError, match="is not the folder of a hub"):
        folder_root(tmp_path)

    (tmp_path / "datasets").mkdir()
    assert folder_root(tmp_path).path == tmp_path
    assert folder_root(embedded_root().path).devices_file == embedded_root().devices_file
