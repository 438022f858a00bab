from __future__ import annotations

from pathlib import Path

import pytest

from costhub.errors import ModelError
from costhub.models.trees.booster_file import read_booster


def test_a_missing_file_is_named_with_its_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks trees\.ubj, the trees of the model"):
        read_booster(tmp_path / "trees.ubj")


def test_a_file_that_is_no_booster_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "trees.ubj").write_bytes(b"{}")

    with pytest.raises(ModelError, match="cannot be read as an XGBoost model"):
        read_booster(tmp_path / "trees.ubj")
