"""Provides load_programs: the programs of devices with their features, as arrays to learn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from costhub.dataset.program_source import open_sources
from costhub.dataset.programs import Programs


def load_programs(
    path: str | Path,
    *,
    device: str | Sequence[str] | None = None,
    workloads: set[str] | None = None,
    spec: str = "per_store@1",
    failures: bool = False,
    progress: bool = True,
) -> Programs:
    """Reads the programs that ran on some devices; features that are missing are computed and cached.

    Args:
        path: A data folder.
        device: The device, or several; may be left out if the folder has only one.
        workloads: Ids of the workloads to keep; all by default.
        spec: Name of the feature spec; for a composite one, a program has features only if it has those of
            every part.
        failures: Add the programs that failed, whatever their status, with infinite latency.
        progress: Show a progress bar on a terminal while features are computed.

    Returns:
        The programs whose status is `ok` and that have features: device by device, within a device by
        workload, and within a workload in the order of the measurements.

    Raises:
        DataError: The folder cannot be read, lacks the device, or has several devices and none is named.
        UnknownNameError: There is no such feature spec.
    """
    sources = open_sources(path, device, workloads, spec, failures=failures)
    return Programs.join([source.load(source.measured, progress=progress) for source in sources])


def iter_programs(
    path: str | Path,
    *,
    device: str | Sequence[str] | None = None,
    workloads: set[str] | None = None,
    spec: str = "per_store@1",
    failures: bool = False,
    batch_programs: int = 65_536,
    progress: bool = True,
) -> Iterator[Programs]:
    """Reads what `load_programs` reads, some workloads at a time, with only one batch in memory.

    Args:
        path: As for `load_programs`, like the other arguments.
        device: The device, or several; a batch is of one device.
        workloads: Ids of the workloads to keep.
        spec: Name of the feature spec.
        failures: Add the programs that failed.
        batch_programs: A batch ends with the workload that brings it to this many programs; a workload is
            never split, since its programs are compared with one another.
        progress: Show a progress bar on a terminal while features are computed.

    Yields:
        The programs of one or more workloads; all batches joined are what `load_programs` returns.

    Raises:
        DataError: As `load_programs`.
        UnknownNameError: As `load_programs`.
    """
    for source in open_sources(path, device, workloads, spec, failures=failures):
        measured, _ = source.complete(source.measured, progress=progress)
        for part in measured.cut(batch_programs):
            yield source.load(part, progress=progress)
