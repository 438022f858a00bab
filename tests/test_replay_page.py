"""The strategy and the model of docs/replay.md, played as they stand there."""

from __future__ import annotations

import json
import os
import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from costhub.api.replay.bench import SUITE
from costhub.models.own_code import imported
from costhub.search.replay.judge import ReplaySettings, replay
from costhub.testing import made_replay

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/replay.md").read_text(encoding="utf-8")
STRATEGY, MODEL = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COSTHUB = Path(sys.executable).with_name("costhub")
FEW = ["--workloads", "1", "--seeds", "1", "--trials", "20", "--json"]


def command(section: str) -> list[str]:
    """The last command below a heading."""
    part = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return shlex.split(re.findall(r"^    costhub (.+)$", part, re.MULTILINE)[-1])


def played(words: list[str], place: Path) -> dict[str, Any]:
    """What a command prints in the folder of the user's file."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COSTHUB_CACHE": str(place / "cache")}
    done = subprocess.run(
        [str(COSTHUB), *words], env=environment, cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_strategy_is_played_on_its_device(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(STRATEGY, encoding="utf-8")

    found = played([*command("Your own strategy"), *FEW], tmp_path)

    assert (found["strategy"], found["model"]) == ("MySearch", "")
    (device,) = found["devices"]
    assert device["device"] == "nvidia-v100"
    (row,) = found["rows"]
    assert len(row["curve"]) == 20
    assert 0 < row["curve"][0] <= row["curve"][-1] <= 1


def test_the_strategy_is_better_than_chance_where_neighbours_are_alike(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(STRATEGY, encoding="utf-8")
    factory = imported(f"{tmp_path / 'mine.py'}:MySearch")

    scores = [
        replay(made_replay(side=12, seed=seed), factory, lambda _: None, ReplaySettings(batch=4, seeds=6)).score
        for seed in range(3)
    ]

    assert statistics.fmean(scores) > 0.2


@pytest.mark.slow
def test_the_model_leads_a_search_and_stays_frozen(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODEL, encoding="utf-8")
    device = list(SUITE)[-1]

    # On every device, as the page's command runs, the features take minutes.
    found = played([*command("Your own cost model"), "--device", device, "--method", "brief", *FEW], tmp_path)

    assert (found["strategy"], found["model"], found["method"]) == ("model", "MyModel", "frozen")
    assert [each["device"] for each in found["devices"]] == [device]
    (row,) = found["rows"]
    assert (row["trials"], len(row["curve"])) == (20, 20)


@pytest.mark.parametrize("device", SUITE)
def test_the_page_names_each_device_with_its_split(device: str) -> None:
    [sentence] = re.findall(r"They come from the test sides of these .*?\.(?= )", PAGE.replace("(splits.md)", ""))
    split = SUITE[device]
    named = next(part for part in re.split(r"(?=`workload-)", sentence) if f"`{device}`" in part)

    assert named.startswith(f"`{split}`")
