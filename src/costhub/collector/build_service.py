"""The build service: compiles one scheduled module into a shared library, inside a `costhub.worker` child."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True)
class BuildRequest:
    """One scheduled module to compile."""

    module_json: str
    """The scheduled module, as TVM JSON."""
    target: str
    """The target, as JSON."""
    artifact: str
    """Path of the shared library to write."""


@dataclass(frozen=True)
class BuildReply:
    """What became of a BuildRequest."""

    build_s: float
    error: str | None


@cache
def prepare(target: str) -> Any:
    """The target object; the first call loads TVM and the target's tensor intrinsics."""
    import tvm

    from costhub.dataset.intrinsics import load_intrinsics

    # The target first: of a kind that TVM does not know it would load the intrinsics of every kind.
    made = tvm.target.Target(json.loads(target))
    load_intrinsics(str(made.kind.name))
    return made


def handle(request: BuildRequest | str) -> BuildReply | None:
    """Compiles; a target alone (a string) only warms the worker up, so that start-up is never timed."""
    if isinstance(request, str):
        prepare(request)
        return None
    start = time.perf_counter()
    try:
        _build(request)
    except Exception as error:
        text = str(error).strip() or type(error).__name__
        # TVM ends its tracebacks with the reason; the frames above it differ between machines.
        return BuildReply(time.perf_counter() - start, f"{type(error).__name__}: {text[-1000:]}")
    return BuildReply(time.perf_counter() - start, None)


def _build(request: BuildRequest) -> None:
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    target = prepare(request.target)
    module = tvm.ir.load_json(request.module_json)
    # As TVM's default_build does: the weights are handed over in the layout that the schedule chose.
    module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    built = tvm.tirx.build(module, target=target)
    if target.kind.name == "llvm":
        _link(built, request.artifact)
    else:
        built.export_library(request.artifact)


def _link(built: Any, artifact: str) -> None:
    """Writes an object file and calls the linker.

    TVM's export_library does the same, but its checks cost as much as a small kernel's code generation.
    """
    unlinked = f"{artifact}.o"
    built.write_to_file(unlinked)
    command = ["cc", "-shared", "-fPIC", "-o", artifact, unlinked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    os.remove(unlinked)
    if done.returncode:
        raise RuntimeError(f"cc could not link the program: {done.stderr.strip()}")
