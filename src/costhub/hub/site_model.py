"""Provides read_site_model and read_body: a model and the cards of a hub, as its page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from costhub.cards.front_matter import CARD, MAX_CARD_CHARACTERS, split
from costhub.cards.site_facts import METRICS, SiteModel, as_number
from costhub.errors import DataError, ModelError
from costhub.hub.address import parse_address
from costhub.hub.install import read_recorded
from costhub.hub.manifest import Manifest, verify
from costhub.hub.shelf import EVALUATION, read_config, told_devices
from costhub.hub.staging import read_card

PICTURES = "pictures"
"""Folder of the site that pictures lie in."""
MAX_PICTURE_BYTES = 8 << 20
MAX_OPERATORS = 100
_PNG = b"\x89PNG\r\n\x1a\n"


def read_site_model(folder: Path, name: str) -> tuple[SiteModel, dict[str, bytes]]:
    """Reads a model folder whose files are what its manifest says.

    Args:
        folder: The model folder.
        name: ORG/NAME, which `costhub pull` must be able to read.

    Returns:
        The model, and address in the site -> content of its pictures.

    Raises:
        CosthubError: One of its kinds: the folder is damaged, or holds what no model has.
    """
    parse_address(name)
    manifest = verify(folder)
    _refuse_links(folder, manifest)
    config = read_config(folder)
    recorded = (read_recorded(folder, EVALUATION) if EVALUATION in manifest.files else None) or {}
    found = {
        picture: _picture(folder / picture, entry.sha256)
        for picture, entry in manifest.files.items()
        if picture.endswith(".png") and "/" not in picture
    }
    model = SiteModel(
        name=name,
        device_id=config["device_id"],
        arch=config["arch"],
        told=told_devices(config),
        bytes=sum(entry.size for entry in manifest.files.values()),
        figures=_shares(recorded.get("totals", config.get("metrics")), METRICS, folder),
        errors=_shares(recorded.get("standard_errors"), METRICS, folder),
        operators=_by_operator(recorded, folder),
        card=read_body(folder) if CARD in manifest.files else None,
        pictures={picture: address for picture, (address, _) in found.items()},
    )
    return model, dict(found.values())


def read_body(folder: Path) -> str | None:
    """The card of a folder without its block of YAML; None where it has none.

    Raises:
        DataError: It is a link, no text, too long, or its block is no YAML.
    """
    card = folder / CARD
    if card.is_symlink():
        raise DataError(f"{card} is a link; a card lies in the folder itself.")
    if not card.is_file():
        return None
    if card.stat().st_size > 4 * MAX_CARD_CHARACTERS:
        raise DataError(f"{card} is longer than {MAX_CARD_CHARACTERS} characters: it is no card.")
    text = read_card(card).replace("\r\n", "\n")
    return split(text)[1] if text.startswith("---\n") else text


def _refuse_links(folder: Path, manifest: Manifest) -> None:
    """What a link shows may be a file that its owner never meant to publish."""
    root = folder.resolve()
    for name in manifest.files:
        if not (folder / name).resolve().is_relative_to(root):
            raise ModelError(f"{folder / name} is a link out of its folder; a model has plain files only.")


def _picture(path: Path, sha256: str) -> tuple[str, bytes]:
    with path.open("rb") as file:
        content = file.read(MAX_PICTURE_BYTES + 1)
    if len(content) > MAX_PICTURE_BYTES or not content.startswith(_PNG):
        raise ModelError(f"{path} is no PNG of at most {MAX_PICTURE_BYTES:,} bytes. Draw it again.")
    # Named by content: a name of a stranger would become a path, and may occur in two models.
    return f"{PICTURES}/{sha256[:16]}.png", content


def _shares(found: object, names: Iterable[str], folder: Path) -> dict[str, float]:
    """What of a mapping is a number under one of the names; all of them are shares."""
    told = found if isinstance(found, Mapping) else {}
    read = {name: as_number(told.get(name)) for name in names}
    shares = {name: value for name, value in read.items() if value is not None}
    for name, value in shares.items():
        if not 0.0 <= value <= 1.0:
            raise ModelError(f"{folder} records {name} {value:.3g}, expected 0 to 1. Evaluate it again.")
    return shares


def _by_operator(recorded: Mapping[str, Any], folder: Path) -> dict[str, float]:
    rows = recorded.get("operators")
    told = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    found = {str(row.get("operator")): row.get("top_1") for row in told}
    if len(found) > MAX_OPERATORS:
        raise ModelError(f"{folder} records {len(found)} operator classes; no model has that many.")
    return _shares(found, found, folder)
