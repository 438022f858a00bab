from __future__ import annotations

import json
from pathlib import Path

import pytest

import costhub
from costhub.dataset.check.zeros import useful_share
from costhub.dataset.folder import DataFolder

EMBEDDED = Path(costhub.__file__).parent / "hub/embedded/datasets/costhub/amd-epyc-zen5"


def test_only_the_transposed_convolution_multiplies_zeros_of_its_own() -> None:
    shares = {
        r["name"]: useful_share(r["module_json"]) for r in DataFolder.open(EMBEDDED).workloads().to_pylist()
    }

    assert shares.pop("metaschedule.t2d") == 0.25  # stride 2 in both directions
    assert set(shares.values()) == {1.0}


@pytest.mark.parametrize(
    "nodes",
    [
        None,
        [],
        [{"type": "prim.EQ"}],
        [{"type": "prim.EQ", "data": {"a": 99}}],
        [{"type": "prim.EQ", "data": {"a": "x"}}],
        [{"type": "prim.EQ", "data": {"a": 0}}],
        [7],
    ],
)
def test_a_text_that_is_no_module_has_all_its_flop(nodes: object) -> None:
    assert useful_share(json.dumps({"nodes": nodes, "x": "prim.FloorMod"})) == 1.0


@pytest.mark.parametrize(("divisor", "share"), [(2, 0.5), (0, 1.0), (-2, 1.0), (10**9, 1.0), (True, 1.0)])
def test_absurd_strides_do_not_open_a_gap(divisor: int, share: float) -> None:
    nodes = [
        {"type": "prim.EQ", "data": {"a": 1}},
        {"type": "prim.FloorMod", "data": {"b": 2}},
        {"type": "ir.IntImm", "data": {"value": 3}},
        {"type": "int", "data": divisor},
    ]

    assert useful_share(json.dumps({"nodes": nodes})) == share
