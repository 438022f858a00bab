from __future__ import annotations

from pathlib import Path
from typing import Any

from costhub.cards.evaluation_plot import EVALUATION_PICTURE, draw_evaluation, plot_evaluation


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
