"""The commands of the scripts: each loads, and every benchmark has a quick form that needs nothing else."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from scripts.bench.__main__ import BENCHMARKS, OTHERS
from scripts.bench.__main__ import commands as benchmarks
from scripts.bench.common.machine import ROOT
from scripts.release.__main__ import STEPS
from scripts.release.__main__ import commands as steps

NEEDS = {"ppo": "gymnasium"}
"""Command -> a package that it needs and that is not among ours."""


@pytest.mark.parametrize("name", [*BENCHMARKS, *OTHERS])
def test_every_command_loads(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])

    done = CliRunner().invoke(benchmarks, [name, "--help"])

    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", list(STEPS))
def test_every_step_of_a_release_loads(name: str) -> None:
    assert CliRunner().invoke(steps, [name, "--help"]).exit_code == 0


@pytest.mark.parametrize("name", list(BENCHMARKS))
def test_every_benchmark_has_a_quick_form_that_needs_nothing_else(name: str) -> None:
    command = benchmarks.get_command(click.Context(benchmarks), name)

    assert command is not None
    assert {"--quick", "--json"} <= {option for parameter in command.params for option in parameter.opts}
    assert not [parameter.name for parameter in command.params if parameter.required]


@pytest.mark.parametrize(
    ("package", "listed"), [("bench", BENCHMARKS | OTHERS), ("release", STEPS)], ids=["bench", "release"]
)
def test_every_module_with_a_command_is_listed(package: str, listed: dict[str, str]) -> None:
    folder = ROOT / "scripts" / package
    modules = {
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for path in folder.rglob("*.py")
        if "\ndef main(" in (text := path.read_text(encoding="utf-8")) and 'if __name__ == "__main__"' not in text
    }

    assert modules == set(listed.values())


def test_the_list_of_commands_imports_none_of_them() -> None:
    shown = CliRunner().invoke(benchmarks, ["--help"])

    assert shown.exit_code == 0
    assert "stable-baselines3" in shown.output  # of ppo, whose module cannot be imported everywhere


def test_a_command_that_is_told_to_end_cleans_up_first() -> None:
    program = """
import os, signal, click
from scripts.commands import LazyCommands
commands = LazyCommands("scripts", {}, "")
@commands.command()
def wait():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        click.echo("cleaned up")
commands(["wait"])
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "cleaned up\n")
    assert "Aborted" in done.stderr


def test_an_unknown_command_is_refused() -> None:
    assert CliRunner().invoke(benchmarks, ["serach"]).exit_code == 2
