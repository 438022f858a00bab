"""A folder in the place of another: all of the new one or all of the old one."""

from __future__ import annotations

from pathlib import Path

import pytest

from costhub.errors import CosthubError
from costhub.swap import swap_in


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    for name in ("kept", "made"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    return tmp_path / "kept", tmp_path / "made", tmp_path / "old"


def test_the_new_folder_takes_the_place_and_nothing_of_the_old_one_is_left(
    places: tuple[Path, Path, Path],
) -> None:
    kept, made, old = places

    swap_in(kept, made, old)

    assert (kept / "file").read_text() == "made"
    assert not made.exists()
    assert not old.exists()


def broken(monkeypatch: pytest.MonkeyPatch, *names: str, error: BaseException) -> None:
    """From now on folders of these names cannot be renamed."""
    rename = Path.rename

    def stop(self: Path, target: str | Path) -> Path:
        if self.name in names:
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", stop)


@pytest.mark.parametrize("error", [OSError("disk"), KeyboardInterrupt()])
def test_an_interruption_leaves_the_old_folder_in_its_place(
    places: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    kept, made, old = places
    broken(monkeypatch, "made", error=error)

    with pytest.raises(type(error)):
        swap_in(kept, made, old)

    assert (kept / "file").read_text() == "kept"
    assert (made / "file").exists()


def test_what_cannot_be_put_back_is_said_to_lie_where_it_lies(
    places: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, made, old = places
    broken(monkeypatch, "made", "old", error=OSError("disk"))

    with pytest.raises(CosthubError, match=f"All it held is in {old}"):
        swap_in(kept, made, old)

    assert (old / "file").read_text() == "kept"
