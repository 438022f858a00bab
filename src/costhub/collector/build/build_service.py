"""Compiles one scheduled module into a shared library, inside a child process."""

from __future__ import annotations

import json
import os
import resource
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from costhub.collector.build.linker import can_link, link
from costhub.errors import class_and_end


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
class BuildSeconds:
    """Where the seconds of a build went."""

    lower: float = 0.0
    """TVM's passes, from the scheduled module to what LLVM takes."""
    llvm: float = 0.0
    """LLVM: its passes and the object file."""
    link: float = 0.0


NO_SECONDS = BuildSeconds()


@dataclass(frozen=True)
class BuildReply:
    """What became of a BuildRequest."""

    build_s: float
    error: str | None
    seconds: BuildSeconds = NO_SECONDS


@cache
def prepare(target: str) -> Any:
    """The target object; the first call loads TVM and the target's tensor intrinsics."""
    import tvm

    from costhub.dataset.intrinsics import load_intrinsics

    # The target first: TVM would load the intrinsics of every kind for a kind it does not know.
    target_object = tvm.target.Target(json.loads(target))
    load_intrinsics(str(target_object.kind.name))
    return target_object


def handle(request: BuildRequest | str) -> BuildReply | None:
    """Compiles; a target alone (a string) only warms the worker up, so that start-up is never timed."""
    if isinstance(request, str):
        prepare(request)
        return None
    start = cpu_s()
    try:
        seconds = _build(request)
    except Exception as error:
        return BuildReply(cpu_s() - start, class_and_end(error))
    return BuildReply(cpu_s() - start, None, seconds)


def cpu_s() -> float:
    """CPU seconds of this process and its ended children, which a clock would count while we are frozen."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _build(request: BuildRequest) -> BuildSeconds:
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
    from tvm.tirx.build import split_host_device_mods, tir_to_runtime

    target = prepare(request.target)
    start = cpu_s()
    module = tvm.ir.load_json(request.module_json)
    # As TVM's default_build does: the weights are handed over in the layout that the schedule chose.
    module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    if target.kind.name != "llvm":
        tvm.tirx.build(module, target=target).export_library(request.artifact)
        return BuildSeconds(lower=cpu_s() - start)
    # The steps of tvm.tirx.build one by one: this separates TVM's time from LLVM's.
    module = tvm.tirx.transform.BindTarget(target.with_host(target))(module)
    passes, finish_host, _ = tvm.tirx.get_default_tir_pipeline(target)
    host, _ = split_host_device_mods(passes(module))
    host = finish_host()(host)
    lowered = cpu_s()
    unlinked = f"{request.artifact}.o"
    tir_to_runtime(host, {}, target).write_to_file(unlinked)
    compiled = cpu_s()
    _link(target.attrs.get("mtriple"), unlinked, request.artifact)
    linked = cpu_s()
    return BuildSeconds(lowered - start, compiled - lowered, linked - compiled)


def _link(triple: str | None, unlinked: str, artifact: str) -> None:
    """Makes a shared library of an object file, and removes the object file.

    TVM's export_library does the same, but its checks cost as much as a small kernel's code generation. Where
    nothing here links for the target, the object file takes the library's place: a board links it itself.
    """
    if triple is not None and not can_link(triple):
        os.replace(unlinked, artifact)
        return
    try:
        link(triple, [unlinked], artifact)
    finally:
        os.remove(unlinked)
