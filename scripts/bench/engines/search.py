"""Provides search_network and compile_tuned: a network's database, kept from run to run, and its library."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from costhub.collector.device.cpu_state import core_count
from costhub.collector.device.identity import identify
from costhub.collector.device.local import find_local, local_target
from costhub.collector.workloads.network_source import BF16, BLOCKED, Lowering, read_network
from costhub.errors import NetworkError, class_and_line
from costhub.isolation.child import Child, ChildDied, ChildTimeout
from costhub.isolation.limits import Limits
from costhub.progress import bar
from costhub.search.whole_network.compile import CompiledNetwork
from scripts.bench.common.fresh import result_of
from scripts.bench.common.kept_searches import ONCE
from scripts.bench.engines.causes import FETCHING, without
from scripts.bench.search.once import seconds_at

COURSE = "course.json"
_COMPILE_TIMEOUT_S = 3600.0
Result = TypeVar("Result")


@dataclass(frozen=True)
class NetworkCourse:
    """What a search for the kernels of a network has done so far."""

    trials: int
    """For each kernel, those that were asked for when a search last came to its end; 0 before."""
    kernels: int
    """That are searched."""
    seconds: float
    """Of all its runs, those that were interrupted as well."""


def read_course(folder: Path) -> NetworkCourse:
    """The course of a search that the folder keeps; one without trials where it keeps none.

    Example:
        >>> read_course(Path("nowhere"))
        NetworkCourse(trials=0, kernels=0, seconds=0.0)
    """
    path = folder / COURSE
    return NetworkCourse(**json.loads(path.read_text())) if path.exists() else NetworkCourse(0, 0, 0.0)


def search_network(program: Path, folder: Path, *, trials: int, threads: int, lowering: Lowering) -> NetworkCourse:
    """Searches as `costhub tune --stop never` does, with the model that it takes on this machine.

    A search that was interrupted goes on, and so does one of fewer trials; nothing is done where a search of as many
    has come to its end.

    Args:
        program: What ``torch.export.save`` wrote.
        folder: Where the database is kept.
        trials: For each kernel.
        threads: Of the programs.
        lowering: How kernels are made; one folder cannot have two ways.

    Raises:
        CosthubError: The network cannot be turned into workloads, or nothing can be measured.
    """
    before = read_course(folder)
    if before.trials >= trials:
        return before
    from costhub import load_model
    from costhub.api.network_jobs import network_jobs
    from costhub.collector.measurer import local_measurer
    from costhub.search.options import Search
    from costhub.search.tune import tune_all

    device = str(identify(threads=threads)["device_id"])
    jobs = network_jobs([str(program)], json.dumps(local_target(threads=threads)), lowering)
    total = trials * len(jobs)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        _noted(folder, before, trials, len(jobs)),
        local_measurer(find_local([device])) as measurer,
        bar(total, desc=program.stem, unit="trial") as shown,
    ):
        tune_all(
            jobs,
            Search(load_model("auto", device=identify(threads=threads))),
            measurer,
            out=folder,
            trials=total,
            on_trial=shown_in(shown),
        )
    return read_course(folder)


def search_kernels_without(
    part: str, program: Path, folder: Path, *, trials: int, threads: int, lowering: Lowering
) -> int:
    """Adds the kernels to a search that a network has only if a pass is left out; returns how many are searched.

    What the folder has of them counts, so a search that was interrupted goes on; nothing is done after as many trials.

    Args:
        part: As for `causes.without`.
        program: As for `search_network`.
        folder: The search of the network with the pass.
        trials: For each kernel.
        threads: As in that search.
        lowering: As in that search.
    """
    from costhub import load_model
    from costhub.api.network_jobs import MOST_BYTES
    from costhub.collector.measurer import local_measurer
    from costhub.collector.workloads.kernel_extraction import KernelBounds, extract_kernels
    from costhub.collector.workloads.network_kernels import LEAST_BYTES, LEAST_FLOP
    from costhub.dataset.workload import module_from_json
    from costhub.search.options import Job, Search
    from costhub.search.tune import tune_all

    noted = folder / f"without-{part}.json"
    if noted.exists() and json.loads(noted.read_text())["trials"] >= trials:
        return 0
    target = json.dumps(local_target(threads=threads))
    bounds = KernelBounds(LEAST_FLOP, LEAST_BYTES, MOST_BYTES)
    whole = {each.workload_id for each in extract_kernels(str(program), target, bounds, lowering).tasks}
    with without(part):
        kernels = extract_kernels(str(program), target, bounds, lowering).tasks
    jobs = [Job(each.name, module_from_json(each.module_json)) for each in kernels if each.workload_id not in whole]
    if jobs:
        device = str(identify(threads=threads)["device_id"])
        with (
            local_measurer(find_local([device])) as measurer,
            bar(len(jobs) * trials, desc=part, unit="trial") as shown,
        ):
            search = Search(load_model("auto", device=identify(threads=threads)))
            tune_all(jobs, search, measurer, out=folder, trials=trials * len(jobs), on_trial=shown_in(shown))
    noted.write_text(json.dumps({"trials": trials}))
    return len(jobs)


def shown_in(progress: Any) -> Callable[[str, int, float | None], None]:
    """Counts trials in a bar."""

    def count(_: str, __: int, ___: float | None) -> None:
        progress.update(1)

    return count


@contextmanager
def _noted(folder: Path, before: NetworkCourse, trials: int, kernels: int) -> Iterator[None]:
    """Notes the seconds of what is done in it, and the trials if it comes to its end."""
    start, done = time.perf_counter(), before.trials
    try:
        yield
        done = trials
    finally:
        course = NetworkCourse(done, kernels, before.seconds + time.perf_counter() - start)
        (folder / COURSE).write_text(json.dumps(asdict(course)))


def search_stock(program: Path, folder: Path, *, trials: int) -> NetworkCourse:
    """Searches by stock MetaSchedule on all cores, for every kernel.

    An interrupted search begins anew, since TVM cannot go on.

    Args:
        program: As for `search_network`.
        folder: As for `search_network`.
        trials: As for `search_network`.
    """
    before = read_course(folder)
    if before.trials >= trials:
        return before
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    found = result_of(ONCE, "every-kernel", program, trials, 0, folder)
    seconds = seconds_at(found["rounds"], trials * found["tasks"])
    course = NetworkCourse(trials, found["tasks"], seconds)
    (folder / COURSE).write_text(json.dumps(asdict(course)))
    return course


def search_folder(searches: Path, network: str, method: str, lowering: Lowering) -> Path:
    """Where the search for a network's kernels is kept; each way to make kernels has its own folder.

    Args:
        searches: The folder of all searches.
        network: As for `build_network`.
        method: What searches, such as ``costhub``.
        lowering: How kernels are made.
    """
    form = f"{'-fast' if lowering.fast_math else ''}{f'-{BLOCKED}' if lowering.layout == BLOCKED else ''}"
    return searches / f"{network}-{method}{form}{f'-{BF16}' if lowering.is_bf16 else ''}"


def compile_tuned(
    program: Path, database: Path, library: Path, *, threads: int, lowering: Lowering, part: str | None = None
) -> CompiledNetwork:
    """Compiles a network with the schedules of a database, in a child process.

    Args:
        program: As for `search_network`.
        database: The folder of the search.
        library: The file to write.
        threads: As for `search_network`.
        lowering: As in the search.
        part: What is left out, as for `causes.without`.

    Raises:
        NetworkError: torch or TVM fails.
    """
    how: dict[str, Any] = {"threads": threads, "lowering": lowering, "part": part}
    return _in_child(partial(compile_here, program, database, library, **how), program)


def _in_child(work: Callable[[], Result], program: Path) -> Result:
    """What a function returns in a process of its own."""
    with Child(limits=Limits.for_network(timeout_s=_COMPILE_TIMEOUT_S), is_shared=False) as child:
        try:
            return child.call(work, timeout_s=_COMPILE_TIMEOUT_S)
        except (NetworkError, ChildDied, ChildTimeout) as error:
            raise NetworkError(f"TVM cannot compile {program.stem} as a whole: {str(error).rstrip('.')}.") from error


def compile_here(
    program: Path, database: Path, library: Path, *, threads: int, lowering: Lowering, part: str | None = None
) -> CompiledNetwork:
    """What `compile_tuned` does in its child process."""
    import tvm

    from costhub.dataset.intrinsics import load_intrinsics
    from costhub.search.whole_network.compile import compile_network

    try:
        target = tvm.target.Target(local_target(threads=threads))
        load_intrinsics(str(target.kind.name))
        text = json.dumps(local_target(threads=threads))
        with without(part):
            source = read_network(str(program), lanes=lowering.lanes(text), bf16_unit=lowering.bf16_unit(text))
            return compile_network(
                source, target, database, library, fast_math=lowering.fast_math, prefetch=part != FETCHING
            )
    except Exception as error:
        raise NetworkError(class_and_line(error)) from error


def count_flops(program: Path, *, threads: int, lowering: Lowering) -> dict[str, float]:
    """Kernel of a network -> the floating-point operations of one call as TVM counts them, in a child process.

    It imports torch and TVM, reads the network and finds its kernels, as a search does before its first trial. Kernels
    whose sizes are not known are left out. TVM counts all that a kernel computes, also sums that are left out and
    products with zeros; `kinds.flop_of` does not.

    Args:
        program: As for `search_network`.
        threads: As for `search_network`.
        lowering: As in the search, so that kernels have the same names.

    Raises:
        NetworkError: torch or TVM fails.
    """
    return _in_child(partial(count_flops_here, program, threads=threads, lowering=lowering), program)


def count_flops_here(program: Path, *, threads: int, lowering: Lowering) -> dict[str, float]:
    """What `count_flops` does in its child process."""
    import tvm
    from tvm import relax

    from costhub.collector.workloads.relax_import import fuse
    from costhub.dataset.workload import count_flop

    found: dict[str, float] = {}
    try:
        text = json.dumps(local_target(threads=threads))
        unit = lowering.bf16_unit(text)
        source = read_network(str(program), device="meta", lanes=lowering.lanes(text), bf16_unit=unit)
        fused = fuse(source.mod, tvm.target.Target(json.loads(text)), fast_math=lowering.fast_math)
        for name, function in fused.functions.items():
            if not isinstance(function, relax.Function):
                with suppress(Exception):  # TVM counts loops of known length only, and raises several kinds of errors
                    found[name.name_hint] = count_flop(tvm.IRModule({"main": function}))
    except Exception as error:
        raise NetworkError(class_and_line(error)) from error
    return found


def say(step: str) -> None:
    """A step of a run that takes hours, with the time of day."""
    click.echo(f"{time.strftime('%H:%M:%S')} {step}", err=True)


def check_threads(_: click.Context, __: click.Parameter, threads: int) -> int:
    """Costhub's devices have one core or all of them."""
    if threads not in (1, core_count()):
        raise click.BadParameter(f"costhub tunes for 1 thread or for all cores, which are {core_count()} here.")
    return threads
