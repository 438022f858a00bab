"""`costhub bench search`: what a person types, and what is written."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

build_data = runpy.run_path(str(Path(__file__).parents[1] / "measured_folder.py"))["build_data"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = build_data(tmp_path_factory.mktemp("bench") / "data")
    return folder


def test_scores_are_printed_and_written(data: Path, costhub: Any, tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("mine.json", "mine.png", "t4")]
    options = ("--strategy", "genetic", "--data", str(data), "--seeds", "2", "--batch", "4", "--workloads", "2")

    done = costhub("bench", "search", *options, "--out", files[0], "--plot", files[1], "--t4", files[2])

    assert done.code == 0
    assert done.out.startswith("genetic: score ")
    written = json.loads(Path(files[0]).read_text())
    assert (written["batch"], written["seeds"], written["workloads"]) == (4, 2, 2)
    assert Path(files[1]).read_bytes().startswith(b"\x89PNG")
    assert len(list(Path(files[2]).iterdir())) == 4
    assert json.loads(costhub("bench", "search", *options, "--json").out) == written


def test_a_strategy_of_a_file_needs_no_model(data: Path, costhub: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from costhub.search.replay.strategies import RandomOrder\n\n\nclass Mine(RandomOrder):\n    pass\n"
    )
    options = ("--data", str(data), "--seeds", "1", "--batch", "4", "--workloads", "1")

    done = costhub(
        "bench",
        "search",
        "--strategy",
        f"{tmp_path}/mine.py:Mine",
        "--model",
        "none",
        *options,
        "--out",
        str(tmp_path / "results/mine.json"),
    )

    assert done.code == 0
    assert done.out.startswith("Mine: score ")
    assert (tmp_path / "results/mine.json").is_file()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--strategy", "genetics"), "Did you mean genetic"),
        (("--plot", "curves.pdf"), "it must end in .png or .svg"),
        (("--seeds", "0"), "--seeds"),
        (("--model", "none"), "The strategy model needs a model"),
        (("--device", "nvidia-h200"), "no workloads of nvidia-h200"),
    ],
)
def test_a_wrong_argument_is_a_sentence(options: tuple[str, ...], words: str, costhub: Any) -> None:
    done = costhub("bench", "search", *options)

    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1
