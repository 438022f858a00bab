"""Provides write_site: puts the files of a site into a folder, all of them or none."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from costhub.cards.site_page import MARK
from costhub.errors import HubError
from costhub.hub.site_model import PICTURES
from costhub.swap import swap_in

INDEX = "index.html"


def write_site(out: str | Path, page: str, pictures: Mapping[str, bytes]) -> Path:
    """Writes a site beside its place and swaps it in; readers see the old one or the new one.

    Args:
        out: The folder to make. One that is empty, or holds an earlier site and nothing else, is replaced.
        page: Its HTML.
        pictures: Address in the site -> content.

    Returns:
        The page's file.

    Raises:
        HubError: `out` holds something else; nothing was changed.
    """
    target = Path(out).resolve()
    refuse_occupied(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        (made / INDEX).write_text(page, encoding="utf-8")
        for address, content in pictures.items():
            (made / address).parent.mkdir(exist_ok=True)
            (made / address).write_bytes(content)
        made.chmod(0o755)
        if target.exists():
            swap_in(target, made, Path(f"{made}-old"))
        else:
            made.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return target / INDEX


def refuse_occupied(out: str | Path) -> None:
    """Refuses a place that holds more than an earlier site.

    Raises:
        HubError: It does.
    """
    target = Path(out).resolve()
    if not target.exists():
        return
    if not target.is_dir():
        raise HubError(f"{target} is a file; give a folder to build the site in.")
    strange = _strange(target)
    if strange:
        raise HubError(
            f"{target} holds {strange}, which is not of a site that costhub built; nothing was changed. Give "
            "an empty or new folder, and copy the site to its place from there."
        )


def _strange(target: Path) -> str | None:
    """A file in the folder that `write_site` would not have written, None where there is none."""
    for path in sorted(target.rglob("*")):
        name = path.relative_to(target).as_posix()
        if path.is_symlink() or name not in (INDEX, PICTURES):
            drawn = path.suffix == ".png" and path.parent == target / PICTURES and path.is_file()
            if path.is_symlink() or not drawn:
                return name
    index = target / INDEX
    if any(target.iterdir()) and not (index.is_file() and MARK in index.read_text("utf-8", errors="replace")):
        return INDEX if index.exists() else PICTURES
    return None
