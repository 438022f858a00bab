"""The pages of reference: rendered from the code, and what the code knows is on them."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import click
import pytest

from costhub.cli.main import EXIT_CODES, VERBS
from costhub.models.architectures import ARCHITECTURES, options_of
from costhub.models.options import describe_options
from scripts.bench.common.machine import ROOT
from scripts.tables.reference import (
    VARIABLES,
    commands_text,
    exit_codes_text,
    mistakes_before_table,
    mistakes_table,
    newest_tvm_text,
    options_text,
    variables_text,
)

PRIVATE = {"COSTHUB_CHILD_WITHOUT_TORCH", "COSTHUB_PROGRAMS_OF"}
"""Between a process and its children."""


def commands() -> list[tuple[str, click.Command]]:
    found = []
    for verb, (module, _) in VERBS.items():
        command = import_module(module).command
        nested = command.commands if isinstance(command, click.Group) else {}
        found += [(f"{verb} {name}", each) for name, each in nested.items()] or [(verb, command)]
    return found


@pytest.mark.parametrize(("words", "command"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_option_of_a_command_has_a_meaning_and_is_in_the_reference(words: str, command: click.Command) -> None:
    text = commands_text()
    section = re.split(r"^#+ ", text.split(f"# {words}\n")[1], flags=re.MULTILINE)[0]
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]

    assert [option.opts[0] for option in options if not option.help] == []
    assert [option.opts[0] for option in options if f"| `{option.opts[0]}`" not in section] == []
    assert f"costhub {words}" in section.split("```sh")[1]


def test_hidden_options_are_not_in_the_reference() -> None:
    assert "| `--trials` `" in commands_text().split("### adapt")[1].split("### card")[0]
    assert "`--trials`" not in commands_text().split("### tune")[1].split("### compile")[0]


def test_every_option_of_every_architecture_is_in_the_reference_with_a_meaning() -> None:
    text = options_text()

    for arch in ARCHITECTURES:
        section = text.split(f"## {arch}\n")[1].split("\n## ")[0]
        for option in describe_options(type(options_of(arch))):
            assert f"| `{option.name}` | " in section
            assert option.meaning, f"{arch} does not say what {option.name} means"


def test_every_variable_of_costhub_is_in_the_reference() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src/costhub").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"\b_?COSTHUB_[A-Z_]+\b", text)}

    assert named - PRIVATE <= set(VARIABLES)
    assert all(f"| `{name}` |" in variables_text() for name in VARIABLES)


def test_every_exit_code_is_in_the_reference() -> None:
    assert all(f"| {code} | {meaning} |" in exit_codes_text() for code, meaning in EXIT_CODES.items())


def test_mistakes_are_shown_by_what_they_are_about() -> None:
    row: dict[str, Any] = {"about": "tune", "words": "tune x", "answer": "costhub: No | x.", "code": 2, "cpu_s": 0.25}
    counts = {"mistakes": 2, "right": 1, "accepted": 0, "heavy": 1, "median_cpu_s": 0.2, "most_cpu_s": 0.5}
    result = {"summary": counts, "rows": [row, {**row, "about": "pull", "code": None}]}

    shown = mistakes_table(result)

    assert "1 of 2 answers are good; 1 loaded TVM" in shown
    assert "## Tune\n" in shown
    assert "| `tune x` | No \\| x. | 2 | 0.25 |" in shown
    assert "| - | 0.25 |" in shown
    assert mistakes_before_table(result).startswith("In 0.1.0, 0 of them were accepted and 1 loaded TVM")


def test_another_tvm_is_told_with_the_day_and_with_what_it_lacks() -> None:
    result = {"tvm": "0.28.0", "used": 264, "missing": {}, "newest": "0.28.0", "date": "2027-01-02T03:04:05+00:00"}
    result |= {"versions": {"tvm": "0.27.0"}}

    assert newest_tvm_text(result) == (
        "Tried on 2027-01-02: TVM 0.28.0, the newest that pip offered on that day, has 264 of 264 names that costhub "
        "uses."
    )
    own = newest_tvm_text({**result, "tvm": "0.27.0"})
    assert "TVM 0.27.0, the one that costhub was tested with, has 264" in own
    lacking = newest_tvm_text({**result, "newest": None, "missing": {"tvm.te.compute": ["a.py", "b.py"]}})
    assert "TVM 0.28.0 has 263 of 264 names" in lacking
    assert lacking.endswith("| `tvm.te.compute` | `a.py`, `b.py` |")
