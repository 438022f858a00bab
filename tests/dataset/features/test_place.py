from __future__ import annotations

from pathlib import Path

import pytest

import costhub
from costhub.dataset.features.cache import feature_folders
from costhub.files import CACHE_VARIABLE, cache_root


@pytest.fixture
def user_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_features_lie_beside_the_data(tmp_path: Path, user_cache: Path) -> None:
    assert feature_folders(tmp_path) == (tmp_path / "features", (tmp_path / "features",))
    assert not user_cache.exists()


def test_where_nothing_can_be_written_the_user_cache_serves(tmp_path: Path, user_cache: Path) -> None:
    # A file in the way keeps even root from making the folder.
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "features").write_text("")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "features").write_text("")

    chosen, places = feature_folders(tmp_path / "one")

    assert chosen is not None
    assert chosen.parent == user_cache / "features"
    assert places == (chosen, tmp_path / "one" / "features")
    assert feature_folders(tmp_path / "two")[0] not in (chosen, None)
    assert feature_folders(tmp_path / "one")[0] == chosen


def test_nothing_is_written_into_the_installed_package(user_cache: Path) -> None:
    root = Path(costhub.__file__).parent / "hub" / "embedded" / "datasets" / "costhub" / "none"

    chosen, places = feature_folders(root)

    assert chosen is not None
    assert chosen.parent == user_cache / "features"
    assert places[1] == root / "features"
    assert not root.exists()


def test_there_may_be_no_place_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "features").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "features"))

    assert feature_folders(tmp_path)[0] is None


def test_the_cache_is_where_pulled_models_are(tmp_path: Path, user_cache: Path) -> None:
    (tmp_path / "features").write_text("")
    chosen, _ = feature_folders(tmp_path)
    assert chosen is not None
    assert cache_root() in chosen.parents
