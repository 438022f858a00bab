"""The rules of the house that no linter checks."""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with pytest there

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/costhub"
STAGES = ("collector", "dataset", "models", "transfer", "search", "cards")

MOST_LINES = 500
MOST_FUNCTION_LINES = 60
MOST_PARAMETERS = 9
MOST_FILES = 20

# Distribution -> the name it is imported under, where they differ.
IMPORT_NAMES = {
    "apache-tvm": "tvm",
    "apache-tvm-ffi": "tvm_ffi",
    "markdown-it-py": "markdown_it",
    "pyyaml": "yaml",
    "xgboost-cpu": "xgboost",
}

# What type checkers bring along to describe the standard library; it is imported under TYPE_CHECKING only.
TYPES_OF_THE_STANDARD_LIBRARY = {"_typeshed"}


@cache
def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def short(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def declared(*, extra: str | None = None) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return [Requirement(line) for line in lines]


def pinned(name: str = "constraints.txt") -> dict[str, Requirement]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in pins}


@pytest.mark.parametrize("stage", STAGES)
def test_the_link_at_the_root_shows_the_stage(stage: str) -> None:
    link = ROOT / stage
    if not link.is_symlink():
        pytest.skip("this checkout does not keep links")

    assert link.resolve() == (PACKAGE / stage).resolve()
    assert (link / "__init__.py").is_file()


def findings(look: Callable[[str, ast.Module], Iterable[str]]) -> list[str]:
    """What a rule finds in all modules, each finding with its file."""
    return [f"{short(path)}: {finding}" for path in modules() for finding in look(short(path), tree(path))]


def functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (each for each in ast.walk(node) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def test_no_file_is_over_500_lines() -> None:
    lengths = {short(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}

    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_folder_is_crowded() -> None:
    counts = Counter(path.parent for path in modules() if path.name != "__init__.py")

    assert {short(folder): count for folder, count in counts.items() if count > MOST_FILES} == {}


def test_functions_fit_a_screen() -> None:
    def long(_: str, module: ast.Module) -> Iterator[str]:
        for function in functions(module):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > MOST_FUNCTION_LINES:
                yield f"line {function.lineno}: {function.name} has {lines} lines"

    assert findings(long) == []


def test_functions_name_their_options() -> None:
    def open_ended(_: str, module: ast.Module) -> Iterator[str]:
        for function in functions(module):
            if function.args.kwarg:
                yield f"line {function.lineno}: {function.name} takes **{function.args.kwarg.arg}"

    assert findings(open_ended) == []


def test_functions_take_few_parameters() -> None:
    def many(path: str, module: ast.Module) -> Iterator[str]:
        for function in functions(module):
            arguments = function.args
            names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            count = len([name for name in names if name not in ("self", "cls")])
            # A command has as many as it has options.
            if count > MOST_PARAMETERS and not (path.startswith("cli/") and function.name == "command"):
                yield f"line {function.lineno}: {function.name} takes {count}"

    assert findings(many) == []


def test_only_the_command_line_writes() -> None:
    def prints(_: str, module: ast.Module) -> Iterator[str]:
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                yield f"line {node.lineno}: print; only cli/ writes, with click.echo"

    assert findings(prints) == []


def test_no_public_class_name_has_two_meanings() -> None:
    places = defaultdict(list)
    for path in modules():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(short(path))

    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_every_file_has_tests_of_its_name_or_of_its_folders() -> None:
    def is_tested(path: Path) -> bool:
        place = ROOT / "tests" / path.relative_to(PACKAGE).parent
        own, folder = place / f"test_{path.name}", f"test_{path.parent.name}.py"
        return any(test.is_file() for test in (own, place / folder, place.parent / folder))

    assert [short(path) for path in modules() if path.name != "__init__.py" and not is_tested(path)] == []


def test_every_package_imported_is_declared() -> None:
    dependencies = [*declared(), *declared(extra="datasets"), *declared(extra="dask"), *declared(extra="engines")]
    names = {IMPORT_NAMES.get(dep.name, dep.name.replace("-", "_")) for dep in dependencies}
    known = names | set(sys.stdlib_module_names) | TYPES_OF_THE_STANDARD_LIBRARY | {"costhub"}

    undeclared = set()
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            else:
                imported = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            undeclared |= {(short(path), name) for name in imported if name.split(".")[0] not in known}

    assert undeclared == set()


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-docs.txt"])
def test_constraints_pin_exactly(name: str) -> None:
    for pin in pinned(name).values():
        assert [clause.operator for clause in pin.specifier] == ["=="], f"{pin} is not a pin"


@pytest.mark.parametrize("extra", [None, "dask", "datasets", "dev", "docs", "engines"])
def test_constraints_satisfy_the_ranges(extra: str | None) -> None:
    name = "constraints-docs.txt" if extra == "docs" else "constraints.txt"
    for dep in declared(extra=extra):
        (clause,) = pinned(name)[canonicalize_name(dep.name)].specifier

        assert clause.version in dep.specifier, f"{name} pins {clause.version}, pyproject wants {dep}"


def test_constraints_pin_what_the_dependencies_depend_on() -> None:
    open_ends, seen = [*declared(), *declared(extra="dev")], set()
    while open_ends:
        dep = open_ends.pop()
        key = (canonicalize_name(dep.name), frozenset(dep.extras))
        # torch pins the CUDA libraries of its own build, exactly, in its own metadata.
        if key in seen or key[0].startswith(("nvidia-", "cuda-", "triton")):
            continue
        seen.add(key)
        needs = [Requirement(line) for line in metadata.requires(dep.name) or []]
        environments = [{"extra": extra} for extra in ("", *dep.extras)]
        open_ends += [n for n in needs if not n.marker or any(n.marker.evaluate(e) for e in environments)]

    assert {name for name, _ in seen} - set(pinned()) == set()


def test_no_file_names_a_package_registry() -> None:
    # Where packages come from is a setting of pip on each machine.
    # Spelt in halves, or this file would be found.
    hosts = [
        "py" + "pi.",
        "pythonhosted" + ".",
        "download." + "pytorch",
        "--index" + "-url",
        "--find" + "-links",
    ]
    files = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in (".ci", "docs", "scripts", "src", "tests"):
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    texts = {path: path.read_bytes() for path in files if path.suffix not in {".pyc", ".parquet", ".png"}}

    found = [(path.name, host) for path, text in texts.items() for host in hosts if host.encode() in text]

    assert found == []
