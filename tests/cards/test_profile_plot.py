"""The picture of where a collection's time went."""

from __future__ import annotations

from pathlib import Path

import pytest

from costhub.cards.profile_plot import plot_profile

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
