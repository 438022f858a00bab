"""examples/quickstart.ipynb: it runs from top to bottom, and the outputs in it are those of a run."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import costhub

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples/quickstart.ipynb"
TEXT = NOTEBOOK.read_text(encoding="utf-8")
CELLS: list[dict[str, Any]] = json.loads(TEXT)["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def test_it_is_a_notebook_of_words_and_code() -> None:
    import nbformat

    nbformat.validate(nbformat.reads(TEXT, as_version=4))
    assert len(CODE) >= 8
    assert CELLS[0]["cell_type"] == CELLS[-1]["cell_type"] == "markdown"


def test_its_outputs_are_those_of_one_run_without_errors() -> None:
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    outputs = [output for cell in CODE for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} == {"stream", "execute_result", "display_data"}
    assert all(output.get("name", "stdout") == "stdout" for output in outputs)
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 2
    # Nothing in it says whose machine it was.
    assert re.findall(r"/(?:home|root|tmp|work)/", TEXT) == []


def test_the_model_that_it_shows_is_the_shipped_one() -> None:
    shown = next("".join(output["text"]) for output in CODE[1]["outputs"])

    assert shown == f"{costhub.load_model(shown.partition(':')[0])}\n", "run `python -m scripts.release notebook` again"


def test_what_it_names_exists() -> None:
    for cell in CODE:
        for node in ast.walk(ast.parse(source(cell))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "costhub":
                assert node.attr in costhub.__all__
    links = [link for cell in CELLS if cell not in CODE for link in re.findall(r"\]\(([^)]+)\)", source(cell))]
    assert links
    assert [link for link in links if not (NOTEBOOK.parent / link).exists()] == []


@pytest.mark.slow
def test_it_runs_from_top_to_bottom(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "COSTHUB_CACHE": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-m", "scripts.release", "notebook", "--no-keep"]

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900)

    assert done.returncode == 0, done.stderr
    assert f"quickstart.ipynb: {len(CODE)} cells ran." in done.stdout
