"""Says where hubs are: the one in the package, and a shared folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from costhub.errors import CosthubError

EMBEDDED = next(path for path in Path(__file__).parents if path.name == "hub") / "embedded"
"""The hub shipped in the package."""

HUB_VARIABLE = "COSTHUB_HUB"


@dataclass(frozen=True)
class Root:
    """A folder laid out as `{models,datasets}/<org>/<name>/`, with a `devices.json`."""

    path: Path
    label: str
    """What people call it."""

    @property
    def devices_file(self) -> Path:
        """Its device index; a shared folder may have none."""
        return self.path / "devices.json"


def hub_roots() -> tuple[Root, ...]:
    """The hubs to look in, first the shared folder named by $COSTHUB_HUB, then the embedded one.

    Raises:
        CosthubError: $COSTHUB_HUB names something that is no folder.
    """
    embedded = embedded_root()
    shared = os.environ.get(HUB_VARIABLE)
    if not shared:
        return (embedded,)
    path = Path(shared).expanduser()
    if not path.is_dir():
        raise CosthubError(
            f"{HUB_VARIABLE} names {path}, which is not a folder. Set it to a hub folder, or unset it."
        )
    return (Root(path, f"the hub {path}"), embedded)


def embedded_root() -> Root:
    """The hub shipped in the package."""
    return Root(EMBEDDED, "the embedded hub")


def folder_root(path: str | Path) -> Root:
    """A hub by its folder.

    Raises:
        CosthubError: It is none: it has no models, no datasets and no device index.
    """
    root = Root(Path(path), f"the hub {path}")
    if not (
        root.devices_file.is_file() or any((root.path / kind).is_dir() for kind in ("models", "datasets"))
    ):
        raise CosthubError(
            f"{path} is not the folder of a hub, which has "
            "models/ORG/NAME, datasets/ORG/NAME or a devices.json."
        )
    return root
