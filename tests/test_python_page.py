"""docs/python.md and docs/reference/api.md: every command has its call, every call its entry, and the examples run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import costhub
from costhub.cli.main import VERBS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/python.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
# As many trials as a test can wait for; the page has what a reader needs.
FEWER = {
    r"trials=\d+": "trials=2",
    r"budget_s=\d+": "budget_s=60",
    r'collect\("matmul"': 'collect("matmul.128x128x128"',
}


def named(dotted: str) -> Any:
    """What a dotted name stands for."""
    parts = dotted.split(".")
    # The longest module first: a package may offer a function of the name of its module.
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"{dotted} does not exist")


def test_every_command_has_its_call() -> None:
    rows = dict(re.findall(r"^\| `costhub (\w+)` \| (.*) \|$", PAGE, re.MULTILINE))

    assert set(rows) == set(VERBS)
    for cell in rows.values():
        calls = re.findall(r"`(costhub\.[\w.]+)\(\)`", cell)
        assert calls
        assert all(callable(named(call)) for call in calls), cell


def test_every_public_name_is_in_the_reference_and_every_entry_exists() -> None:
    entries = re.findall(r"^::: ([\w.]+)$", REFERENCE, re.MULTILINE)

    public = {f"costhub.{name}" for name in costhub.__all__} - {"costhub.__version__", "costhub.CosthubError"}
    assert public <= set(entries)
    assert len(entries) == len(set(entries))
    for entry in entries:
        assert (named(entry).__doc__ or "").strip(), entry


def test_every_name_of_the_examples_exists() -> None:
    for code in EXAMPLES:
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "costhub":
                assert node.attr in costhub.__all__


def test_the_page_has_an_example_for_each_reader() -> None:
    assert len(EXAMPLES) == 5


@pytest.mark.slow
@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: str(EXAMPLES.index(code)))
def test_the_example_runs(code: str, tmp_path: Path) -> None:
    for pattern, fewer in FEWER.items():
        code = re.sub(pattern, fewer, code)
    code = code.replace("/shared/hub", str(tmp_path / "hub"))
    (tmp_path / "hub").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COSTHUB_CACHE": str(tmp_path / "cache")}

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        input="yes\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )

    if re.search(r"Measure (the rows )?again", done.stderr):
        pytest.skip("this machine is too busy for measurements that could be contributed")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not re.search(r"\barray\(", done.stdout), "a result prints its arrays"
