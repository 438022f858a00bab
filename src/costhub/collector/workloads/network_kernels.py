"""Provides network_workloads: the kernels of whole networks, as workloads to measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from costhub.collector.workloads.kernel_extraction import ExtractedKernel, KernelBounds, NetworkKernels, extract_kernels
from costhub.collector.workloads.network_source import AS_IN_TORCH, RELAX, TORCH, Lowering
from costhub.collector.workloads.zoo.networks import NETWORKS, find_network
from costhub.dataset.workload import module_from_json
from costhub.errors import WorkloadError
from costhub.isolation.child import Child, ChildDied, ChildTimeout
from costhub.isolation.limits import Limits

# Networks of the zoo take seconds each; a file may hold a network of any size.
_TIMEOUT_S = 900.0
COMPILE_TIMEOUT_S = 3600.0
"""For compiling a network as a whole, in a process with the same limits: the one that found its kernels, if it still
waits, has imported torch and TVM."""
_IDLE_S = 300.0
"""How long it waits: a short search takes minutes, and after a long one seconds do not matter."""

LEAST_FLOP, LEAST_BYTES = 2e5, 1e6
"""Kernels with less work and smaller arguments are not measured: they hardly affect the network's time."""


@dataclass(frozen=True)
class TextWorkload:
    """A workload that can be sent to another process, or to another machine."""

    name: str
    """Its readable name; of a kernel, operators, shapes of data and weights, and the start of its id."""
    family: str
    """One of `costhub.dataset.operator_class.FAMILIES`."""
    networks: tuple[tuple[str, float], ...]
    """Networks that it occurs in, by name, and how often in each."""
    module_json: str
    """The module, as TVM JSON."""

    def module(self) -> Any:
        """The workload as a ``tvm.IRModule`` with one function ``main``."""
        return module_from_json(self.module_json)


@dataclass(frozen=True)
class NetworkWorkload(TextWorkload):
    """One kernel of one or more networks."""

    flop: float
    """Floating-point operations of one run."""
    argument_bytes: float
    """Bytes of its inputs and output."""


@dataclass(frozen=True)
class NetworkReport:
    """The result of extraction for one network."""

    network: str
    """The network's name in the workloads table."""
    functions: int
    """Number of kernel calls in it, including data movements."""
    tasks: int
    """Distinct kernels."""
    kept: int
    """The distinct kernels worth measuring."""
    left_out: dict[str, int]
    """Why the others were left out, and how many for each reason."""
    seconds: float
    """Seconds that extraction took."""
    open_sizes: Mapping[str, int] = field(default_factory=dict)
    """Places where the file leaves a size open (``axis 0 of x``) -> the size of the example input, which is used."""
    reading_s: float = 0.0
    """Seconds of these until torch had exported the network and TVM imported it."""


def network_workloads(
    names: Sequence[str],
    *,
    target: str,
    least_flop: float = LEAST_FLOP,
    least_bytes: float = LEAST_BYTES,
    most_bytes: float = 2.0**26,
    lowering: Lowering = AS_IN_TORCH,
    on_network: Callable[[NetworkReport], None] | None = None,
    reader: Child | None = None,
) -> tuple[NetworkWorkload, ...]:
    """Extracts the distinct kernels that TVM generates for networks, the heaviest first.

    Networks go through torch.export and TVM's importer, are legalised and fused; the kernels are the ones that
    ``meta_schedule.relax_integration.extract_tasks`` finds. The same kernel of two networks is one workload.

    Args:
        names: Networks of the zoo (``resnet50``), ``all`` for every one, or paths of ``.pt2`` files, as
            ``torch.export.save`` writes them, or ``.json`` files, as ``tvm.ir.save_json`` writes a relax
            module. A ``.pt2`` that contains code is rejected (`exported_file.load_exported`); even so, torch
            was not designed to read files from people you do not trust.
        target: The TVM target, as JSON.
        least_flop: Kernels with less arithmetic are left out, unless
        least_bytes: their arguments have at least this many bytes. Kernels that compute nothing are always left out.
        most_bytes: Kernels with larger arguments are left out: creating their inputs takes longer than running them.
        lowering: How operators become kernels: fast math and other layouts produce different workloads.
        on_network: Called with the report of each network.
        reader: A process of `network_reader`, which stays open; by default a new one.

    Raises:
        UnknownNameError: No network has such a name.
        WorkloadError: A file holds no exported network, or one that torch or TVM does not support.
        MeasureError: The child process that imports torch does not start.
    """
    chosen = name_networks(names)
    tasks: dict[str, tuple[ExtractedKernel, dict[str, float]]] = {}
    bounds = KernelBounds(least_flop, least_bytes, most_bytes)
    with network_reader(names) if reader is None else nullcontext(reader) as child:
        for label, network in chosen.items():
            start = time.monotonic()
            found = _extracted(child, label, network, target, bounds, lowering)
            for task in found.tasks:
                _, weights = tasks.setdefault(task.workload_id, (task, {}))
                weights[label] = task.weight
            if on_network is not None:
                on_network(_report(label, found, time.monotonic() - start))
    ordered = sorted(tasks.values(), key=lambda item: (-item[0].flop * sum(item[1].values()), item[0].name))
    return tuple(
        NetworkWorkload(
            task.name, task.family, tuple(sorted(weights.items())), task.module_json, task.flop, task.argument_bytes
        )
        for task, weights in ordered
    )


def network_reader(names: Sequence[str]) -> Child:
    """A process that reads networks; launched early, it imports torch and TVM while this process does other things.

    Args:
        names: As for `network_workloads`.
    """
    limits = Limits.for_network(timeout_s=COMPILE_TIMEOUT_S)
    exports = any(Path(name).suffix != RELAX for name in names)
    return Child(prepare=partial(_load_importers, exports), limits=limits, idle_s=_IDLE_S)


def _load_importers(exports: bool) -> None:
    """Imports what reading a network takes, and what torch itself imports only when it exports the first one."""
    import costhub.collector.workloads.relax_import  # noqa: F401

    if exports:
        import torch._dynamo  # noqa: F401


def name_networks(names: Sequence[str]) -> dict[str, str]:
    """Maps names in the workloads table to zoo names or paths, for all networks in `names`.

    Raises:
        UnknownNameError: No network has such a name.
        WorkloadError: There is no such file, or two networks share a name.
    """
    chosen: dict[str, str] = {}
    for label, network in (pair for name in names for pair in _named(name)):
        if (other := chosen.setdefault(label, network)) != network:
            file = other if network in NETWORKS else network
            raise WorkloadError(f"Two networks are called {label}; rename the file {file}.")
    return chosen


def _named(name: str) -> list[tuple[str, str]]:
    if name == "all":
        return [(network.label, network.name) for network in NETWORKS.values()]
    path = Path(name)
    if path.suffix not in (TORCH, RELAX):
        return [(find_network(name).label, name)]
    if not path.is_file():
        raise WorkloadError(f"There is no file {name}; give one that torch.export.save or tvm.ir.save_json wrote.")
    return [(path.stem, str(path.resolve()))]


_UNKNOWN = "Unsupported function types"
"""How TVM's importer begins its list of operators."""


def _extracted(child: Child, label: str, *args: Any) -> NetworkKernels:
    try:
        return child.call(extract_kernels, *args, timeout_s=_TIMEOUT_S)
    except (WorkloadError, ChildDied, ChildTimeout) as error:
        reason = str(error).rstrip(".")
    if _UNKNOWN in reason:
        names = reason.partition(_UNKNOWN)[2].partition("]")[0].strip(" [").replace("'", "")
        raise WorkloadError(
            f"TVM's importer does not know these operators of the network {label}: {names}. Replace them before the "
            "export: amax(1), for example, by max(1).values. docs/troubleshooting.md has more."
        )
    raise WorkloadError(
        f"The network {label} cannot be turned into workloads ({reason}). It must be one that "
        "torch.export exports and TVM imports (tvm.relax.frontend.torch.from_exported_program), or a relax "
        "module with a function named main."
    )


def _report(label: str, found: NetworkKernels, seconds: float) -> NetworkReport:
    kept = len(found.tasks)
    tasks = kept + sum(found.left_out.values())
    return NetworkReport(
        label, found.functions, tasks, kept, found.left_out, seconds, found.open_sizes, found.reading_s
    )
