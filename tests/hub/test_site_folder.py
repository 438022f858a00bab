"""A site's folder is replaced as a whole, and nothing but a site is ever replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from costhub.cards.site_page import MARK
from costhub.errors import HubError
from costhub.hub import site_folder
from costhub.hub.site_folder import write_site

PAGE = f"<p>{MARK}</p>"
PICTURES = {"pictures/0a.png": b"a", "pictures/0b.png": b"b"}


def test_a_new_folder_holds_the_page_and_its_pictures(tmp_path: Path) -> None:
    out = tmp_path / "deep/site"

    assert write_site(out, PAGE, PICTURES) == out / "index.html"
    assert {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()} == {"index.html", *PICTURES}
    assert out.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in out.parent.iterdir()] == ["site"]


def test_an_earlier_site_is_replaced_whole(tmp_path: Path) -> None:
    write_site(tmp_path / "site", PAGE, PICTURES)
    write_site(tmp_path / "site", PAGE + "new", {})

    assert [path.name for path in (tmp_path / "site").iterdir()] == ["index.html"]
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    assert write_site(tmp_path, PAGE, {}).is_file()


def put(name: str) -> Callable[[Path], None]:
    def make(out: Path) -> None:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("mine")

    return make


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (".git/config", ".git"),
        ("notes.txt", "notes.txt"),
        ("pictures/mine.txt", "pictures/mine.txt"),
        ("pictures/x.png/y.png", "pictures/x.png"),
        ("index.html", "index.html"),
    ],
)
def test_a_folder_with_anything_else_is_left_alone(tmp_path: Path, name: str, said: str) -> None:
    out = tmp_path / "site"
    write_site(out, PAGE, PICTURES)
    put(name)(out)
    before = sorted(path.name for path in out.rglob("*"))

    with pytest.raises(HubError, match=rf"holds {said}, which is not of a site"):
        write_site(out, PAGE, {})
    assert sorted(path.name for path in out.rglob("*")) == before
    assert (out / name).read_text() == "mine"


def test_pictures_alone_are_no_site(tmp_path: Path) -> None:
    put("pictures/a.png")(tmp_path / "site")

    with pytest.raises(HubError, match="holds pictures"):
        write_site(tmp_path / "site", PAGE, {})


def test_links_and_files_are_no_site(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(HubError, match="is a file"):
        write_site(tmp_path / "file", PAGE, {})

    write_site(tmp_path / "site", PAGE, {})
    (tmp_path / "site/index.html").rename(tmp_path / "elsewhere.html")
    (tmp_path / "site/index.html").symlink_to(tmp_path / "elsewhere.html")
    with pytest.raises(HubError, match=r"holds index\.html"):
        write_site(tmp_path / "site", PAGE, {})


def test_an_interrupted_swap_leaves_the_old_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "site"
    write_site(out, PAGE + "old", PICTURES)

    def stop(*_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(site_folder, "swap_in", stop)
    with pytest.raises(KeyboardInterrupt):
        write_site(out, PAGE + "new", {})

    assert (out / "index.html").read_text() == PAGE + "old"
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
