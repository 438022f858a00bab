"""The least time that a prediction can take on this machine, from its bytes and operations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.bench.common import machine

PROBE = Path(__file__).resolve().parents[3] / "docs/results/probe.json"


def floor(model: Any, rows: Any, counts: Any) -> dict[str, float]:
    """Bytes, operations and milliseconds of a prediction at the probed rates; {} on a machine not probed.

    Rows are read once, from memory. A network multiplies and adds in float32; each level of a tree counts as
    one operation, a comparison.
    """
    probes = {probe["device_id"]: probe for probe in json.loads(PROBE.read_text())["probe"]}
    probe = probes.get(machine.describe()["device"])
    if probe is None:
        return {}
    moved, done = float(rows.nbytes), OPERATIONS[model.arch](model, rows, counts)
    seconds = max(moved / probe["dram_gbs"], done / probe["peak_gflops"]) * 1e-9
    return {"bytes": moved, "operations": done, "floor_ms": seconds * 1e3}


def of_trees(model: Any, rows: Any, counts: Any) -> float:
    """Three operations per number for the pooling, and one for each level of each tree."""
    return float(3 * rows.size + len(counts) * model.booster.num_boosted_rounds() * model.options.depth)


def of_mlp(model: Any, rows: Any, counts: Any) -> float:
    """Two layers for each row, two and the score for each program."""
    hidden, inputs = model.options.hidden, model.config()["inputs"]
    per_row, per_program = hidden * (inputs + hidden), hidden * (2 * hidden + 1)
    return float(2 * model.options.members * (len(rows) * per_row + len(counts) * per_program))


def of_tokens(model: Any, rows: Any, counts: Any) -> float:
    """As `of_mlp`, with eight square layers per token, and products with all other tokens."""
    hidden, inputs, layers = model.options.hidden, model.config()["inputs"], model.options.layers
    per_layer = len(rows) * 8 * hidden**2 + 2 * hidden * float((counts**2).sum())
    per_program = hidden * (2 * hidden + 1)
    return 2.0 * (len(rows) * inputs * hidden + layers * per_layer + len(counts) * per_program)


OPERATIONS = {"gbt": of_trees, "mlp": of_mlp, "tokens": of_tokens}
