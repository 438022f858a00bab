"""Provides model_documents: the card of a model, and the figures and pictures it shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costhub.models.info import ModelInfo
    from costhub.models.protocol import CostModel


def model_documents(
    model: CostModel,
    info: ModelInfo,
    figures: dict[str, Any] | None,
    name: str,
    *,
    transfer: Mapping[str, Any] | None = None,
) -> dict[str, bytes]:
    """The files of a model folder that people read, name -> content; without figures there is no card.

    Args:
        model: The model.
        info: Its origin.
        figures: Its figures on held-out workloads; None if nothing was held out.
        name: Of the model folder.
        transfer: How the model was adapted, the content of `adaptation.json`; adds its pictures.
    """
    from costhub.cards.adaptation import ADAPTATION, ADAPTATION_VERSION, transfer_facts
    from costhub.cards.adaptation_plots import draw_adaptation
    from costhub.hub.install import card_documents
    from costhub.models.folder import config_of

    found: dict[str, bytes] = {}
    facts = None
    if transfer is not None:
        told = {"version": ADAPTATION_VERSION, **transfer}
        found = {ADAPTATION: (json.dumps(told, indent=2) + "\n").encode(), **draw_adaptation(transfer)}
        facts = transfer_facts(transfer, found)
    if figures is None:
        return found
    return {**found, **card_documents(config_of(model, info), figures, name=name, transfer=facts)}
