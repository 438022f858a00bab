"""The direction of imports (docs/adr/0001-layout.md), and how little `import costhub` brings in."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src"

# Stage -> the stages it may import besides itself.
ALLOWED = {
    "dataset": set(),
    "collector": {"dataset"},
    "models": {"dataset"},
    "transfer": {"dataset", "models", "collector"},
    "cards": {"dataset", "models"},
    "testing": {"dataset", "models", "transfer"},
    "hub": {"dataset", "collector", "models", "transfer", "cards"},
    "tvm": {"dataset", "collector", "models", "transfer", "cards", "hub"},
    "cli": {"dataset", "collector", "models", "transfer", "cards", "hub"},
}
# Modules beside the stages, for all of them. The package itself is not among them: a stage that
# imported `costhub.tune` would reach around the direction, so stages import from where things live.
SHARED = {
    "cache",
    "crash_pool",
    "errors",
    "format_version",
    "limits",
    "names",
    "progress",
    "registry",
    "swap",
    "versions",
    "worker",
}

HEAVY = ("tvm", "tvm_ffi", "torch", "xgboost", "datasets", "matplotlib", "sklearn", "pyarrow", "pandas")


def absolute(node: ast.ImportFrom, package: str) -> str:
    """The module that `from <module> import ...` names, written in `package`."""
    if not node.level:
        return node.module or ""
    base = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def imported(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of all that `tree` imports, in functions and under TYPE_CHECKING too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = absolute(node, package)
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in {"import_module", "__import__"} and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def wrong_imports(source: str, module: str, *, package: bool = False) -> list[str]:
    """What `module` (dotted, under costhub) imports against the direction, as sentences."""
    parts = module.split(".")
    own = parts[1] if len(parts) > 2 or package else ""
    # Modules beside the stages stand below all of them, so they may import each other only.
    allowed = {own, *ALLOWED[own], *SHARED} if own in ALLOWED else SHARED
    names = imported(ast.parse(source), module if package else ".".join(parts[:-1]))
    return [
        f"{module}:{line} imports {name}"
        for line, name in names
        if name.split(".")[0] == "costhub" and name.partition(".")[2].split(".")[0] not in allowed
    ]


def modules() -> list[Path]:
    return sorted(path for path in (SRC / "costhub").rglob("*.py") if path != SRC / "costhub/__init__.py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SRC / "costhub")))
def test_imports_point_one_way(path: Path) -> None:
    package = path.name == "__init__.py"
    dotted = ".".join((path.parent if package else path.with_suffix("")).relative_to(SRC).parts)

    assert wrong_imports(path.read_text(encoding="utf-8"), dotted, package=package) == []


def test_every_folder_of_the_package_is_a_stage_with_a_direction() -> None:
    folders = {path.parent.name for path in (SRC / "costhub").glob("*/__init__.py")}

    assert folders == set(ALLOWED)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("costhub.dataset.load", "import costhub.models.trees.gbt"),
        ("costhub.models.train", "from costhub.collector import run"),
        ("costhub.models.train", "def f():\n    from costhub.transfer.tune import tune"),
        ("costhub.cards.plots", "if TYPE_CHECKING:\n    from costhub.transfer.tune import Report"),
        ("costhub.cards.plots", "from ..collector.device import identify"),
        ("costhub.cards.plots", "from .. import hub"),
        ("costhub.hub.pull", "importlib.import_module('costhub.cli.main')"),
        ("costhub.search.tune", "from costhub import evaluate"),
        ("costhub.dataset.load", "import costhub"),
        ("costhub.errors", "from costhub.dataset.schema import VERSION"),
    ],
)
def test_an_import_against_the_direction_is_seen(module: str, source: str) -> None:
    assert len(wrong_imports(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "costhub.dataset.load",
            "from costhub import errors, progress\nfrom . import shard\nimport numpy.ma",
        ),
        ("costhub.search.tune", "from costhub.collector.run import run\nfrom ..models import train"),
        ("costhub.cli.main", "from costhub.hub import pull\nimport costhub.worker"),
        ("costhub.cards.site.site_page", "from costhub.versions import __version__"),
    ],
)
def test_an_import_along_the_direction_passes(module: str, source: str) -> None:
    assert wrong_imports(source, module) == []


@pytest.mark.parametrize("imports", ["costhub", "costhub.cli.main", ", ".join(f"costhub.{s}" for s in ALLOWED)])
def test_import_brings_in_nothing_heavy(imports: str) -> None:
    code = f"import sys, {imports}; print(*sorted(set({HEAVY}) & set(sys.modules)))"

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout.split(), done.returncode, done.stderr) == ([], 0, "")


def test_every_name_the_package_offers_is_there() -> None:
    import costhub

    assert set(costhub.__all__) <= set(dir(costhub))
    for name in costhub.__all__:
        assert getattr(costhub, name) is not None


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    import costhub

    with pytest.raises(AttributeError, match=r"no attribute 'tunes'; it offers .*tune"):
        _ = costhub.tunes
