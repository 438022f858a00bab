"""Hostile inputs of the workflow that publishes, and hostile files beside the notebook and the engines (kind 138)."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from scripts.bench.common.data import DEVICE
from scripts.bench.common.machine import ROOT
from scripts.bench.security import shards
from scripts.bench.security.attempt import Attempt, Expected, no_harm, writes
from scripts.bench.security.data import ESCAPES
from scripts.bench.security.exchange.databases import Harm, secret_changed
from scripts.bench.security.exchange.networks import device
from scripts.bench.security.exchange.submissions import FAMILY, about, scored
from scripts.bench.security.models import TERABYTE, RunsCode, deep
from scripts.bench.security.names import SCRIPT, reaches_terminal
from scripts.bench.security.place import Answer, Command, Place

WORKFLOW = ROOT / ".github" / "workflows" / "publish.yml"
_PROGRAMS = {
    "curl": "echo x",
    "costhub": 'printf "%s\\n" "$@" "--" >> said.txt',
    "jq": 'cat > /dev/null; case "$*" in *.access_token*) echo hf_a_token;; *) echo x;; esac',
}
"""What the steps call, as they would be found on the machine of a workflow."""


def steps() -> list[str]:
    """The scripts of the job that publishes to a hub, but for those that install."""
    job: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]["hub"]
    return [step["run"] for step in job["steps"] if "run" in step and "pip install" not in step["run"]]


def published(text: str) -> Callable[[Place], Command]:
    """Runs the steps with a text as each of the inputs that whoever starts the workflow writes."""

    def make(place: Place) -> Command:
        programs = place.folder / "bin"
        programs.mkdir()
        for name, script in _PROGRAMS.items():
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        given = text.replace("CANARY", str(place.canary))
        inputs = dict.fromkeys(("RESOURCE", "FOLDER", "TAG"), given)
        asked = dict.fromkeys(("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"), "x")
        env = {**inputs, **asked, "PATH": f"{programs}:{place.env['PATH']}"}
        return place.other("bash", "-e", "-c", "\n".join(steps()), shown="the steps of publish.yml", **env)

    return make


def split_up(place: Place, answer: Answer) -> str:
    """A harm: an input was run, or became several words of a command."""
    said = place.folder / "said.txt"
    calls = said.read_text().split("--\n") if said.exists() else []
    if found := writes("canary")(place, answer):
        return found
    return "" if "publish\n" in "".join(calls) or answer.code else "nothing was published"


def _kept_figures(write: Callable[[Path, Place], object]) -> Callable[[Place], Command]:
    """Asks for a device where somebody has spoilt the figures that a probe has kept."""

    def make(place: Place) -> Command:
        write(place.folder / "cache" / "devices.json", place)
        return place.costhub("evaluate", "any-cpu-conditioned", "--data", place.data(), "--all")

    return make


def _holes(path: Path, place: Place) -> None:
    del place
    with path.open("wb") as file:
        file.truncate(TERABYTE)


def _kept(**values: Any) -> Callable[[Path, Place], object]:
    row = json.loads(device(device_id=DEVICE)) | values
    return lambda path, place: path.write_text(json.dumps({"version": 1, "devices": [row]}))


def _beside(name: str, content: Callable[[Place], bytes]) -> Callable[[Place], Command]:
    """Tunes a file beside other engines, whose packages are there."""

    def make(place: Place) -> Command:
        for package in ("onnx", "onnxscript", "onnxruntime", "openvino"):
            (place.folder / "packages" / package).mkdir(parents=True)
            (place.folder / "packages" / package / "__init__.py").write_text("")
        (place.folder / name).write_bytes(content(place))
        words = ("--beside", "onnxruntime", "--beside", "openvino", "--out", place.folder / "out")
        path = f"{place.env['PYTHONPATH']}:{place.folder / 'packages'}"
        return place.costhub("tune", place.folder / name, "--trials", 2, *words, PYTHONPATH=path)

    return make


def _aimed_target(place: Place) -> Command:
    """A trace that names an intrinsic, beside a target that is nested without end."""
    folder = place.data()
    rows = shards.read(folder)
    for row in rows[:9]:
        instructions, decisions = json.loads(row["trace"])
        more = [*instructions, ["Tensorize", ["b0"], ["dot_4x4_i8i8s32_sdot", 1], []]]
        row |= {"trace": json.dumps([more, decisions]), "target": deep(5000)}
    shards.write(folder, rows)
    return place.costhub("check", "--deep", folder)


def _large_annotations(place: Place) -> Command:
    """Schedules that claim to be the fastest, with numbers that TVM multiplies by the cores."""
    folder = place.data()
    rows = shards.read(folder)
    for row in rows:
        instructions, decisions = json.loads(row["trace"])
        for each in instructions:
            if each[0] == "Annotate" and isinstance(each[1][1], int):
                each[1][1] = (1 << 63) - 1
        row |= {"trace": json.dumps([instructions, decisions]), "run_s": [1e-12]}
    shards.write(folder, rows)
    words = ("--device", DEVICE, "--data", folder, "--pool", 4, "--out", place.folder / "out")
    return place.costhub("compile", "softmax.64x1000", *words)


_SAVED = """
import pathlib
import torch
from costhub.api.subjects import read_subjects
program = torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.zeros(1, 4),))
print(read_subjects({{"net": program}}, pathlib.Path({out!r})).networks)
"""


def _saved_network(place: Place) -> Command:
    """A network in memory is saved where a link to the user's own file lies."""
    out = place.folder / "out"
    out.mkdir()
    (out / "net.pt2").symlink_to(place.secret)
    return place.python(_SAVED.format(out=str(out)), shown="tune({'net': program}, OUT)")


def _pickle(place: Place) -> bytes:
    return pickle.dumps(RunsCode(place.canary))


_SHELL = (
    "$(touch CANARY)",
    "`touch CANARY`",
    '"; touch CANARY; "',
    "'; touch CANARY; '",
    "x\ntouch CANARY",
    "x; touch CANARY",
)
_ODD = f"{ESCAPES}{SCRIPT}\u202e"
_TRIED: tuple[tuple[str, str, Callable[[Place], Command], Expected, Harm], ...] = (
    ("138g", "evaluate, kept figures of a probe are a named pipe",
     _kept_figures(lambda path, place: os.mkfifo(path)), "refused", no_harm),
    ("138h", "evaluate, kept figures of 1 TB of holes", _kept_figures(_holes), "refused", no_harm),
    ("138i", "evaluate, kept figures nested 100,000 deep",
     _kept_figures(lambda path, place: path.write_text(deep(100_000))), "refused", no_harm),
    ("138j", "evaluate, kept figures that a terminal obeys", _kept_figures(_kept(vendor=_ODD, model_name=_ODD)),
     "either", reaches_terminal),
    ("138k", "evaluate, kept figures of 400 digits", _kept_figures(_kept(cores=10**400, l2_bytes=10**400)), "either",
     no_harm),
    ("138l", "tune --beside, an ONNX file", _beside("net.onnx", lambda place: b"\x08\x07\x12" + bytes(99)), "refused",
     no_harm),
    ("138m", "tune --beside, a pickle", _beside("net.pt2", _pickle), "refused", writes("canary")),
    ("138n", "check --deep, a target without end beside a tensorized trace", _aimed_target, "refused", no_harm),
    ("138o", "compile --data, annotations of 2^63 - 1", _large_annotations, "either", no_harm),
    ("138p", "tune of a network in memory, into a link to the user's own file", _saved_network, "accepted",
     secret_changed),
    ("138q", "bench score, training that a terminal obeys", scored(about(trained_on=_ODD, url=_ODD)), "accepted",
     reaches_terminal),
    ("138r", "bench score --json, training that a terminal obeys", scored(about(trained_on=_ODD, seed=_ODD), "--json"),
     "accepted", reaches_terminal),
    ("138s", "bench score, training that is an object", scored(about(trained_on={"a": _ODD})), "refused", no_harm),
    ("138t", "bench score, a version of 4,000 digits", scored(about(version=10**4000)), "refused", no_harm),
)  # fmt: skip


def attempts() -> Iterator[Attempt]:
    """Kind 138."""
    for letter, text in zip("abcdef", _SHELL, strict=True):
        what = f"the workflow that publishes, inputs that are {text[:20]!r}"
        yield Attempt(f"138{letter}", FAMILY, what, published(text), "either", harm=split_up, quick=letter == "a")
    for kind, what, made, expected, harm in _TRIED:
        yield Attempt(kind, FAMILY, what, made, expected, harm=harm, limit_s=120)
