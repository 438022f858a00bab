"""The picture of the ladder: its lines, and the caches where they end."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from costhub.cards.reports.device_plots import plot_ladders, plot_profile

LADDER = [{"bytes": 8192 << 2 * i, "gbs": 400.0 / (i + 1)} for i in range(8)]
ROW = {
    "device_id": "acme-2c",
    "kind": "cpu",
    "cores": 2,
    "l1d_bytes": 48 << 10,
    "l2_bytes": 1 << 20,
    "l3_bytes": None,
    "bandwidth_ladder": LADDER,
}


def words(path: Path) -> str:
    # matplotlib draws letters as outlines, and says in a comment what they read.
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))  # noqa: S314 - our own
    tree = ET.parse(path, parser)  # noqa: S314
    return " ".join(str(element.text) for element in tree.iter() if element.tag is ET.Comment)


def test_the_caches_of_all_cores_are_marked(tmp_path: Path) -> None:
    text = words(plot_ladders([ROW], tmp_path / "ladder.svg"))

    assert "L1 96 KiB" in text
    assert "L2 2 MiB" in text
    assert "L3" not in text
    assert "acme-2c" in text


def test_several_devices_share_a_picture_and_equal_data_give_equal_bytes(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "device_id": "acme-1c"}]

    first, second = (plot_ladders(rows, tmp_path / name) for name in ("a.svg", "b.svg"))

    assert first.read_bytes() == second.read_bytes()
    assert "acme-2c" in words(first)
    assert "acme-1c" in words(first)


def test_a_name_that_ends_in_png_gives_a_png(tmp_path: Path) -> None:
    path = plot_ladders([{**ROW, "kind": "cuda"}], tmp_path / "ladder.png")

    assert path.read_bytes().startswith(b"\x89PNG")


SECONDS = {"sample": 1.0, "lower": 3.0, "llvm": 9.0, "link": 0.5, "run": 5.0, "reference": 1.0, "other": 0.5}
PROFILE = {"cores": 2, "wall_s": 10.0, "core_seconds": SECONDS}


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_the_suffix_chooses_the_format(tmp_path: Path, suffix: str, magic: bytes) -> None:
    path = plot_profile({"a-device": PROFILE, "another": PROFILE}, tmp_path / f"where{suffix}")
    assert path.read_bytes().startswith(magic)


def test_stages_and_devices_are_named(tmp_path: Path) -> None:
    text = plot_profile({"a-device": PROFILE}, tmp_path / "where.svg").read_text()
    assert "<!-- a-device -->" in text
    assert "<!-- LLVM -->" in text


def test_waits_and_repeats_are_drawn_if_a_profile_tells_them_from_the_kernel(tmp_path: Path) -> None:
    newer = {**PROFILE, "core_seconds": {**SECONDS, "reference": 0.5, "wait": 1.0, "repeat": 2.2, "other": 0.0}}

    older = words(plot_profile({"a-device": PROFILE}, tmp_path / "older.svg"))
    both = words(plot_profile({"a-device": PROFILE, "another": newer}, tmp_path / "both.svg"))

    assert "reference kernel" in older
    assert "waiting for quiet" not in older
    assert "timing again" not in older
    assert "waiting for quiet" in both
    assert "timing again" in both
    assert "11%" in both, "2.2 of 20 core-seconds"
