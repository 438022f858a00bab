"""Provides collect_on_cluster: a collection whose workers are those of a Dask cluster."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from costhub.api.cluster.part import (
    Part,
    PartResult,
    WorkerFacts,
    listed,
    measure_part,
    measuring_versions,
    split_parts,
    worker_facts,
)
from costhub.api.collect import NO_FLUSH, Collection, CollectOptions, RepeatNoise, check_measured, progress_text
from costhub.api.measuring import check_limits, options_given, put_device
from costhub.api.network_jobs import check_lowering
from costhub.api.subjects import read_subjects
from costhub.collector.boards.tracker import address_of
from costhub.collector.collect import CollectionProgress, Profile
from costhub.collector.workload_queue import WorkloadSpec, put_workloads
from costhub.collector.workloads.network_kernels import TextWorkload
from costhub.dataset.folder import DataFolder, among
from costhub.dataset.shards.layout import empty_table
from costhub.dataset.shards.writer import MeasurementWriter
from costhub.dataset.workload import module_to_json
from costhub.errors import ArgumentError, CosthubError, DeviceError, MeasureError, class_and_line
from costhub.progress import BarWithLines

if TYPE_CHECKING:
    from distributed import Client, Future

MEASURER = "measurer"
"""The resource of the workers that measure: one on each machine, or programs would disturb each other."""
WORKER = f"dask worker ADDRESS --nworkers 1 --nthreads 1 --resources {MEASURER}=1"
"""How such a worker is started."""
PART_PROGRAMS = 64
"""About as many programs are measured by a worker at a time: a minute, which is lost if the worker dies."""
CONNECT_S = 20.0


def collect_on_cluster(
    what: Any,
    out: str | Path,
    scheduler: str,
    *,
    trials: int = 160,
    budget_s: float = 1800.0,
    device: str = "auto",
    options: CollectOptions | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Collection:
    """Like `costhub.collect`, on the machines of a Dask cluster, which must be of one kind.

    Each worker with the resource ``measurer`` builds and measures some workloads at a time and sends their rows, which
    are safe on disk here before the next ones arrive. What a worker that dies was measuring goes to another one; after
    an interruption here, the same call resumes. Connections of Dask are neither encrypted nor checked by default.

    Args:
        what: As for `costhub.collect`, like all that is not listed here.
        out: See there.
        scheduler: The address of the cluster's scheduler, such as ``tcp://10.0.0.1:8786``.
        trials: See there.
        budget_s: See there; by the clocks of the workers.
        device: `auto` for the whole CPU of each machine, or the name of a part of it, or `cuda`.
        options: See there; without a rule to stop, and a model by its name.
        seed: See there.
        progress: See there.

    Returns:
        What was measured.

    Raises:
        MeasureError: The scheduler does not answer, or no worker measures.
        DeviceError: The workers' machines are different devices.
        CosthubError: As for `costhub.collect`; an ArgumentError also for an address without a port.

    Example:
        >>> print(collect_on_cluster("resnet18", "measurements", "tcp://10.0.0.1:8786"))  # doctest: +SKIP
        1,920 good measurements and 0 failures of amd-epyc-zen5-2c added to measurements.
    """
    options = options_given(options, CollectOptions)
    check_limits(trials, budget_s=budget_s)
    options.check()
    _check_address(scheduler)
    if options.stop != "never" or not isinstance(options.model, str | None):
        raise ArgumentError("On a cluster, a collection has no rule to stop, and its model is given by name.")
    DataFolder.check_place(out)
    with ExitStack() as held:
        subjects = read_subjects(what, Path(held.enter_context(tempfile.TemporaryDirectory(prefix="costhub-collect-"))))
        subjects.check()
        check_lowering(subjects.networks, options.lowering)
        facts = _able(_agreed(client := held.enter_context(_connected(scheduler)), device), options)
        workloads = subjects.specs(facts.target, options.lowering)
        # Two collections into one folder would measure the same.
        with (folder := DataFolder.create(out)).writer(facts.device_id) as writer:
            queue = _Queue(folder, writer, facts.device_id, workloads)
            nothing = queue.held.slice(0, 0)
            parts = queue.parts(Part((), nothing, trials, time.time() + budget_s, device, options, seed, facts))
            return _received(client, queue, parts, trials, progress=progress)


def _check_address(scheduler: str) -> None:
    """Raises ArgumentError for an address without a port, with which Dask waits and then leaves a traceback."""
    scheme, _, place = scheduler.rpartition("://")
    if scheme in ("", "tcp", "tls"):
        try:
            address_of(place)
        except ArgumentError as error:
            raise ArgumentError(
                f"{scheduler!r} is not the address of a Dask scheduler; write HOST:PORT, for example "
                "tcp://10.0.0.1:8786."
            ) from error


@contextmanager
def _connected(address: str) -> Iterator[Client]:
    """A client of the cluster.

    Raises:
        ArgumentError: Dask is not installed.
        MeasureError: No scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ArgumentError("A Dask cluster needs Dask: pip install 'costhub[dask]'.") from error
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:  # the last two for connections by TLS
        raise MeasureError(
            f"No Dask scheduler answers at {address} ({class_and_line(error)}). `dask scheduler` starts one."
        ) from error
    try:
        yield client
    finally:
        client.close(timeout=CONNECT_S)  # This cancels its tasks.


def _agreed(client: Client, device: str) -> WorkerFacts:
    """What all workers are.

    Raises:
        MeasureError: No worker measures.
        DeviceError: They are different devices or have different targets, or other versions than this machine.
    """
    workers = client.scheduler_info(n_workers=-1)["workers"]
    measuring = [address for address, worker in workers.items() if worker["resources"].get(MEASURER)]
    if not measuring:
        raise MeasureError(
            f"None of the {len(workers)} workers of the cluster measures. Start one on each machine: `{WORKER}`."
        )
    asked = [client.submit(worker_facts, device, workers=[address], pure=False) for address in measuring]
    try:
        facts: list[WorkerFacts] = client.gather(asked)
    except CosthubError:
        raise
    except Exception as error:  # whatever importing costhub on the worker raises
        raise MeasureError(
            f"A worker cannot say what it is ({class_and_line(error)}). Install costhub there, in the same version."
        ) from error
    names = Counter(each.device_id for each in facts)
    if len(names) > 1:
        found = " and ".join(f"{count} of {name}" for name, count in names.items())
        raise DeviceError(f"The workers must be machines of one kind; these are {found}. Collect from each kind alone.")
    for each in facts:
        if each.versions != measuring_versions():
            raise DeviceError(
                f"A worker has {listed(each.versions)}, and this machine has {listed(measuring_versions())}: "
                "install the same versions everywhere."
            )
    if len({json.dumps(each.target, sort_keys=True) for each in facts}) > 1:
        raise DeviceError(
            f"The workers, all {facts[0].device_id}, have different TVM targets, so their kernels would differ: give "
            "all of them the same CPU features and the same number of CPUs, or collect from each kind alone."
        )
    return facts[0]


def _able(facts: WorkerFacts, options: CollectOptions) -> WorkerFacts:
    """The workers, unless they cannot do what is asked."""
    if options.flush_caches and facts.target["kind"] != "llvm":
        raise ArgumentError(NO_FLUSH)
    return facts


class _Queue:
    """The workloads of a collection, and what the folder holds of them.

    Args:
        folder: Where the rows go.
        writer: Writes them.
        device_id: The device of the workers.
        workloads: What to measure; a kernel that two networks contain occurs twice.
    """

    def __init__(
        self, folder: DataFolder, writer: MeasurementWriter, device_id: str, workloads: Sequence[WorkloadSpec]
    ) -> None:
        self.folder, self.writer, self.device_id = folder, writer, device_id
        put = put_workloads(workloads, folder)
        self.held = folder.select_measurements([device_id], where=among("workload_id", sorted({key for key, _ in put})))
        self.counts = Counter(self.held["workload_id"].to_pylist())
        self.workloads: dict[str, TextWorkload] = {}
        for spec, (key, mod) in zip(workloads, put, strict=True):
            if key not in self.workloads:
                self.workloads[key] = TextWorkload(spec.name, spec.family, spec.networks, module_to_json(mod))

    def parts(self, like: Part) -> list[Part]:
        """What is missing, in parts.

        Args:
            like: What all parts have in common.
        """
        missing = {key: like.trials - self.counts[key] for key in self.workloads if self.counts[key] < like.trials}
        names, parts = list(missing), []
        for place, part in enumerate(split_parts(list(missing.values()), PART_PROGRAMS)):
            keys = [names[each] for each in part]
            known = self.held.filter(pc.is_in(self.held["workload_id"], value_set=pa.array(keys)))
            # Two parts with one seed would draw alike.
            sent = tuple(self.workloads[key] for key in keys)
            parts.append(replace(like, workloads=sent, known=known, seed=like.seed + place))
        return parts

    def before(self, trials: int) -> int:
        """Programs that the folder holds of these workloads; at most the trials of each."""
        return sum(min(self.counts[key], trials) for key in self.workloads)


def _received(client: Client, queue: _Queue, parts: Sequence[Part], trials: int, *, progress: bool) -> Collection:
    """Hands out the parts, and stores what comes back."""
    from distributed import as_completed

    is_cpu = all(part.agreed.target["kind"] == "llvm" for part in parts)
    done = CollectionProgress(Profile(0), queue.before(trials), is_complete=not parts)
    total, runs = trials * len(queue.workloads), []
    # Dask gives up a part after so many deaths of workers that it was assigned to (`allowed-failures`).
    futures = client.map(measure_part, parts, resources={MEASURER: 1}, pure=False)
    names = {
        future.key: tuple(each.name for each in part.workloads) for future, part in zip(futures, parts, strict=True)
    }
    with BarWithLines(total, desc="measuring", unit="program", lines=1, enabled=progress) as shown:
        shown.start_at(done.before, total)
        for future in as_completed(futures, loop=client.loop):
            result = _result(future, names[future.key])
            _store(queue, result, done)
            runs += [run_s for run_s in result.rows["run_s"].to_pylist() if run_s]
            for _ in range(result.rows.num_rows):
                shown.step()
            outcome = "given up" if result.problems else "done"
            state = f"{', '.join(names[future.key])}: {outcome}; {done.failed} failed in all"
            shown.show(state)
            shown.log(partial(progress_text, done, total, state))
            future.release()
    check_measured(done)
    noise = RepeatNoise.of(queue.device_id, runs, is_cpu=is_cpu)
    return Collection(queue.folder.path, (queue.device_id,), done, (noise,) if noise else ())


def _result(future: Future, names: Sequence[str]) -> PartResult:
    """What a part has brought; nothing, with the reason, if all workers died that tried it."""
    try:
        result: PartResult = future.result()
    except CancelledError as error:
        raise MeasureError(
            "The connection to the Dask scheduler was lost. What has arrived is kept, and the same call continues."
        ) from error
    except Exception as error:  # KilledWorker, and whatever else Dask raises for a task that is lost
        return PartResult((), empty_table("measurements"), dict.fromkeys(names, class_and_line(error)))
    return result


def _store(queue: _Queue, result: PartResult, done: CollectionProgress) -> None:
    """Writes the rows of a part into the folder, and counts them."""
    for row in result.devices:
        put_device(queue.folder, row)
    for row in result.rows.to_pylist():
        queue.writer.append(row)
    good = result.rows["status"].to_pylist().count("ok")
    done.done += result.rows.num_rows
    done.good += good
    done.failed += result.rows.num_rows - good
    done.problems.update(result.problems)
