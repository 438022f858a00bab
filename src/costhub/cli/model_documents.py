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
    """File name -> content: the card and what it shows; no card without figures, since it never shows a gap.

    Args:
        model: The model.
        info: Where it comes from.
        figures: Of its evaluation on held-out workloads.
        name: Of the model folder.
        transfer: How a model was carried over, the content of `adaptation.json`; it comes with its pictures.
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
