"""Provides site: builds the static page of what some hubs hold."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costhub.cards.site.site_page import site_page
from costhub.hub.catalogue.hubs import embedded_root, folder_root
from costhub.hub.searches import read_searches
from costhub.hub.site import refuse_occupied, site_contents, write_site
from costhub.terminal_text import Printed

log = logging.getLogger("costhub")


@dataclass(frozen=True, repr=False)
class WrittenSite(Printed):
    """The site that `costhub.site` built; `print` shows its page and how much is on it."""

    page: Path
    """Its `index.html`."""
    models: int
    devices: int
    datasets: int
    pictures: int
    left_out: tuple[str, ...]
    """A sentence for each folder or index that could not be read."""
    searches: int = 0
    """Devices whose scores were added from results of searches."""

    @property
    def counts(self) -> dict[str, int]:
        """How many models, devices, datasets and pictures the site has, by these names; and searches, if there are."""
        counts = {name: getattr(self, name) for name in ("models", "devices", "datasets", "pictures")}
        return {**counts, **({"searches": self.searches} if self.searches else {})}

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {"page": str(self.page), **self.counts, "left_out": list(self.left_out)}

    def __str__(self) -> str:
        return f"{self.page}: {', '.join(f'{what}: {count}' for what, count in self.counts.items())}."


def site(
    out: str | Path,
    *,
    hubs: str | Path | Sequence[str | Path] = (),
    searches: str | Path | Sequence[str | Path] = (),
) -> WrittenSite:
    """Builds a static site of hubs: their devices, models, figures, data and cards.

    The site is one page and its pictures. It loads nothing from elsewhere, and any static host can serve it. What
    cannot be read is left out, with a warning.

    Args:
        out: Folder to write; the page is its `index.html`. A new or empty folder, or one that holds only an earlier
            site, which is replaced.
        hubs: The folder of a hub, or of several; by default the embedded hub.
        searches: A file of `costhub bench search --out`, or several, whose scores are added to the hub's.

    Returns:
        Where the page is, and what is on it.

    Raises:
        ArgumentError: `out` holds something else; nothing was changed.
        CosthubError: A folder is not that of a hub, or a file not the result of such searches.

    Example:
        >>> import tempfile
        >>> made = site(tempfile.mkdtemp())
        >>> made.page.name, made.models > 1, made.left_out
        ('index.html', True, ())
    """
    roots = [folder_root(path) for path in _each(hubs)] or [embedded_root()]
    results = [read_searches(path) for path in _each(searches)]
    refuse_occupied(out)  # before reading the hubs, which takes seconds
    found = site_contents(roots, searches=results)
    page = write_site(out, site_page(found.site), found.files)
    for sentence in found.left_out:
        log.warning("Left out: %s", sentence)
    return WrittenSite(
        page,
        models=len(found.site.models),
        devices=len(found.site.devices),
        datasets=len(found.site.datasets),
        pictures=len(found.pictures),
        left_out=found.left_out,
        searches=sum(len(each.devices) for each in results),
    )


def _each(paths: str | Path | Sequence[str | Path]) -> Sequence[str | Path]:
    return [paths] if isinstance(paths, str | os.PathLike) else paths
