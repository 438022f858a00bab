"""Arguments as people write them: times, numbers, names, data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from costhub.cli.shared.choices import (
    ARCHITECTURE,
    DATA,
    FEATURES,
    ISA,
    METHOD,
    MODEL,
    SELECTION,
    SHARES,
    SPACE,
    STRATEGY,
    TRACKER,
    DecimalNumber,
    Duration,
    RegisteredChoice,
    WholeNumber,
)
from costhub.collector.device.identity import ISA_LEVELS
from costhub.errors import ArgumentError, UnknownNameError
from costhub.models.architectures import ARCHITECTURES
from costhub.search.options import SELECTIONS
from costhub.search.strategies.by_name import STRATEGIES
from costhub.transfer.methods.by_name import METHODS

CONTEXT = click.Context(click.Command("demo"))
OPTION = click.Option(["--it"])


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1.5m", 90), ("0s", 0)])
def test_times(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["soon", "-3s", "3d", ""])
def test_what_is_not_a_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write for example 90s, 30m or 2h"):
        Duration().convert(text, None, None)


@pytest.mark.parametrize("text", ["5", "0", "1.5"])
def test_a_time_without_a_unit_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=f"{text} has no unit; write {text}s, {text}m or {text}h"):
        Duration().convert(text, None, None)


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        (WholeNumber(min=1), "many", "'many' is not a whole number; write one of at least 1."),
        (WholeNumber(min=1), "2.5", "'2.5' is not a whole number; write one of at least 1."),
        (WholeNumber(min=2), "1", "1 is out of range; write a whole number of at least 2."),
        (WholeNumber(1, 9), "10", "10 is out of range; write a whole number of at least 1 and at most 9."),
        (DecimalNumber(0, 0.5), "half", "'half' is not a number; write one of at least 0 and at most 0.5."),
        (DecimalNumber(0, 1, min_open=True), "0", "0 is out of range; write a number above 0 and at most 1."),
        (DecimalNumber(0, 1, max_open=True), "1", "1 is out of range; write a number of at least 0 and below 1."),
    ],
)
def test_a_wrong_number_is_told_which_are_right(kind: WholeNumber | DecimalNumber, text: str, sentence: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        kind.convert(text, None, None)

    assert caught.value.message == sentence


def test_right_numbers() -> None:
    assert (WholeNumber(1, 9).convert("9", None, None), DecimalNumber(0, 1).convert("0.5", None, None)) == (9, 0.5)


@pytest.mark.parametrize(
    ("choice", "registry"),
    [(METHOD, METHODS), (STRATEGY, STRATEGIES), (SELECTION, SELECTIONS), (ARCHITECTURE, ARCHITECTURES)],
)
def test_the_names_of_a_registry_are_choices(choice: RegisteredChoice, registry: Any) -> None:
    first = next(iter(registry))

    assert choice.get_metavar(OPTION, CONTEXT) == f"[{'|'.join(registry)}]"
    assert choice.convert(first, OPTION, CONTEXT) == first
    assert first in [item.value for item in choice.shell_complete(CONTEXT, OPTION, first[:2])]
    with pytest.raises(UnknownNameError, match=f"There is no {registry.kind} named 'qqqq'. There are {first}, "):
        choice.convert("qqqq", OPTION, CONTEXT)


def test_the_instruction_sets_are_those_that_a_cpu_can_be_limited_to() -> None:
    assert tuple(ISA.choices) == tuple(ISA_LEVELS)


def test_feature_specs_are_listed_completed_and_checked_part_by_part() -> None:
    assert "tiles@1|" in FEATURES.get_metavar(OPTION, CONTEXT)
    assert FEATURES.convert("tiles@1+relation@1", OPTION, CONTEXT) == "tiles@1+relation@1"
    completed = [item.value for item in FEATURES.shell_complete(CONTEXT, OPTION, "tiles@1+rel")]
    assert completed == ["tiles@1+relation@1"]
    with pytest.raises(UnknownNameError, match=r"no feature spec named 'relations@1'\. Did you mean relation@1"):
        FEATURES.convert("tiles@1+relations@1", OPTION, CONTEXT)
    with pytest.raises(UnknownNameError, match="Did you mean tiles@1"):
        FEATURES.convert("tiles@1+tiles@1", OPTION, CONTEXT)


def test_design_spaces_are_listed_and_checked_unless_they_are_the_users() -> None:
    assert "vnni" in SPACE.get_metavar(OPTION, CONTEXT)
    assert SPACE.convert("not_there:rules", OPTION, CONTEXT) == "not_there:rules"
    with pytest.raises(UnknownNameError, match="There are default, llvm"):
        SPACE.convert("qqqq", OPTION, CONTEXT)


def test_the_address_of_a_tracker_has_a_port() -> None:
    assert TRACKER.convert("127.0.0.1:9190", OPTION, CONTEXT) == "127.0.0.1:9190"
    with pytest.raises(ArgumentError, match="write HOST:PORT"):
        TRACKER.convert("here", OPTION, CONTEXT)


def test_shares_are_read_and_refused() -> None:
    assert SHARES.convert("random=0.8,model=0.2", OPTION, CONTEXT).model == 0.2
    with pytest.raises(ArgumentError, match="'rndom' is not a source"):
        SHARES.convert("rndom=1", OPTION, CONTEXT)


def test_data_and_models_are_completed_from_the_hubs() -> None:
    data = [item.value for item in DATA.shell_complete(CONTEXT, OPTION, "nvidia")]
    models = [item.value for item in MODEL.shell_complete(CONTEXT, OPTION, "amd-epyc-zen5-2c")]

    assert "nvidia-h200" in data
    assert "amd-epyc-zen5-2c" in models
    assert DATA.convert("nvidia-h200", OPTION, CONTEXT).dataset == "costhub/nvidia-h200"


@pytest.mark.parametrize("verb", ["tune", "collect", "adapt", "train", "pull", "probe"])
def test_the_help_that_lists_choices_loads_nothing_heavy(verb: str) -> None:
    code = (
        "import sys; from costhub.cli.main import run; code = run([sys.argv[1], '--help']); "
        "assert code == 0; print({'tvm', 'torch', 'xgboost', 'scipy'} & set(sys.modules))"
    )
    root = str(Path(__file__).parents[3] / "src")

    done = subprocess.run(
        [sys.executable, "-c", code, verb], env={"PYTHONPATH": root}, capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "set()"
