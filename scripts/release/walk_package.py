"""Installs wheel and sdist into empty environments of several Pythons and runs the first commands there."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from packaging.requirements import Requirement

from costhub.versions import costhub_version
from scripts.bench.common import machine, options

MODEL = "amd-epyc-zen5-2c"
COMMANDS = {
    "devices": ["costhub", "devices"],
    "pull": ["costhub", "pull", MODEL, "--out", "model"],
    "check": ["costhub", "check", "model"],
    "tune": ["costhub", "tune", "softmax.512x512", "--trials-per-workload", "16", "--out", "tuned"],
}
"""The first commands, in the order in which a new user runs them."""
TOOLS = ("ld", "sh", "env", "ldconfig", "uname")
"""All tools on the path beside the environment: a linker, no compiler."""


def built(place: Path) -> list[Path]:
    """Wheel and sdist of what is committed."""
    tree = place / "tree"
    tree.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=machine.ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place / "dist"), str(tree)]
    subprocess.run(command, capture_output=True, check=True)
    return sorted((place / "dist").iterdir(), key=lambda path: path.suffix != ".whl")


def refuse_another_version(packages: Sequence[Path]) -> None:
    """Refuses packages of another version than the working tree's, which is what was not committed yet.

    Raises:
        ClickException: There is one.
    """
    for package in packages:
        if not package.name.startswith(f"costhub-{costhub_version()}"):
            raise click.ClickException(
                f"HEAD is packed as {package.name}, but this is {costhub_version()}: commit first."
            )


def installed(python: str, package: Path, place: Path) -> tuple[dict[str, Any], Path]:
    """A new environment with the package installed, and the cost of that."""
    environment = place / "env"
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    began = time.perf_counter()
    pip = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", str(machine.ROOT / "constraints.txt"), str(package)], check=True)
    seconds = time.perf_counter() - began
    size = sum(path.lstat().st_size for path in environment.rglob("*") if path.is_file())
    version = subprocess.run(
        [str(environment / "bin/python"), "-c", "import platform; print(platform.python_version())"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {"python": version.stdout.strip(), "install_s": seconds, "bytes": size}, environment


def walked(environment: Path, place: Path) -> dict[str, Any]:
    """Seconds of every command, offline and without a compiler; the sentence of the one that failed."""
    tools = place / "tools"
    tools.mkdir()
    for name in TOOLS:
        if tool := shutil.which(name):
            (tools / name).symlink_to(tool)
    own = {
        "PATH": f"{environment / 'bin'}:{tools}",
        "HOME": str(place),
        "COSTHUB_CACHE": str(place / "cache"),
        "HF_HUB_OFFLINE": "1",
    }
    row: dict[str, Any] = {"failed": None}
    for name, command in COMMANDS.items():
        began = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=place,
            env=own,
            capture_output=True,
            text=True,
            check=False,
            executable=environment / "bin" / command[0],
        )
        row[f"{name}_s"] = time.perf_counter() - began
        if done.returncode:
            return {**row, "failed": f"{name}: {(done.stderr.strip().splitlines() or ['?'])[-1]}"}
    return row


def licences() -> list[dict[str, str]]:
    """Every requirement installed here, with the licence that it declares."""
    by_name: dict[str, dict[str, str]] = {}
    waiting = ["costhub"]
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in by_name:
            continue
        try:
            about = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform or Python
        by_name[name] = {"name": name, "version": about.version, "licence": licence_of(about)}
        for text in about.requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(needed.name)
    del by_name["costhub"]
    return [by_name[name] for name in sorted(by_name)]


def licence_of(about: importlib.metadata.Distribution) -> str:
    """The SPDX expression of a distribution; of older ones the classifier or the first line of the text."""
    metadata: Any = about.metadata
    classifiers = [text for text in metadata.get_all("Classifier") or [] if text.startswith("License ::")]
    named = [text.rpartition(" :: ")[2] for text in classifiers if text.count(" :: ") > 1]
    text = (metadata.get("License") or "").strip()
    return metadata.get("License-Expression") or " and ".join(named) or (text.splitlines() or ["?"])[0][:60]


@click.command()
@click.option("--python", "pythons", multiple=True, default=["python3"], help="Interpreters, by name or path.")
@options.quick("The licences only.")
@options.json_file()
def main(pythons: tuple[str, ...], quick: bool, path: Path | None) -> None:
    """Walks what a new user does with each package, on each Python."""
    earlier = json.loads(path.read_text()) if quick and path and path.exists() else {}
    rows = earlier.get("rows", [])
    with tempfile.TemporaryDirectory() as folder:
        packages = [] if quick else built(Path(folder))
        refuse_another_version(packages)
        sizes = {package.name: package.stat().st_size for package in packages}
        for python in () if quick else pythons:
            # An sdist builds the same wheel everywhere, so one Python is enough.
            for package in packages if python == pythons[0] else packages[:1]:
                with tempfile.TemporaryDirectory() as own:
                    row, environment = installed(python, package, Path(own))
                    row = {"package": package.suffix.lstrip("."), **row, **walked(environment, Path(own))}
                click.echo(json.dumps(row))
                rows.append(row)
    machine.write_result(path, {"sizes": earlier.get("sizes", sizes), "rows": rows, "licences": licences()})
    if any(row["failed"] for row in rows):
        raise SystemExit(1)
