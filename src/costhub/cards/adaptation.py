"""Provides the facts of a transfer for a card, and its masks as a table."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.errors import DataError
from costhub.files import refuse_newer

ADAPTATION = "adaptation.json"
"""File of the model folder that says how the model was adapted."""
ADAPTATION_VERSION = 1
"""Incremented with every change that makes older files unreadable."""
CURVE_PICTURE, MASKS_PICTURE = "adaptation.png", "masks.png"
PICTURES = {
    CURVE_PICTURE: "Pairs of each new batch that the candidates ranked right, against programs measured",
    MASKS_PICTURE: "Share of each layer of the adapted model that was transferable, and how much stayed so",
}
"""File of the model folder -> its caption; the second one exists if the method has masks."""
ADAPTED = "adapted"
"""The candidate that is saved unless another one is better."""

Shares = Mapping[str, float]
"""Layer -> a share of its parameters."""

_FACTS = ("source", "method", "trials", "chosen")


def transfer_facts(adaptation: Mapping[str, Any], files: Collection[str]) -> dict[str, Any]:
    """The facts of a transfer for a card.

    Args:
        adaptation: The content of `adaptation.json`.
        files: The files beside it; the pictures among them are shown.

    Returns:
        `source`, `method`, `trials`, `chosen`, `pictures` (names of files) and, if a rule ended the measurements,
        `stopped`, a text.

    Raises:
        DataError: A fact is missing, or a newer costhub wrote the file.

    Example:
        >>> adaptation = {"source": "acme/a-mlp", "method": "lottery", "trials": 64, "chosen": "adapted"}
        >>> transfer_facts(adaptation, ["config.json", "adaptation.png"])["pictures"]
        ['adaptation.png']
    """
    refuse_newer(adaptation, newest=ADAPTATION_VERSION, what=f"{ADAPTATION} of the model", error=DataError)
    missing = [key for key in _FACTS if adaptation.get(key) is None]
    if missing:
        raise DataError(f"{ADAPTATION} of the model lacks {', '.join(missing)}. Adapt the model again.")
    pictures = [name for name in PICTURES if name in files]
    stopped = adaptation.get("stopped")
    if stopped is not None and not (isinstance(stopped, Mapping) and isinstance(stopped.get("said"), str)):
        raise DataError(f"{ADAPTATION} of the model does not say why measuring ended. Adapt the model again.")
    return {
        **{key: adaptation[key] for key in _FACTS},
        **({"stopped": stopped["said"]} if stopped else {}),
        "pictures": pictures,
    }


def by_layer(networks: Sequence[Sequence[Shares]]) -> dict[str, list[float]]:
    """The shares of every layer, epoch by epoch.

    Args:
        networks: For each network, the shares of every epoch.

    Returns:
        Layer -> mean over the networks that have it, for the epochs in which all of them were training. An epoch
        without the layer counts as 0, since nothing of the layer could stay transferable in it.

    Example:
        >>> by_layer([[{"a": 0.5}, {"a": 0.25}], [{"a": 1.0, "b": 0.5}, {"a": 0.75}]])
        {'a': [0.75, 0.5], 'b': [0.5, 0.0]}
    """
    layers = dict.fromkeys(layer for epochs in networks for shares in epochs for layer in shares)
    return {
        layer: [
            statistics.fmean(values)
            for values in zip(
                *(
                    [shares.get(layer, 0.0) for shares in epochs]
                    for epochs in networks
                    if any(layer in shares for shares in epochs)
                ),
                strict=False,
            )
        ]
        for layer in layers
    }


def masks_table(adaptation: Mapping[str, Any]) -> str:
    """Renders how much of each layer was trainable, and how much of that stayed so, for a terminal.

    Args:
        adaptation: `method`, `transferable` and `kept`, as in `adaptation.json`.
    """
    shares, kept = by_layer(adaptation["transferable"]), by_layer(adaptation["kept"])
    if not shares:
        return f"The method {adaptation['method']} has no masks in this model."
    rows = [
        {
            "layer": layer,
            "first": epochs[0],
            "last": epochs[-1],
            "kept": statistics.fmean(kept[layer]) if kept.get(layer) else None,
        }
        for layer, epochs in shares.items()
    ]
    columns = [
        TableColumn("layer", "layer"),
        number("first", "first epoch"),
        number("last", "last epoch"),
        number("kept", "kept from epoch to epoch"),
    ]
    return (
        "Share of each layer that was transferable, and of that the share that stayed so in the next epoch, "
        "mean over epochs:\n" + plain_table(rows, columns)
    )
