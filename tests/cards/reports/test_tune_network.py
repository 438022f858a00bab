"""What the report says of a network, and how to use its library."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from costhub.cards.reports.blocks import Bars, Paragraph
from costhub.cards.reports.tune_network import network_blocks, network_usage, tvm_usage, usage_blocks


def network(**more: Any) -> dict[str, Any]:
    latencies = {
        form: {"median_us": us, "low_us": us, "high_us": us, "calls": 9}
        for form, us in (("untuned", 8000.0), ("tuned", 2000.0), ("torch", 1000.0))
    }
    return {
        "network": "net",
        "error": None,
        "threads": 2,
        "library": 'out/it\'s "net".so',
        "reference": "torch",
        "tolerance": 2e-4,
        "inputs": [["int64", [1, 128]], ["float32", []]],
        "latencies": latencies,
        "notes": ["It was warm."],
        "kernels": 5,
        "kernels_tuned": 2,
        **more,
    }


def test_the_lines_to_use_it_are_python_whatever_the_name() -> None:
    one = network()

    ast.parse(tvm_usage(one))
    ast.parse(network_usage(one))
    assert 'os.environ["TVM_NUM_THREADS"] = "2"' in tvm_usage(one)
    assert "np.zeros((1, 128), 'int64')" in tvm_usage(one)
    assert "torch.zeros((1, 128), dtype=torch.int64)" in network_usage(one)


def texts(shown: dict[str, Any]) -> list[str]:
    return [block.text for block in network_blocks(shown, {}, effort="64 programs.") if isinstance(block, Paragraph)]


def test_the_untuned_form_is_a_sentence_and_no_bar() -> None:
    (bars,) = [block for block in network_blocks(network(), {}, effort="") if isinstance(block, Bars)]

    assert [(bar.label, bar.is_ours) for bar in bars.bars] == [("costhub", True), ("PyTorch", False)]
    assert any(text.startswith("TVM without tuning takes 8.00 ms, 4.00 times as long") for text in texts(network()))
    assert texts(network())[-1] == "It was warm."


def test_a_network_without_pytorch_has_the_untuned_form_to_compare_with() -> None:
    latencies = {form: us for form, us in network()["latencies"].items() if form != "torch"}
    (bars,) = [b for b in network_blocks(network(latencies=latencies), {}, effort="") if isinstance(b, Bars)]

    assert [bar.label for bar in bars.bars] == ["costhub", "TVM without tuning"]


@pytest.mark.parametrize("more", [{"error": "It is wrong."}, {"latencies": {}}])
def test_a_network_that_was_not_timed_has_no_bars(more: dict[str, Any]) -> None:
    shown = network(**{"latencies": {}, **more})

    assert not [block for block in network_blocks(shown, {}, effort="") if isinstance(block, Bars)]
    assert ("Outputs equal" in " ".join(texts(shown))) == (shown["error"] is None)


def test_without_a_library_there_is_nothing_to_use() -> None:
    assert list(usage_blocks(network(library=None))) == []


def test_a_network_for_a_gpu_is_loaded_and_described_as_one() -> None:
    one = network(device_kind="cuda")
    said = " ".join(each.text for each in (*network_blocks(one, {}, effort=""), *usage_blocks(one))
                    if isinstance(each, Paragraph))  # fmt: skip
    bars = next(each for each in network_blocks(one, {}, effort="") if isinstance(each, Bars))

    assert "tvm.cuda())" in tvm_usage(one)
    assert "np.zeros((1, 128), 'int64'), tvm.cuda())" in tvm_usage(one)
    assert "TVM_NUM_THREADS" not in tvm_usage(one)
    assert "threads" not in network_usage(one)
    ast.parse(tvm_usage(one)), ast.parse(network_usage(one))
    assert bars.caption == "Median time from call to output on the GPU"
    assert "default schedules for GPUs (dlight)" in said
    assert "one thread" not in said
    assert "in parallel" not in said
