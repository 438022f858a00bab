"""The figures of models side by side."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

from costhub.cards.site.site_page import MOST_MODELS, figures_svg

make_site: Any = runpy.run_path(str(Path(__file__).with_name("site_of_strangers.py")))["make_site"]


def test_every_model_and_metric_is_named() -> None:
    svg = figures_svg(make_site().models)

    for text in ("acme-one gbt", "acme-one mlp", "top_1", "top_5", "pairwise"):
        assert text in svg


def test_a_model_that_lacks_a_figure_and_many_models_are_drawn() -> None:
    model = replace(make_site().models[0], figures={"pairwise": 0.5}, errors={})
    svg = figures_svg([model] * (MOST_MODELS + 5))

    assert svg.count("acme-one gbt") == MOST_MODELS


def test_equal_models_give_equal_pictures() -> None:
    models = make_site().models

    assert figures_svg(models) == figures_svg(models)
