"""Provides named_jobs and network_jobs: the tuning jobs for the names on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from costhub.errors import WorkloadError

if TYPE_CHECKING:
    from costhub.transfer.tune import Job


def exported_among(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separates names of workloads from exported networks (.pt2), which do not need `--network`.

    Example:
        >>> exported_among(["softmax", "mine.pt2"])
        (['softmax'], ['mine.pt2'])
    """
    files = [name for name in names if name.endswith(".pt2")]
    return [name for name in names if name not in files], files


def named_jobs(text: str) -> list[Job]:
    """The workloads that `text` names: a single one, all of a suite, or the one in a file.

    Raises:
        WorkloadError: The file is missing or does not hold a TVM module.
        UnknownNameError: No workload has that name.
    """
    from costhub.collector.suite import find_suites
    from costhub.dataset.workload import module_from_json
    from costhub.transfer.tune import Job

    path = Path(text)
    if path.suffix != ".json":
        return [Job(workload.name, workload.module()) for workload in find_suites([text])]
    if not path.is_file():
        raise WorkloadError(
            f"The file {path} does not exist. Write it with tvm.ir.save_json(module), or name a workload."
        )
    try:
        return [Job(path.stem, module_from_json(path.read_text()))]
    except UnicodeDecodeError as error:
        raise WorkloadError(
            f"{path} is not a text file. A workload file holds a TVM module as JSON."
        ) from error


def network_jobs(networks: Sequence[str], target: str, *, fast_math: bool = False) -> list[Job]:
    """The kernels of networks, weighted by how often they are called; reports them on stderr.

    Args:
        networks: What `costhub.collector.network.network_workloads` takes.
        target: The TVM target, as JSON.
        fast_math: Whether to replace exp, tanh and erf by polynomials.

    Raises:
        WorkloadError: A network has no kernel that TVM can tune.
        UnknownNameError: No network has that name.
    """
    from costhub.cli.measuring import tell_network
    from costhub.collector.network import network_workloads
    from costhub.transfer.tune import Job

    if not networks:
        return []
    found = network_workloads(networks, target=target, fast_math=fast_math, on_network=tell_network)
    return [Job(each.name, each.module(), sum(count for _, count in each.networks)) for each in found]
