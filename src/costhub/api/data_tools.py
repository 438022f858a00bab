"""Provides the data commands as Python functions: stats, make_splits, imports, export_metaschedule."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from costhub.errors import ArgumentError, DataError, DeviceError, UnknownNameError
from costhub.terminal_text import Printed
from costhub.versions import load_pandas

if TYPE_CHECKING:
    from costhub.dataset.folder import DataFolder
    from costhub.dataset.load import Names
    from costhub.dataset.metaschedule.export import ExportReport
    from costhub.dataset.metaschedule.lines import ImportReport
    from costhub.dataset.splits.split import Split
    from costhub.dataset.stats.folder_stats import FolderStats
    from costhub.hub.data import DataAddress


@dataclass(frozen=True, repr=False)
class DataSummary(Printed):
    """A summary of data; `print` shows it as `costhub stats` does."""

    counts: FolderStats
    """Devices, operators, networks, failures, latencies, noise."""
    source: str | None = None
    """The dataset and its revision, in the form to cite; None for a folder."""

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per workload and device: counts, best and median latency."""
        return load_pandas().DataFrame([asdict(each) for each in self.counts.workloads])

    def __str__(self) -> str:
        from costhub.cards.reports.stats import stats_text

        return "\n".join(filter(None, (self.source, stats_text(self.counts))))


def stats(where: str | Path) -> DataSummary:
    """Counts what the data contain: devices, operators, networks, failures, latencies, noise.

    Args:
        where: As for `costhub.load_measurements`; for a device, only what was measured on it.

    Raises:
        CosthubError: The data do not exist, or they cannot be read.

    Example:
        >>> stats("nvidia-h200").counts.measurements > 1000
        True
    """
    from costhub.dataset.stats.folder_stats import folder_stats
    from costhub.hub.data import locate_data

    with locate_data(where) as place:
        own = None if place.device_id is None else [place.device_id]
        counts = folder_stats(place.path, filesystem=place.filesystem, device_ids=own)
        return DataSummary(counts, cited_source(place))


def cited_source(place: DataAddress) -> str | None:
    """The name and revision of a dataset, as given on its card; None for a folder.

    Args:
        place: Where the data are.

    Example:
        >>> from costhub.hub.data import find_data
        >>> cited_source(find_data("nvidia-h200")).split(", ")[0]
        'costhub/nvidia-h200'
    """
    from costhub.dataset.shards.shard import check_shard
    from costhub.hub.dataset_documents import tables_revision

    if place.filesystem is not None:
        name, _, commit = place.path.removeprefix("datasets/").partition("@")
        return f"{name}, revision {commit[:12]}"
    if place.dataset is None:
        return None
    versions = {check_shard(path).version for path in (place.folder / "measurements").rglob("*.parquet")}
    schema = f", schema version {max(versions)}" if versions else ""
    return f"{place.dataset}, data revision {tables_revision(place.folder)}{schema}"


SplitKind = Literal["workload", "fold", "network", "operator", "device"]
DEFAULT_FOLDS = 5


def make_splits(
    where: str | Path,
    by: SplitKind,
    *,
    hold_out: Sequence[str] = (),
    tenset: bool = False,
    count: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
) -> list[Split]:
    """Divides the workloads of the data into those to train on and those to test on, and writes the splits to files.

    Equal workloads and arguments always give equal splits.

    Args:
        where: As for `costhub.load_programs`.
        by: What to hold out. `workload` and `fold` draw workloads from every operator family.
        hold_out: Networks, operator families or devices to test on; without it, one split for each.
        tenset: By network: hold out TenSet's five test networks.
        count: By workload: how many to test on, by default a fifth, and at least one of each operator family that has
            several. By fold: how many folds, 5 by default. By device: also hold out this many workloads, and test on
            them only.
        seed: Chooses the workloads.
        out: Folder for the files; by default ``splits`` in the data folder. Required for a dataset of a hub, which is
            never changed.

    Returns:
        The splits; `costhub.load_split` reads them by name.

    Raises:
        ArgumentError: An argument does not go with `by`, or the data belong to a hub and `out` is missing.
        CosthubError: The data, or one of the networks, families or devices, do not exist.

    Example:
        >>> import tempfile
        >>> (split,) = make_splits("nvidia-h200", "operator", hold_out=["softmax"], out=tempfile.mkdtemp())
        >>> split.name
        'operator-softmax'
    """
    from costhub.dataset.folder import DataFolder
    from costhub.dataset.splits.split import put_split
    from costhub.hub.data import find_data

    check_split_options(by, hold_out, tenset, count)
    place = find_data(where)
    if out is None and place.dataset is not None:
        raise ArgumentError(f"{place.dataset} belongs to a hub and is not changed; name a folder with --out (out=...).")
    splits = _draw_splits(DataFolder.open(place.folder), by, hold_out, tenset=tenset, count=count, seed=seed)
    for split in splits:
        put_split(place.folder, split, into=None if out is None else Path(out))
    return splits


def check_split_options(by: str, hold_out: Sequence[str], tenset: bool, count: int | None) -> None:
    """Refuses options that have no effect.

    Raises:
        ArgumentError: One does not go with `by`.
    """
    if tenset and (by != "network" or hold_out):
        raise ArgumentError("--tenset goes with --by network, and without --hold-out.")
    if hold_out and by not in ("network", "operator", "device"):
        raise ArgumentError("--hold-out goes with --by network, operator or device.")
    if count is not None and by not in ("workload", "fold", "device"):
        raise ArgumentError("--count goes with --by workload, fold or device.")


def _draw_splits(
    folder: DataFolder, by: str, hold_out: Sequence[str], *, tenset: bool, count: int | None, seed: int
) -> list[Split]:
    """The splits of `make_splits`, without writing them.

    Raises:
        CosthubError: As for `make_splits`.
    """
    from costhub.dataset.splits import split_rules as rules
    from costhub.models.train import hold_out as hold_out_a_fifth

    rows = folder.workloads().select(["workload_id", "operator", "networks"]).to_pylist()
    if by == "fold":
        return rules.split_into_folds(rows, count=count or DEFAULT_FOLDS, seed=seed)
    drawn = rules.split_by_workload(rows, held_out=count, seed=seed) if count is not None else None
    if by == "workload":
        split = drawn or hold_out_a_fifth(rows, seed=seed)
        if not split.test:
            raise DataError(
                f"No operator family in {folder.path} has two workloads, so none can be held out. Use --by fold or "
                "--by operator instead (by= in Python)."
            )
        return [split]
    if by == "device":
        ids, devices = [row["workload_id"] for row in rows], folder.device_ids()
        chosen = [hold_out] if hold_out else [[device] for device in devices]
        return [rules.split_by_device(ids, devices, held, workloads=drawn) for held in chosen]
    if tenset:
        return [rules.split_as_tenset(rows)]
    if hold_out:
        by_name = rules.split_by_network if by == "network" else rules.split_by_operator
        return [by_name(rows, hold_out)]
    splits = rules.leave_one_out(rows, by)
    if not splits:
        raise DataError(
            f"{folder.path} has no {by} that can be held out"
            + (": its workloads do not say which networks they come from." if by == "network" else ".")
        )
    return splits


def import_metaschedule(
    folder: str | Path,
    out: str | Path,
    *,
    device: str | Mapping[str, Any],
    names: Sequence[Any] | None = None,
    contributor: str | None = None,
    licence: str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> ImportReport:
    """Adds the measurements of a MetaSchedule database of TVM 0.10 to 0.27 to a data folder.

    Args:
        folder: Holds ``database_workload.json`` and ``database_tuning_record.json``, optionally gzipped.
        out: The data folder, created if it is missing; existing rows are kept.
        device: What was measured: a device id, or a row of the devices table.
        names: One per line of ``database_workload.json``: a name, an object with ``name`` and ``networks``, or None.
        contributor: Who measured it.
        licence: SPDX name of its licence.
        workers: Child processes; one per core by default.
        progress: Show a progress bar on a terminal.

    Returns:
        What was imported, and what was left out and why.

    Raises:
        DataError: The folder holds no such database, or nothing in it could be imported.
        DeviceError: The device is an alias, or `auto`.
    """
    from costhub.dataset.credit import check_rights
    from costhub.dataset.metaschedule.import_database import import_database

    check_rights(contributor, licence)
    report = import_database(
        folder,
        out,
        device=_device_row(device) if isinstance(device, str) else device,
        names=names,
        contributor=contributor,
        licence=licence,
        workers=workers,
        progress=progress,
    )
    if report.refused and not report.kept:
        raise DataError(f"Nothing could be imported from {folder}. {' '.join(report.sentences()[1:-1])}")
    return report


def import_ansor(
    path: str | Path,
    out: str | Path,
    *,
    device: str | Mapping[str, Any],
    target: str | None = None,
    contributor: str | None = None,
    licence: str | None = None,
    tvm_version: str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> ImportReport:
    """Adds the measurements in logs of Ansor, TVM's auto_scheduler, to a data folder.

    Workloads are rebuilt from the keys that name them, and tiled GPU programs become MetaSchedule schedules. The rows
    are transplanted: TVM 0.27 makes the same program, but the latency is that of an older code generator.

    Args:
        path: A log, or a folder of logs, optionally compressed with gzip or xz.
        out: The data folder, created if it is missing; existing rows are kept.
        device: What was measured: a device id, or a row of the devices table.
        target: The device's target in TVM 0.27, as JSON or by name; by default the one in the device index.
        contributor: Who measured it.
        licence: SPDX name of the licence of the logs.
        tvm_version: The TVM that compiled the programs.
        workers: Child processes; one per core by default.
        progress: Show a progress bar on a terminal.

    Returns:
        What was imported, and what was left out and why.

    Raises:
        DataError: There is no log, the device has no target, or nothing could be imported.
        DeviceError: The device is an alias, or `auto`.
    """
    from costhub.dataset.ansor.import_log import LogSource
    from costhub.dataset.ansor.import_log import import_ansor as import_log
    from costhub.dataset.credit import check_rights

    check_rights(contributor, licence)
    row = dict(_device_row(device) if isinstance(device, str) else device)
    source = LogSource({**row, "target": target or row.get("target")}, contributor, licence, tvm_version)
    report = import_log(path, out, source=source, workers=workers, progress=progress)
    if report.refused and not report.kept:
        raise DataError(f"Nothing could be imported from {path}. {' '.join(report.sentences()[1:-1])}")
    return report


def import_source(
    name: str,
    out: str | Path,
    *,
    catalogue: str | Path | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> dict[str, ImportReport]:
    """Fetches measurements that others have published and adds them to a data folder.

    The rows carry the source's device, contributor and licence. The fetched files stay in the cache
    (``$COSTHUB_CACHE/sources``), with the licence of its repository.

    Args:
        name: A source of the catalogue, or a pattern such as ``bennu/a64fx-*``.
        out: The data folder, created if it is missing; existing rows are kept.
        catalogue: A YAML file to use instead of costhub's own catalogue, in the same format.
        workers: Child processes; one per core by default.
        progress: Show progress bars on a terminal.

    Returns:
        Name of each source -> what was imported, and what was left out and why.

    Raises:
        CosthubError: There is no such source, it cannot be fetched, or nothing in it could be imported.
    """
    from costhub.hub.sources.bring import bring_source
    from costhub.hub.sources.catalogue import SOURCES_FILE, find_sources, load_sources

    reports = {}
    for source in find_sources(name, load_sources(catalogue or SOURCES_FILE)):
        folder = bring_source(source)
        if source.format == "ansor":
            reports[source.name] = import_ansor(
                folder,
                out,
                device=source.device,
                target=source.target or None,
                contributor=source.contributor,
                licence=source.licence,
                tvm_version=source.tvm or None,
                workers=workers,
                progress=progress,
            )
            continue
        reports[source.name] = import_metaschedule(
            folder,
            out,
            device=source.device,
            contributor=source.contributor,
            licence=source.licence,
            workers=workers,
            progress=progress,
        )
    return reports


def _device_row(device_id: str) -> dict[str, Any]:
    """The device's row in the index; just its name if it is not in the index.

    Raises:
        DeviceError: It is an alias, or `auto`: rows keep the id of what was measured, which may be another machine.
    """
    from costhub.hub.catalogue.devices import find_device
    from costhub.hub.catalogue.names import resolve_device

    known = find_device(device_id)
    if known is None:
        if device_id == "auto":
            raise DeviceError("The records do not say where they were measured: name that device instead of auto.")
        with contextlib.suppress(UnknownNameError):
            raise DeviceError(f"{device_id!r} is an alias of {resolve_device(device_id).device_id}: give that id.")
        return {"device_id": device_id}
    # `probed_at` is the time of a probe, not of these records; in the index it is text.
    return {name: value for name, value in known.row().items() if name != "probed_at"}


def export_metaschedule(
    where: str | Path,
    out: str | Path,
    *,
    device: str | None = None,
    workload: Names | None = None,
    operator: Names | None = None,
    best: int | None = None,
    failures: bool = True,
    workers: int | None = None,
    progress: bool = True,
) -> ExportReport:
    """Writes measurements as a database that stock TVM reads (``ms.database.JSONDatabase(work_dir=out)``).

    Args:
        where: As for `costhub.load_programs`.
        out: The folder to write; must be new.
        device: The device; by default the one that `where` names, or the only one.
        workload: Ids or names of the workloads to write; all by default.
        operator: Operator families to write; all by default.
        best: Write only this many of the fastest records of each workload.
        failures: Write failed measurements too, as 1e10 seconds.
        workers: Child processes that replay the programs; one per core by default.
        progress: Show a progress bar on a terminal.

    Returns:
        What was written, and what was left out and why.

    Raises:
        CosthubError: The data do not exist, `out` is not empty, or no measurement matches.
    """
    from costhub.dataset.metaschedule.export import export_database
    from costhub.hub.data import find_data

    place = find_data(where)
    return export_database(
        place.folder,
        out,
        device=device or place.device_id,
        workload=workload,
        operator=operator,
        best=best,
        failures=failures,
        workers=workers,
        progress=progress,
    )
