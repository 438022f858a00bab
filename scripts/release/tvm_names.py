"""Which names of TVM costhub uses and where, and which of them another version of TVM no longer has."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from scripts.bench.common import machine, options
from scripts.bench.common.machine import ROOT

DISTRIBUTION = "apache-tvm"
PACKAGES = ("tvm", "tvm_ffi")
FUNCTION = "function:"
"""Begins the name of a global function, which TVM looks up by a text."""
RESOLVE = """
import importlib, json, sys

def found(name):
    if name.startswith("function:"):
        import tvm, tvm_ffi
        return tvm_ffi.get_global_func(name[9:], allow_missing=True) is not None
    parts, owner = name.split("."), None
    for end in range(1, len(parts) + 1):
        try:
            owner = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            end -= 1
            break
    for part in parts[end:]:
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return owner is not None

import tvm
names = json.load(sys.stdin)
print(json.dumps({"version": tvm.__version__, "missing": [name for name in names if not found(name)]}))
"""
AREAS = {
    "tvm.s_tir.meta_schedule": "MetaSchedule: search spaces, searches, databases",
    "tvm.s_tir": "Schedules, traces and their passes",
    "tvm.tirx": "Tensor programs and how they are built",
    "tvm.te": "Tensor expressions: workloads",
    "tvm.topi": "Operators: workloads",
    "tvm.relax": "Networks",
    "tvm.script": "Reading and writing programs",
    "tvm.rpc": "Boards",
    "tvm.target": "Targets and code generation",
    "tvm.runtime": "Running",
    "tvm.ir": "Modules and passes",
    "tvm_ffi": "Calls between Python and C++",
    FUNCTION: "Functions that are looked up by a text",
}
"""Beginning of a name -> what it is for; the first that fits counts."""
OTHER = "Everything else"


def names_in(source: str) -> set[str]:
    """The names of TVM that a module of Python uses, as dotted names.

    Example:
        >>> sorted(names_in("import tvm; tvm.relax.transform.LegalizeOps()"))
        ['tvm.relax.transform.LegalizeOps']
    """
    tree = ast.parse(source)
    known = dict(_imports(tree))
    found = {name for name in known.values() if "." in name}
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            found |= {name for name in [_dotted(node, known)] if name}
        elif isinstance(node, ast.Call):
            found |= set(_looked_up(node))
    return found


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Local name -> the dotted name of TVM that it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in PACKAGES:
                    yield (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dotted(node: ast.Attribute, known: Mapping[str, str]) -> str | None:
    parts = [node.attr]
    owner: ast.expr = node.value
    while isinstance(owner, ast.Attribute):
        parts.append(owner.attr)
        owner = owner.value
    if isinstance(owner, ast.Name) and owner.id in known:
        return ".".join([known[owner.id], *reversed(parts)])
    return None


def _looked_up(node: ast.Call) -> Iterator[str]:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called == "get_global_func" and node.args and isinstance(node.args[0], ast.Constant):
        yield FUNCTION + str(node.args[0].value)


def used_names(root: Path = ROOT / "src/costhub") -> dict[str, list[str]]:
    """Name of TVM -> the files of costhub that use it, from the package's folder."""
    found: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*.py")):
        for name in names_in(path.read_text(encoding="utf-8")):
            found.setdefault(name, []).append(str(path.relative_to(root)))
    return dict(sorted(found.items()))


def area_of(name: str) -> str:
    """What a name is for.

    Example:
        >>> area_of("tvm.s_tir.meta_schedule.database.JSONDatabase")
        'MetaSchedule: search spaces, searches, databases'
    """
    return next((area for beginning, area in AREAS.items() if name.startswith(beginning)), OTHER)


def missing_in(python: str, names: Sequence[str]) -> tuple[str, list[str]]:
    """The version of the TVM that an interpreter has, and the names that it lacks."""
    done = subprocess.run([python, "-c", RESOLVE], input=json.dumps(names), capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"TVM cannot be loaded by {python}: {done.stderr.strip().splitlines()[-1]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    return str(answer["version"]), list(answer["missing"])


def newest_known(*, pre: bool) -> str | None:
    """The newest TVM that pip offers on this machine; None if it does not say.

    Args:
        pre: Releases in preparation included.
    """
    words = [sys.executable, "-m", "pip", "index", "versions", *(["--pre"] if pre else []), DISTRIBUTION]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = re.search(rf"^{DISTRIBUTION} \((\S+)\)", done.stdout, re.MULTILINE)
    return found[1] if found else None


WITH_EXTRAS = (f"{DISTRIBUTION}[all]", "torch")
"""What is installed to be tried: without its extras, TVM cannot import its own tracker."""


@click.command()
@click.option("--python", help="An interpreter that has the TVM to try; by default, the newest one is installed.")
@click.option("--pre", is_flag=True, help="The newest one, releases in preparation included.")
@options.json_file()
def main(python: str | None, pre: bool, path: Path | None) -> None:
    """Names what costhub uses of TVM and another version no longer has; the exit code is 1 if there is any."""
    used = used_names()
    with tempfile.TemporaryDirectory() as folder:
        if python is None:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            python = f"{folder}/bin/python"
            wanted = ["install", "--quiet", *(["--pre"] if pre else []), "--upgrade", *WITH_EXTRAS]
            subprocess.run([python, "-m", "pip", *wanted], check=True)
        version, missing = missing_in(python, list(used))
    for name in missing:
        click.echo(f"{name} ({area_of(name)}): {', '.join(used[name])}")
    click.echo(f"TVM {version} has {len(used) - len(missing)} of the {len(used)} names that costhub uses.")
    if path:
        lacked = {name: used[name] for name in missing}
        result = {"tvm": version, "used": len(used), "missing": lacked, "newest": newest_known(pre=True)}
        machine.write_result(path, result)
    raise SystemExit(1 if missing else 0)
