"""The layout of the scripts: nothing in the package needs them, and no benchmark serves as a library of another."""

from __future__ import annotations

import ast
from pathlib import Path

from scripts.bench.__main__ import BENCHMARKS, OTHERS
from scripts.bench.common.machine import ROOT

MOST_FILES = 20


def imported(path: Path) -> set[str]:
    """Modules that a file imports, also inside functions."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def scripts() -> dict[str, Path]:
    """Dotted name -> file."""
    found = {}
    for path in (ROOT / "scripts").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def test_nothing_in_the_package_imports_scripts() -> None:
    paths = (ROOT / "src").rglob("*.py")

    assert [path for path in paths if any(name.split(".")[0] == "scripts" for name in imported(path))] == []


def test_no_benchmark_is_imported_by_another_script() -> None:
    commands = {f"scripts.bench.{module}" for module in (BENCHMARKS | OTHERS).values()}

    assert {name: found for name, path in scripts().items() if (found := imported(path) & commands)} == {}


def test_no_circle_of_scripts() -> None:
    left = {name: imported(path) & set(scripts()) - {name} for name, path in scripts().items()}
    while free := [name for name, needs in left.items() if not needs & set(left)]:
        for name in free:
            del left[name]

    assert left == {}


def test_no_folder_of_scripts_is_crowded() -> None:
    folders = {path.parent for path in scripts().values()}

    assert [folder for folder in folders if len(list(folder.glob("*.py"))) > MOST_FILES] == []
