"""Pictures of models: what they name, and that equal data give equal bytes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from costhub.cards.model_plots import plot_calibration, plot_curves, plot_intervals

CURVE = {"label": "gbt", "x": [1, 2, 4], "y": [0.5, 0.6, 0.7], "se": [0.1, 0.05, 0.0]}
COVERED = {"covered": {"0.5": 0.4, "0.9": 0.7}, "bins": [[0.1, 0.2], [0.2, 0.3]]}


def words(path: Path) -> str:
    # matplotlib draws letters as outlines, and says in a comment what they read.
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))  # noqa: S314 - our own
    tree = ET.parse(path, parser)  # noqa: S314
    return " ".join(str(element.text) for element in tree.iter() if element.tag is ET.Comment)


def test_curves_have_a_panel_for_each_device_and_one_legend(tmp_path: Path) -> None:
    panels = {name: [CURVE, {**CURVE, "label": "mlp"}] for name in ("cpu0", "cpu1", "cpu2", "cpu3")}

    text = words(plot_curves(tmp_path / "c.svg", panels, x="trials", y="best so far", log=True))

    assert all(name in text for name in panels)
    assert text.count("mlp") == 1
    assert "best so far" in text


def test_intervals_name_every_line(tmp_path: Path) -> None:
    rows = [
        {"label": "gbt rank", "value": 0.8, "error": 0.02, "colour": 1},
        {"label": "random", "value": 0.3, "error": None},
    ]

    text = words(plot_intervals(tmp_path / "i.svg", {"cpu0": rows}, x="top-1"))

    assert "gbt rank" in text
    assert "random" in text


def test_calibration_has_the_line_of_what_is_right(tmp_path: Path) -> None:
    text = words(plot_calibration(tmp_path / "k.svg", {"trees": COVERED}))

    assert "share that it holds" in text
    assert "trees" in text
    assert "right" in text


def test_equal_data_give_equal_bytes_and_a_suffix_chooses_the_format(tmp_path: Path) -> None:
    first, second = (plot_curves(tmp_path / n, {"d": [CURVE]}, x="x", y="y") for n in ("a.svg", "b.svg"))

    assert first.read_bytes() == second.read_bytes()
    assert plot_curves(tmp_path / "c.png", {}, x="x", y="y").read_bytes().startswith(b"\x89PNG")
