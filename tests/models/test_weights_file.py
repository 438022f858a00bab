from __future__ import annotations

from pathlib import Path

import pytest

from costhub.errors import ModelError
from costhub.models import weights_file
from costhub.models.weights_file import check_weights_file


def test_a_file_of_the_size_of_a_model_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.ubj"
    path.write_bytes(b"1234")
    monkeypatch.setattr(weights_file, "MAX_BYTES", 4)

    check_weights_file(path, "the trees")

    path.write_bytes(b"12345")
    with pytest.raises(ModelError, match="more than 4 bytes"):
        check_weights_file(path, "the trees")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "model.ubj").mkdir()

    with pytest.raises(ModelError, match=r"lacks model\.ubj, the trees of the model"):
        check_weights_file(tmp_path / "model.ubj", "the trees")
