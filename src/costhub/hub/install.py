"""Provides install_model and write_card: puts a trained model into a hub folder, with its card and manifest."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costhub.cards.adaptation import ADAPTATION, PICTURES, transfer_facts
from costhub.cards.markdown import CARD
from costhub.cards.model_card import from_results, render
from costhub.cards.model_plots import draw_evaluation
from costhub.errors import DataError
from costhub.files import read_regular, refuse_newer, swap_in, write_replacing
from costhub.hub.catalogue.devices import find_device
from costhub.hub.catalogue.hubs import EMBEDDED, EVALUATION, MAX_CONFIG_BYTES, read_config
from costhub.hub.model_check.model_files import refuse_links
from costhub.hub.remote.manifest import copy_verified, scan, write_manifest

EVALUATION_VERSION = 1
"""Incremented whenever current code could not read earlier files."""


def install_model(
    folder: str | Path,
    *,
    root: str | Path = EMBEDDED,
    org: str = "costhub",
    evaluation: Mapping[str, Any] | None = None,
) -> Path:
    """Copies a model folder to `<root>/models/<org>/<device_id>-<arch>/`, replacing the version there.

    Args:
        folder: A folder written by `save_model`.
        root: The hub; by default the one in the package.
        org: The organisation or person who owns the model.
        evaluation: Its figures on held-out workloads; by default those in `evaluation.json` of the folder.
            They are rendered as the card; without figures the model gets no card.

    Returns:
        The folder in the hub.

    Raises:
        ModelError: `folder` is not a model folder.
        DataError: The configuration or the figures lack what a card needs.
    """
    source, config = Path(folder), read_config(Path(folder))
    target = Path(root) / "models" / org / f"{config['device_id']}-{config['arch']}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".install-", dir=target.parent) as temporary:
        new = copy_verified(source, Path(temporary) / target.name, manifest=scan(source))
        if evaluation is None:
            write_card_from_figures(new, name=new.name, address=f"{org}/{new.name}")
        else:
            write_card(new, config, evaluation, name=new.name, address=f"{org}/{new.name}")
        write_manifest(new)
        if target.exists():
            swap_in(target, new, Path(f"{temporary}-old"))
        else:
            new.rename(target)
    return target


def write_card_from_figures(folder: Path, *, name: str, address: str = "") -> None:
    """Renders the card of a model from the figures beside it; without figures the model gets no card.

    Args:
        folder: The model folder.
        name: Name of the model on the card.
        address: See `write_card`.

    Raises:
        ModelError: `folder` is not a model folder.
        DataError: The configuration or the figures lack what a card needs.
    """
    figures = read_figures(folder, EVALUATION)
    if figures is not None:
        write_card(folder, read_config(folder), figures, name=name, address=address)


def read_figures(folder: Path, name: str) -> dict[str, Any] | None:
    """The content of a file beside the model; None without the file.

    Raises:
        DataError: It is not a regular file, is too large, not a JSON object, or not one with rows of workloads.
    """
    path = folder / name
    if not os.path.lexists(path):
        return None
    try:
        figures = json.loads(read_regular(path, limit=MAX_CONFIG_BYTES, error=DataError))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path.name} of the model is not JSON ({error}). Evaluate or adapt the model again."
        ) from error
    if not isinstance(figures, dict):
        raise DataError(
            f"{path.name} of the model is not a JSON object with figures. Evaluate or adapt the model again."
        )
    if name == EVALUATION:
        refuse_newer(figures, newest=EVALUATION_VERSION, what=f"{name} of the model", error=DataError)
        rows = figures.get("workloads", [])
        if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
            raise DataError(f"`workloads` in {name} is not a list of rows. Evaluate the model again.")
    return figures


def card_documents(
    config: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    *,
    name: str,
    transfer: Mapping[str, Any] | None,
    address: str = "",
) -> dict[str, bytes]:
    """File name -> content: the card of a model, its pictures, and the figures that they show.

    Args:
        config: The content of `config.json`.
        evaluation: Figures on held-out workloads.
        name: Name of the model on the card.
        transfer: See `transfer_facts`; None if the model was not adapted.
        address: See `write_card`.

    Raises:
        DataError: The configuration or the figures lack what a card needs.
    """
    device = find_device(config["device_id"])
    drawn = draw_evaluation(evaluation)
    card = from_results(
        config,
        evaluation,
        name=name,
        device=device.row() if device else None,
        transfer=transfer,
        pictures=list(drawn),
        address=address,
    )
    return {**drawn, CARD: render(card).encode(), EVALUATION: evaluation_text(evaluation).encode()}


def evaluation_text(evaluation: Mapping[str, Any]) -> str:
    """The content of `evaluation.json`."""
    return json.dumps({"version": EVALUATION_VERSION, **evaluation}, indent=2) + "\n"


def write_card(
    folder: Path, config: Mapping[str, Any], evaluation: Mapping[str, Any], *, name: str, address: str = ""
) -> None:
    """Writes the card of a model, its pictures and its figures into its folder.

    Args:
        folder: The model folder.
        config: The content of `config.json`.
        evaluation: Figures on held-out workloads.
        name: Name of the model on the card.
        address: The model's address in a hub, as accepted by `costhub tune --model`; empty for a model in no hub.

    Raises:
        ModelError: The folder holds a link or a pipe, so the card might be written elsewhere.
        DataError: The configuration or the figures lack what a card needs.
    """
    for file, content in card_files(folder, config, evaluation, name=name, address=address).items():
        write_replacing(folder / file, content)


def card_files(
    folder: Path, config: Mapping[str, Any], evaluation: Mapping[str, Any], *, name: str, address: str = ""
) -> dict[str, bytes]:
    """File name -> content of what `write_card` writes.

    Args:
        folder: The model folder, which says whether the model was adapted.
        config: The content of `config.json`.
        evaluation: Figures on held-out workloads.
        name: Name of the model on the card.
        address: See `write_card`.

    Raises:
        ModelError: The folder holds a link or a pipe, so the card might be written elsewhere.
        DataError: The configuration or the figures lack what a card needs.
    """
    refuse_links(folder)
    adaptation = read_figures(folder, ADAPTATION)
    pictures = [name for name in PICTURES if (folder / name).is_file()]
    transfer = None if adaptation is None else transfer_facts(adaptation, pictures)
    return card_documents(config, evaluation, name=name, transfer=transfer, address=address)
