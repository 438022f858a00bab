"""The demonstration: it types a command that exists, and says what to do next only where that went well."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import click
import pytest

from costhub.cli.tune import command as tune
from costhub.collector.workloads.zoo.networks import NETWORKS
from scripts import demo

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Every command of the demonstration, which ends at once."""
    commands: list[list[str]] = []
    monkeypatch.setattr(demo, "run", lambda arguments: commands.append(arguments) or 0)
    monkeypatch.setattr(sys, "argv", ["demo"])
    return commands


def parsed(words: list[str]) -> dict[str, object]:
    """The parameters that `costhub tune` reads in a command; fails as it would."""
    verb, *arguments = words
    assert verb == "tune"
    return tune.make_context("tune", arguments).params


def test_the_demonstration_tunes_a_network_with_options_that_exist(typed: list[list[str]], tmp_path: Path) -> None:
    assert demo.demo(tmp_path / "out") == 0

    (words,) = typed
    found = parsed(words)
    assert found["workloads"] == (demo.NETWORK,)
    assert demo.NETWORK in NETWORKS
    assert (found["trials"], found["out"]) == (demo.TRIALS_PER_KERNEL, tmp_path / "out")
    assert sys.argv == ["costhub", *words]  # the report shows it as the command


def test_what_it_says_names_the_kernels_and_a_command_that_exists(
    typed: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.demo(tmp_path / "out")

    said = capsys.readouterr()
    label = NETWORKS[demo.NETWORK].label
    rows = json.loads((ROOT / "docs/results/networks_tuned.json").read_text())["rows"]
    (kernels,) = {row["kernels_tuned"] for row in rows if row["network"] == label}
    assert f"{kernels} kernels, {demo.TRIALS_PER_KERNEL} programs each" in said.err
    (line,) = re.findall(r"^ +\S*costhub (tune .*)$", said.out, re.MULTILINE)
    assert parsed(shlex.split(line))["workloads"] == ("my_network.pt2",)


def test_a_failed_demonstration_says_nothing_of_a_next_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "run", lambda _: 2)
    monkeypatch.setattr(sys, "argv", ["demo"])

    assert demo.demo(tmp_path / "out") == 2
    assert capsys.readouterr().out == ""


def test_an_option_that_tune_does_not_have_fails_here() -> None:
    with pytest.raises(click.UsageError):
        parsed(["tune", demo.NETWORK, "--programs", "1", "--out", "x"])
