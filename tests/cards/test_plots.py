from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from costhub.cards.plots import plot_growth, plot_latencies, plot_tuning

CURVE = [(1, 900.0), (16, 240.0), (40, 110.0), (64, 95.5)]


def inked(path: Path) -> float:
    """Share of pixels that are not white."""
    from matplotlib.image import imread

    pixels = imread(path)[..., :3]
    return float((pixels < 0.98).any(axis=-1).mean())


def test_a_tuning_curve_is_drawn(tmp_path: Path) -> None:
    path = plot_tuning(tmp_path / "new" / "a.png", {"mlp": CURVE}, title="matmul", untuned_us=3000.0)
    bare = plot_tuning(tmp_path / "b.png", {}, title="matmul")

    assert inked(path) > inked(bare) > 0


def test_a_curve_may_carry_seconds_between_trial_and_latency(tmp_path: Path) -> None:
    with_seconds = [(trial, 0.5 * trial, best) for trial, best in CURVE]

    a = plot_tuning(tmp_path / "a.png", {"mlp": CURVE})
    b = plot_tuning(tmp_path / "b.png", {"mlp": with_seconds})

    assert a.read_bytes() == b.read_bytes()


def test_a_search_that_found_nothing_has_a_picture_too(tmp_path: Path) -> None:
    assert inked(plot_tuning(tmp_path / "a.png", {"mlp": []}, untuned_us=10.0)) > 0


def test_more_series_than_colours_are_drawn(tmp_path: Path) -> None:
    series = {f"method {i}": [(1, 100.0 + i), (9, 50.0 + i)] for i in range(9)}

    assert inked(plot_tuning(tmp_path / "a.png", series)) > 0


def test_latencies_are_drawn_without_empty_operators(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = {"conv2d": rng.lognormal(4, 1, 300), "softmax": np.array([12.0]), "norm": np.zeros(0)}

    assert inked(plot_latencies(tmp_path / "a.png", values)) > 0
    assert inked(plot_latencies(tmp_path / "b.png", {})) > 0


def test_growth_is_drawn_on_two_logarithmic_axes(tmp_path: Path) -> None:
    series = {"check": [(1e4, 0.5), (1e6, 50.0)], "stats": [(1e4, 0.1), (1e6, 4.0)]}

    drawn = plot_growth(tmp_path / "a.png", series, x="rows", y="seconds")

    assert inked(drawn) > inked(plot_growth(tmp_path / "b.png", {}, x="rows", y="seconds")) > 0


def test_equal_data_give_equal_files(tmp_path: Path) -> None:
    a = plot_tuning(tmp_path / "a.png", {"mlp": CURVE}, untuned_us=3000.0)
    b = plot_tuning(tmp_path / "b.png", {"mlp": CURVE}, untuned_us=3000.0)

    assert a.read_bytes() == b.read_bytes()


def test_drawing_does_not_touch_the_state_of_pyplot(tmp_path: Path) -> None:
    code = (
        "import sys; from costhub.cards.plots import plot_tuning; assert 'matplotlib' not in sys.modules;"
        "plot_tuning(sys.argv[1], {'a': [(1, 2.0)]}); assert 'matplotlib.pyplot' not in sys.modules"
    )
    src = str(Path(__file__).parents[2] / "src")

    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {src!r}); {code}", str(tmp_path / "a.png")],
        check=True,
    )
