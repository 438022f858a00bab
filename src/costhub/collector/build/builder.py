"""Provides Builder: build processes that import TVM once, stay alive, and can be frozen while something is timed.

TVM's LocalBuilder starts a new pool for every batch, whose processes spend about 16 s importing before the first
kernel compiles, with the build's time limit already running. Here each process imports once, and a build's limit
starts when the module is sent to a process that is ready.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from types import TracebackType
from typing import Any

from costhub.collector.build.linker import can_link, export_linked, link
from costhub.errors import MeasureError, class_and_end
from costhub.isolation.child import WITHOUT_TORCH, Child, ChildDied, ChildTimeout
from costhub.isolation.limits import Limits, usable_cpus
from costhub.isolation.pool import ChildPool
from costhub.isolation.scratch import ScratchFolder

# LLVM and TVM never release all their memory; a process is replaced after this many builds.
BUILDS_PER_PROCESS = 1000
# Processor time on top of a build's own: loading TVM with the intrinsics of a GPU takes 16 s.
CPU_ALLOWANCE_S = 60.0
# What the system, a linker and LLVM, which ends its process, say when nothing more can be written.
_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
_FULL = tuple(map(os.strerror, _FULL_ERRORS))
# Less than a small program takes: its object file and its library.
_LEAST_FREE_BYTES = 64 << 10


@dataclass(frozen=True)
class BuildSeconds:
    """How the time of a build was spent."""

    lower: float = 0.0
    """TVM's passes, from the scheduled module to the input of LLVM; for a GPU, the whole build."""
    llvm: float = 0.0
    """LLVM: its passes and the object file."""
    link: float = 0.0


NO_SECONDS = BuildSeconds()


@dataclass(frozen=True)
class BuildResult:
    """The result of building one module."""

    status: str
    """``ok``, ``build_error`` or ``build_timeout``."""
    artifact: str | None
    build_s: float
    error: str | None
    seconds: BuildSeconds = NO_SECONDS
    """How `build_s` was spent."""

    def remove(self) -> None:
        """Removes the artifact with its folder."""
        if self.artifact is not None:
            shutil.rmtree(os.path.dirname(self.artifact), ignore_errors=True)


class Builder:
    """A pool of build processes.

    Args:
        target: The TVM target, as JSON.
        processes: Number of parallel build processes; the number of CPUs that this process may use by default.
        timeout_s: Time limit of one build; neither start-up nor frozen time counts.
        limits: Resources each process may use; by default its share of the memory, and processor time for a few
            time limits.

    Example:
        >>> builder = Builder('{"kind": "llvm", "num-cores": 2}', processes=1)
        >>> builder.build([])
        []
        >>> builder.close()
    """

    def __init__(
        self,
        target: str,
        *,
        processes: int | None = None,
        timeout_s: float = 10.0,
        limits: Limits | None = None,
    ) -> None:
        self.target = target
        self.timeout_s = timeout_s
        self.processes = processes or len(usable_cpus())
        self._scratch = ScratchFolder()
        self._pool = ChildPool(
            self.processes,
            prepare=partial(_prepare_builds, target, str(self._scratch.path)),
            # For a GPU, the libraries that torch brings may be those that TVM finds.
            environment=WITHOUT_TORCH if json.loads(target).get("kind") == "llvm" else None,
            limits=limits or Limits.share(self.processes, cpu_s=CPU_ALLOWANCE_S + 2 * timeout_s),
            most_calls=BUILDS_PER_PROCESS,
        )
        self._numbers = count(1)

    def __enter__(self) -> Builder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def launch(self) -> None:
        """Starts the processes without waiting for them, so that they import in parallel."""
        self._pool.launch()

    def close(self) -> None:
        """Ends the processes and removes their files; pending builds are cancelled."""
        self._pool.close()
        self._scratch.close()

    def build(self, modules: Sequence[str]) -> list[BuildResult]:
        """Compiles scheduled modules (TVM JSON) and returns one result per module, in order.

        The caller removes each artifact with its folder.

        Raises:
            MeasureError: A build process cannot be started, or not with this target, or the disk is full.
        """
        futures = [self.submit(module) for module in modules]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            self._pool.kill()
            raise

    def submit(self, module: str) -> Future[BuildResult]:
        """Queues one scheduled module (TVM JSON) for compilation, after those submitted earlier.

        The future raises MeasureError if a build process cannot be started, or not with this target, or if the disk
        is full.
        """
        return self._pool.submit(self._build, module)

    def frozen(self) -> AbstractContextManager[None]:
        """Suspends the processes, even in the middle of a build, while the block runs."""
        return self._pool.frozen()

    def _build(self, child: Child, module: str) -> BuildResult:
        # A folder for each: TVM's RemoveBuildArtifact callback deletes the folder that contains an artifact.
        folder = os.path.join(self._scratch.path, str(next(self._numbers)))
        try:
            os.mkdir(folder)
        except OSError as error:
            if error.errno in _FULL_ERRORS:
                raise self._full_error(str(error)) from error
            raise
        built = self._build_in(child, module, os.path.join(folder, "program.so"))
        if built.artifact is None:
            is_full = self._is_full(folder, built.error or "")
            shutil.rmtree(folder, ignore_errors=True)
            if is_full:  # which says nothing about the program
                raise self._full_error(built.error or "")
        return built

    def _full_error(self, why: str) -> MeasureError:
        return MeasureError(
            f"Programs cannot be built, because the disk of {self._scratch.path.parent} is full ({why[-200:]}). Free "
            "some space there, or set TMPDIR to a folder on another disk, then run the command again."
        )

    @staticmethod
    def _is_full(folder: str, why: str) -> bool:
        """Whether a build failed for want of room; a process that dies of it may find none for its last words."""
        return any(text in why for text in _FULL) or shutil.disk_usage(folder).free < _LEAST_FREE_BYTES

    def _build_in(self, child: Child, module: str, artifact: str) -> BuildResult:
        start = child.time()
        try:
            built = child.call(build_library, module, self.target, artifact, timeout_s=self.timeout_s)
        except ChildTimeout:
            return BuildResult("build_timeout", None, self.timeout_s, f"killed after {self.timeout_s:g} s of building")
        except ChildDied as death:
            return BuildResult("build_error", None, child.time() - start, str(death))
        met = built.error and child.limits.broken(None, built.error)
        return replace(built, error=f"{met} {built.error}") if met else built


# The code below runs in the children.


def _prepare_builds(target: str, folder: str) -> None:
    """Loads what the target needs; temporary files go to the folder.

    Raises:
        MeasureError: TVM does not know the target.
    """
    # Files left behind by a killed linker are removed with the folder; its messages are searched for `_FULL`.
    os.environ["TMPDIR"], os.environ["LC_ALL"], tempfile.tempdir = folder, "C", None
    try:
        load_target(target)
    except Exception as error:
        raise MeasureError(f"TVM cannot be prepared to build for {target}: {class_and_end(error)}") from error


def build_library(module_json: str, target: str, artifact: str) -> BuildResult:
    """Compiles one scheduled module (TVM JSON) into the shared library `artifact`."""
    start = cpu_s()
    try:
        seconds = _compile(module_json, load_target(target), artifact)
    except Exception as error:
        return BuildResult("build_error", None, cpu_s() - start, class_and_end(error))
    return BuildResult("ok", artifact, cpu_s() - start, None, seconds)


@cache
def load_target(target: str) -> Any:
    """The target object; the first call loads TVM and the target's tensor intrinsics."""
    import tvm

    from costhub.dataset.intrinsics import load_intrinsics

    # The target first: TVM would load the intrinsics of every kind for a kind it does not know.
    target_object = tvm.target.Target(json.loads(target))
    load_intrinsics(str(target_object.kind.name))
    return target_object


def cpu_s() -> float:
    """CPU seconds of this process and its ended children, as a wall clock would also count frozen time."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _compile(module_json: str, target: Any, artifact: str) -> BuildSeconds:
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
    from tvm.tirx.build import split_host_device_mods, tir_to_runtime

    start = cpu_s()
    module = tvm.ir.load_json(module_json)
    # As TVM's default_build does: the weights are passed in the layout that the schedule chose.
    module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
    if target.kind.name != "llvm":
        with target:  # From it, TVM's code generator takes the architecture; without it, it would ask the driver.
            export_linked(tvm.tirx.build(module, target=target), artifact)
        return BuildSeconds(lower=cpu_s() - start)
    # The steps of tvm.tirx.build one by one: this separates TVM's time from LLVM's.
    module = tvm.tirx.transform.BindTarget(target.with_host(target))(module)
    passes, finish_host, _ = tvm.tirx.get_default_tir_pipeline(target)
    host, _ = split_host_device_mods(passes(module))
    host = finish_host()(host)
    lowered = cpu_s()
    unlinked = f"{artifact}.o"
    tir_to_runtime(host, {}, target).write_to_file(unlinked)
    compiled = cpu_s()
    _link(target.attrs.get("mtriple"), unlinked, artifact)
    linked = cpu_s()
    return BuildSeconds(lowered - start, compiled - lowered, linked - compiled)


def _link(triple: str | None, unlinked: str, artifact: str) -> None:
    """Links an object file into a shared library, and removes the object file.

    TVM's export_library does the same, but its checks cost as much as a small kernel's code generation. Where
    no linker here supports the target, the object file takes the library's place: the board links it.
    """
    if triple is not None and not can_link(triple):
        os.replace(unlinked, artifact)
        return
    try:
        link(triple, [unlinked], artifact)
    finally:
        os.remove(unlinked)
