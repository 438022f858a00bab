"""Pictures of a transfer: what they name, what changes them, and that equal data give equal bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from costhub.cards.model_plots import (
    EVALUATION_PICTURE,
    draw_adaptation,
    draw_evaluation,
    plot_adaptation,
    plot_evaluation,
    plot_masks,
    running_means,
)


def test_a_picture_is_drawn_and_equal_figures_give_equal_bytes(evaluation: dict[str, Any]) -> None:
    first, again = draw_evaluation(evaluation), draw_evaluation(evaluation)

    assert first == again
    assert first[EVALUATION_PICTURE].startswith(b"\x89PNG")


def test_other_figures_give_another_picture(evaluation: dict[str, Any]) -> None:
    before = draw_evaluation(evaluation)
    evaluation["workloads"][0]["top_1"] = 0.1

    assert draw_evaluation(evaluation) != before


def test_without_figures_there_is_no_picture() -> None:
    assert draw_evaluation({"workloads": []}) == {}
    assert draw_evaluation({"workloads": [{"top_1": None, "pairwise": float("nan")}]}) == {}


def test_every_operator_is_named(evaluation: dict[str, Any], tmp_path: Path) -> None:
    path = plot_evaluation(tmp_path / "a.svg", [*evaluation["workloads"], {"operator": "a$b$", "top_1": 0.5}])

    for name in ("conv2d (2)", "softmax (1)", "a$b$ (1)"):
        assert f"<!-- {name} -->" in path.read_text()


CHOSEN = ["adapted", "local", "local", "adapted", "local", "source"]
CURVE: list[dict[str, Any]] = [
    {
        "trials": 32 * number,
        "chosen": chosen,
        "pairwise": {"adapted": 0.6 + number / 50, "source": 0.6} | ({"local": 0.7} if number else {}),
    }
    for number, chosen in enumerate(CHOSEN)
]
SHARES = [{"encode.weight": 0.5, "score.bias": 1.0}] * 3
KEPT = [{"encode.weight": 0.75, "score.bias": 1.0}] * 2


def words(path: Path) -> list[str]:
    # matplotlib draws letters as outlines, and says in a comment what they read.
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))  # noqa: S314 - our own
    tree = ET.parse(path, parser)  # noqa: S314
    return [str(element.text).strip() for element in tree.iter() if element.tag is ET.Comment]


def test_the_curve_names_candidates_and_what_the_guard_chose_once(tmp_path: Path) -> None:
    found = words(plot_adaptation(tmp_path / "a.svg", CURVE))

    for name in ("adapted", "source", "local", "chance", "guard chose local", "guard chose source"):
        assert found.count(name) == 1
    assert {"0", "32", "160"} <= set(found)


def test_where_the_adapted_model_always_led_no_choice_is_marked(tmp_path: Path) -> None:
    led = [{**batch, "chosen": "adapted"} for batch in CURVE]

    found = words(plot_adaptation(tmp_path / "a.svg", led))

    assert not any(word.startswith("guard") for word in found)


def test_a_batch_that_says_nothing_is_left_out_and_one_batch_is_a_picture(tmp_path: Path) -> None:
    silent = {"trials": 16, "chosen": "adapted", "pairwise": {}}
    first, second = (
        plot_adaptation(tmp_path / f"{number}.svg", curve)
        for number, curve in enumerate(([CURVE[0], silent, *CURVE[1:]], CURVE))
    )

    # The edges of the bands move, the lines do not.
    assert words(first)[-6:] == words(second)[-6:]
    assert "local" not in words(plot_adaptation(tmp_path / "one.svg", CURVE[:1]))
    assert plot_adaptation(tmp_path / "none.png", [silent]).read_bytes().startswith(b"\x89PNG")


def test_a_running_mean_looks_back_only() -> None:
    assert running_means([1.0, 2.0, 6.0, 4.0, 0.0], 3) == pytest.approx([1.0, 1.5, 3.0, 4.0, 10 / 3])
    assert running_means([], 3) == []


def test_the_masks_have_a_panel_for_every_layer(tmp_path: Path) -> None:
    found = words(plot_masks(tmp_path / "m.svg", [SHARES], [KEPT]))

    assert found.count("encode.weight") == found.count("score.bias") == 1
    assert {"transferable share of the layer", "epoch"} <= set(found)


def test_both_kinds_of_shares_change_the_picture_of_the_masks(tmp_path: Path) -> None:
    other = [{name: share / 2 for name, share in shares.items()} for shares in SHARES]

    drawn = {
        plot_masks(tmp_path / f"{number}.png", [shares], [kept]).read_bytes()
        for number, (shares, kept) in enumerate(((SHARES, KEPT), (other, KEPT), (SHARES, other[:2])))
    }

    assert len(drawn) == 3


def test_networks_that_learned_for_one_epoch_have_nothing_kept_to_draw(tmp_path: Path) -> None:
    assert "encode.weight" in words(plot_masks(tmp_path / "m.svg", [SHARES[:1]] * 2, [[], []]))


def test_a_method_without_masks_has_one_picture_and_equal_data_give_equal_bytes() -> None:
    told = {"curve": CURVE, "transferable": [], "kept": []}
    masked = {"curve": CURVE, "transferable": [SHARES], "kept": [KEPT]}

    assert list(draw_adaptation(told)) == ["adaptation.png"]
    assert list(draw_adaptation(masked)) == ["adaptation.png", "masks.png"]
    assert draw_adaptation(masked) == draw_adaptation(masked)
    assert all(picture.startswith(b"\x89PNG") for picture in draw_adaptation(masked).values())
