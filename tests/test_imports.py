"""What imports what (docs/adr/0001-layout.md, 0014-the-house.md), and how little `import costhub` brings in."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
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
    "search": {"dataset", "models", "collector", "transfer"},
    # Methods of papers, which the core finds by their entry points: nobody imports them.
    "papers": {"dataset", "models", "transfer", "search"},
    "cards": {"dataset", "models"},
    "testing": {"dataset", "models", "transfer", "search"},
    "hub": {"dataset", "collector", "models", "transfer", "search", "cards"},
    "tvm": {"dataset", "collector", "models", "transfer", "search", "cards", "hub"},
    # What Python users call; the command line calls the same.
    "api": {"dataset", "collector", "models", "transfer", "search", "cards", "hub"},
    "cli": {"dataset", "collector", "models", "transfer", "search", "cards", "hub", "api"},
}
# Beside the stages, for all of them: these modules, and the child processes. The package itself is not among
# them: a stage that imported `costhub.tune` would reach around the direction, so stages import from where
# things live.
SHARED = {"errors", "files", "isolation", "names", "progress", "registry", "terminal_text", "versions"}
# Names in a string that users or processes give: the roots from which every module has to be reached.
ROOTS = ("costhub", "costhub.cli", "costhub.papers", "costhub.testing", "costhub.tvm")
MAIN = "costhub.__main__"
"""What `python -m costhub` runs; nothing imports it, and it is part of the command line."""
# A file of fewer lines serves two others at least, or belongs to the only one that imports it.
SMALL_LINES = 60
SMALL: dict[str, str] = {}
"""Module -> why it stands alone."""

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
    # What stands beside the stages is below all of them, and may import its like only.
    allowed = {own, *ALLOWED[own], *SHARED} if own in ALLOWED else SHARED
    names = imported(ast.parse(source), module if package else ".".join(parts[:-1]))
    return [
        f"{module}:{line} imports {name}"
        for line, name in names
        if name.split(".")[0] == "costhub" and name.partition(".")[2].split(".")[0] not in allowed
    ]


@cache
def modules() -> dict[str, Path]:
    """Dotted name -> file of every module, packages included."""
    found = {}
    for path in sorted((SRC / "costhub").rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def is_package(module: str) -> bool:
    return modules()[module].name == "__init__.py"


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def module_of(name: str) -> str | None:
    """The module that a dotted name is, or lies in."""
    return next((each for each in (name, name.rpartition(".")[0]) if each in modules()), None)


@cache
def arrows() -> dict[str, frozenset[str]]:
    """Module -> the modules that it imports, in functions and under TYPE_CHECKING too."""
    found = {}
    for module in modules():
        package = module if is_package(module) else module.rpartition(".")[0]
        targets = {module_of(name) for _, name in imported(tree(module), package)}
        found[module] = frozenset(target for target in targets if target not in (None, module))
    return found  # type: ignore[return-value]


def named(module: str) -> set[str]:
    """Modules that strings of a module name, as `costhub.models.folder:load_model`."""
    strings = (node.value for node in ast.walk(tree(module)) if isinstance(node, ast.Constant))
    names = (value.partition(":")[0] for value in strings if isinstance(value, str))
    return {name for name in names if name.count(".") > 1 and name in modules()}


def in_circles(graph: Mapping[str, frozenset[str] | set[str]]) -> set[str]:
    """What is left of a graph when all that leads to no circle, or comes from none, is taken away."""
    left = {node: set(targets) for node, targets in graph.items()}
    while True:
        reached = set().union(*left.values()) if left else set()
        free = {node for node, targets in left.items() if not targets & left.keys() or node not in reached}
        if not free:
            return set(left)
        left = {node: targets - free for node, targets in left.items() if node not in free}


def test_imports_point_one_way() -> None:
    found = [
        sentence
        for module, path in modules().items()
        if module not in ("costhub", MAIN)
        for sentence in wrong_imports(path.read_text(encoding="utf-8"), module, package=is_package(module))
    ]

    assert found == []


def test_every_folder_of_the_package_is_a_stage_with_a_direction() -> None:
    folders = {path.parent.name for path in (SRC / "costhub").glob("*/__init__.py")}

    assert folders - SHARED == set(ALLOWED)


def test_files_import_each_other_in_no_circle() -> None:
    # The package resolves its names on first use; nothing below imports it.
    assert (
        in_circles({module: targets - {"costhub"} for module, targets in arrows().items() if module != "costhub"})
        == set()
    )


def test_folders_inside_a_stage_import_each_other_in_no_circle() -> None:
    def place(module: str) -> str:
        """A folder of a stage; a file beside the folders stands for itself."""
        return ".".join(module.split(".")[:3])

    graph: dict[str, set[str]] = {}
    for module, targets in arrows().items():
        stage = module.split(".")[:2]
        inside = {place(target) for target in targets if target.split(".")[:2] == stage}
        graph.setdefault(place(module), set()).update(inside - {place(module)})

    assert in_circles(graph) == set()


def test_a_circle_is_seen() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}

    assert in_circles(graph) == {"b", "c"}
    assert in_circles({"a": {"b"}, "b": set()}) == set()


def test_every_module_is_reached_from_what_users_call() -> None:
    reached: set[str] = set()
    left = [
        module
        for module in modules()
        if module in ("costhub", MAIN) or module.startswith(tuple(f"{r}." for r in ROOTS[1:]))
    ]
    while left:
        module = left.pop()
        if module not in reached:
            reached.add(module)
            parent = module.rpartition(".")[0]
            left += [*arrows()[module], *named(module), *([parent] if parent else [])]

    folders = {module for module in modules() if is_package(module)}
    # Networks of the zoo are found by the name of their file, in the table of the zoo.
    zoo = {module for module in modules() if module.startswith("costhub.collector.workloads.zoo.")}
    assert set(modules()) - reached - folders - zoo == set()


def test_small_files_have_two_importers() -> None:
    importers: dict[str, set[str]] = {module: set() for module in modules()}
    for module in modules():
        for target in arrows()[module] | named(module):
            importers[target].add(module)
    small = {
        module
        for module, path in modules().items()
        if not is_package(module) and not module.startswith(("costhub.cli.", MAIN))
        if len(path.read_text(encoding="utf-8").splitlines()) < SMALL_LINES and len(importers[module]) < 2
    }

    assert small == set(SMALL)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("costhub.dataset.load", "import costhub.models.trees.gbt"),
        ("costhub.models.train", "from costhub.collector import run"),
        ("costhub.models.train", "def f():\n    from costhub.search.tune import tune"),
        ("costhub.cards.plots", "if TYPE_CHECKING:\n    from costhub.search.tune import Report"),
        ("costhub.cards.plots", "from ..collector.device import identify"),
        ("costhub.cards.plots", "from .. import hub"),
        ("costhub.hub.pull", "importlib.import_module('costhub.cli.main')"),
        ("costhub.transfer.adapt", "from costhub.search.tune import tune"),
        ("costhub.search.tune", "from costhub.papers.release import Ppo"),
        ("costhub.search.tune", "from costhub import evaluate"),
        ("costhub.dataset.load", "import costhub"),
        ("costhub.errors", "from costhub.dataset.schema import VERSION"),
        ("costhub.isolation.child", "from costhub.dataset.schema import VERSION"),
    ],
)
def test_an_import_against_the_direction_is_seen(module: str, source: str) -> None:
    assert len(wrong_imports(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("costhub.dataset.load", "from costhub import errors, progress\nfrom . import shard\nimport numpy.ma"),
        ("costhub.search.tune", "from costhub.collector.run import run\nfrom ..models import train"),
        ("costhub.papers.pruner", "from costhub.transfer.methods.method import TransferMethod"),
        ("costhub.cli.main", "from costhub.hub import pull\nimport costhub.isolation.child"),
        ("costhub.cards.site.page", "from costhub.versions import __version__"),
    ],
)
def test_an_import_along_the_direction_passes(module: str, source: str) -> None:
    assert wrong_imports(source, module) == []


def test_import_brings_in_nothing_heavy() -> None:
    stages = ", ".join(f"costhub.{stage}" for stage in ALLOWED)
    code = f"import sys, costhub, costhub.cli.main, {stages}; print(*sorted(set({HEAVY}) & set(sys.modules)))"

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
