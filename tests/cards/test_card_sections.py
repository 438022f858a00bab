from __future__ import annotations

from typing import Any

from costhub.cards.card_sections import body
from costhub.cards.model_card import from_results


def headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]


def test_the_sections_come_in_the_order_of_a_reader(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    assert headings(body(from_results(config, evaluation))) == [
        "# nvidia-h200-mlp",
        "## How to use it",
        "## Device",
        "## Training data",
        "## Figures",
        "## Limits",
        "## Licence",
        "## Citation",
    ]


TRANSFER = {
    "source": "acme/a-mlp",
    "method": "lottery",
    "trials": 1024,
    "chosen": "adapted",
    "pictures": ["adaptation.png", "masks.png"],
}


def test_a_transfer_is_told_after_the_data_with_its_pictures(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    text = body(from_results(config, evaluation, transfer=TRANSFER))

    assert headings(text)[3:6] == ["## Training data", "## Transfer", "## Figures"]
    assert "Carried over from acme/a-mlp by `lottery`, with 1,024 programs measured on nvidia-h200." in text
    assert "the guard chose the adapted model" in text
    assert "did harm" not in text
    assert "](adaptation.png)" in text
    assert "](masks.png)" in text


def test_a_transfer_that_did_harm_says_so_and_shows_what_there_is(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    transfer = {**TRANSFER, "chosen": "local", "pictures": []}

    text = body(from_results(config, evaluation, transfer=transfer))

    assert "the guard chose the local model" in text
    assert "Transfer by lottery did harm here." in text
    assert "![" not in text


def test_a_device_without_a_descriptor_is_still_named(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    assert "## Device\n\nnvidia-h200.\n" in body(from_results(config, evaluation))


def test_a_model_without_workload_rows_shows_totals_only(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    text = body(from_results(config, {**evaluation, "workloads": []}))

    assert "| pairwise | 0.889 |" in text
    assert "By operator" not in text
    assert "weakest" not in text


def test_the_noise_floor_is_the_one_of_the_evaluation(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    text = body(from_results(config, {**evaluation, "noise_floor": 0.07}))

    assert "differ by more than 7%" in text
    assert "differ by less than 7% count as equal" in text


def test_the_mean_of_an_operator_leaves_out_what_has_no_figure(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    evaluation["workloads"][0]["pairwise"] = float("nan")

    assert "| conv2d | 2 | 104 | 0.850 | 0.990 | 0.850 | 0.800 |" in body(from_results(config, evaluation))
