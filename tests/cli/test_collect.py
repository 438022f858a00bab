"""`costhub collect`: real measurements from the command line, and refusals in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costhub.cli.collect import Duration


def test_it_measures_and_goes_on(costhub: Any, tmp_path: Path) -> None:
    out = str(tmp_path / "data")
    first = costhub("collect", "--suite", "softmax.64x1000", "--trials", "4", "--out", out, "--json")
    second = costhub("collect", "--suite", "softmax.64x1000", "--trials", "6", "--out", out, "--json")

    assert (first.code, second.code) == (0, 0)
    assert json.loads(first.out)["measured"] == 4
    assert json.loads(second.out)["measured"] == 2
    assert costhub("check", out).code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--suite", "resnet81"], "resnet18"),
        (["--suite", "resnet18", "--device", "nvidia-h200"], "not 'nvidia-h200'"),
        (["--suite", "resnet18", "--budget", "soon"], "30m"),
    ],
)
def test_bad_input_is_one_sentence(costhub: Any, tmp_path: Path, arguments: list[str], words: str) -> None:
    output = costhub("collect", *arguments, "--out", str(tmp_path / "data"))
    assert output.code in (1, 2)
    assert words in output.err
    assert "Traceback" not in output.err


def test_a_folder_of_something_else_is_left_alone(costhub: Any, tmp_path: Path) -> None:
    shard = tmp_path / "data" / "measurements" / "d" / "train-00000-of-00001.parquet"
    shard.parent.mkdir(parents=True)
    shard.write_bytes(b"PAR1 not really")
    output = costhub(
        "collect", "--suite", "softmax.64x1000", "--trials", "2", "--out", str(tmp_path / "data")
    )
    assert shard.read_bytes() == b"PAR1 not really"
    assert "Traceback" not in output.err


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1.5m", 90), ("7", 7)]
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds
