"""Provides model_documents: the card of a model and the figures it shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costhub.models.info import ModelInfo
    from costhub.models.protocol import CostModel


def model_documents(
    model: CostModel, info: ModelInfo, figures: dict[str, Any] | None, name: str
) -> dict[str, str]:
    """File name -> text: the card and its figures; none without figures, since a card never shows a gap.

    Args:
        model: The model.
        info: Where it comes from.
        figures: Of its evaluation on held-out workloads.
        name: Of the model folder.
    """
    from costhub.cards.model_card import from_results, render
    from costhub.hub.index import find_device
    from costhub.hub.install import EVALUATION
    from costhub.models.folder import config_of

    if figures is None:
        return {}
    known = find_device(info.device_id)
    card = from_results(config_of(model, info), figures, name=name, device=known.row() if known else None)
    return {"README.md": render(card), EVALUATION: json.dumps(figures, indent=2) + "\n"}
