"""`costhub estimate`: figures of kernels as a table and as JSON, and what it answers to mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

DEVICE, NAME = "amd-epyc-zen5-2c", "matmul.512x512x512"


def test_a_kernel_is_estimated_as_text_and_as_json(costhub: Any) -> None:
    text = costhub("estimate", NAME, "softmax.64x1000", "--device", DEVICE)
    assert text.code == 0, text.err
    assert text.out.splitlines()[1].split() == ["kernel", "latency", "(us)", "from", "to", "source"]
    assert text.out.count("measured, best of") == 2

    found = json.loads(costhub("estimate", NAME, "--device", DEVICE, "--interval", "0.5", "--json").out)
    (kernel,) = found["kernels"]
    assert (found["device"], found["interval"], kernel["workload"]) == (DEVICE, 0.5, NAME)
    assert f"{kernel['latency_us']:.1f}" in text.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            (),
            "name a network, a kernel or a file, as in `costhub estimate resnet50`.",
        ),
        (("matmul.1x",), "matmul.1x"),
        ((NAME, "--device", "zen99"), "There is no device named 'zen99'."),
        ((NAME, "--device", "any-cpu"), "any-cpu stands for many devices"),
        ((NAME, "--device", "none.json"), "There is no file none.json"),
        ((NAME, "--interval", "1.5"), "1.5 is out of range"),
        ((NAME, "--trials-per-workload", "0"), "0 is out of range"),
        ((NAME, "--data", "nowhere/"), "nowhere"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(costhub: Any, arguments: tuple[str, ...], says: str) -> None:
    done = costhub("estimate", *arguments)

    assert done.code == 2
    assert says in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert done.out == ""


def test_a_row_of_another_machine_is_a_device(costhub: Any, tmp_path: Path) -> None:
    row = {"device_id": "board", "kind": "cpu", "cores": 4, "peak_gflops": 60.0, "dram_gbs": 8.0}
    (tmp_path / "board.json").write_text(json.dumps(row))

    done = costhub("estimate", NAME, "--device", str(tmp_path / "board.json"))

    assert done.code == 0, done.err
    assert "The predictor has not learned from board" in done.out
    assert "predicted" in done.out
