"""Provides the device index, i.e. every device that costhub knows by name, and rows completed from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from numbers import Real
from pathlib import Path
from typing import Any

from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.lock import FolderLock
from costhub.errors import DataError, DeviceError, class_and_line
from costhub.files import cache_root, read_regular, refuse_newer, write_replacing
from costhub.hub.catalogue.hubs import hub_roots
from costhub.names import refuse_device_name

MAX_INDEX_BYTES = 16 << 20
"""Size limit of an index, which takes about two kB per device."""
MAX_DEVICE_BYTES = 1 << 20
"""Size limit of a file with one device."""
OF_A_FILE = "For a device that is not listed, run `costhub probe --json > chip.json` on it, and name that file."
"""What to do where a command takes the file of a device as well."""
INDEX_VERSION = 1
"""Version of the index file, incremented whenever current code could not read earlier files."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device: the columns of the `devices` table that describe it; None for an unknown fact."""

    device_id: str
    kind: str
    """cpu, cuda, ..."""
    aliases: tuple[str, ...] = ()
    vendor: str | None = None
    microarchitecture: str | None = None
    model_name: str | None = None
    cores: int | None = None
    """Cores of a CPU, multiprocessors of a GPU."""
    simd_bits: int | None = None
    l1d_bytes: int | None = None
    """Per core."""
    l2_bytes: int | None = None
    """Per core of a CPU, in total for a GPU."""
    l3_bytes: int | None = None
    """In total."""
    memory_bytes: int | None = None
    driver: str | None = None
    isa_features: tuple[str, ...] = ()
    target: str | None = None
    """The TVM target, as JSON."""
    peak_gflops: float | None = None
    """Measured with float32."""
    peak_gflops_float64: float | None = None
    peak_gflops_float16: float | None = None
    peak_gflops_bfloat16: float | None = None
    peak_gops_int8: float | None = None
    l1_gbs: float | None = None
    l2_gbs: float | None = None
    l3_gbs: float | None = None
    dram_gbs: float | None = None
    launch_overhead_us: float | None = None
    probe_method: str | None = None
    probed_at: str | None = None
    """ISO 8601, UTC."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Device:
        """Builds a device from a row of the `devices` table; unknown columns are dropped.

        Raises:
            DataError: The row has no device_id or kind, or a column is not what it says of a device.
        """
        for key in ("device_id", "kind"):
            if not isinstance(row.get(key), str) or not row[key]:
                raise DataError(f"A device needs a {key}, got {row.get(key)!r:.99} in {dict(row)!r:.300}.")
        refuse_device_name(row["device_id"])
        columns = {f.name: row[f.name] for f in fields(cls) if row.get(f.name) is not None}
        for key in ("aliases", "isa_features"):
            if not isinstance(columns.get(key, ()), list | tuple):
                raise DataError(f"{key} of the device {row['device_id']} is {columns[key]!r:.99}, not a list.")
            columns[key] = tuple(str(text) for text in columns.get(key, ()))
        for key in _NUMBERS & columns.keys():
            if isinstance(columns[key], bool) or not isinstance(columns[key], Real):
                raise DataError(f"{key} of the device {row['device_id']} is {columns[key]!r:.99}, not a number.")
            if not 0 <= columns[key] < _MOST_NUMBER or 0 < columns[key] < 1 / _MOST_NUMBER:
                raise DataError(
                    f"{key} of the device {row['device_id']} is {columns[key]!r:.99}; give a number from 0 up "
                    f"to {_MOST_NUMBER:g}, or leave it out."
                )
        for key in _TEXTS & columns.keys():
            if not isinstance(columns[key], str):
                raise DataError(f"{key} of the device {row['device_id']} is {columns[key]!r:.99}, not a text.")
        if "probed_at" in columns:
            # A row from a new probe contains a datetime; JSON needs text.
            columns["probed_at"] = str(getattr(columns["probed_at"], "isoformat", columns["probed_at"].__str__)())
        return cls(**columns)

    def row(self) -> dict[str, Any]:
        """The device as a row of the index file."""
        return {**asdict(self), "aliases": list(self.aliases), "isa_features": list(self.isa_features)}


_NUMBERS = {field.name for field in fields(Device) if str(field.type).startswith(("int", "float"))}
"""Columns that hold numbers."""
_TEXTS = {"vendor", "microarchitecture", "model_name", "driver", "probe_method"}
"""Columns that hold texts; `target` is checked where it is used."""
_MOST_NUMBER = 1e30
"""No figure of a device comes close; with larger ones, or with their inverses, figures computed from them overflow."""


def is_device_file(name: str) -> bool:
    """Whether the name of a device is that of a file with its row."""
    return name.endswith(".json")


def read_device(written: str | Path) -> Device:
    """Reads a device as `costhub probe --json` and `costhub devices NAME --json` write it.

    Args:
        written: The file, or its text, which begins with a brace.

    Raises:
        DeviceError: There is no such file, or it does not hold one device.
        DataError: A column of the device is wrong.

    Example:
        >>> read_device('{"device_id": "acme-one", "kind": "cpu", "cores": 4}').cores
        4
    """
    text = str(written)
    try:
        if not text.lstrip().startswith("{"):
            if not Path(text).is_file():
                raise DeviceError(f"There is no file {text}; give one that `costhub probe --json` wrote.")
            text = read_regular(text, limit=MAX_DEVICE_BYTES, error=DeviceError).decode()
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DeviceError(f"{written!s:.99} is not JSON; give the row that `costhub probe --json` prints.") from error
    rows = content.get("devices", [content]) if isinstance(content, dict) else content
    if not isinstance(rows, list) or len(rows) != 1 or not isinstance(rows[0], dict) or "device_id" not in rows[0]:
        raise DeviceError(
            f"{written!s:.99} does not hold the row of one device, with its `device_id`, as `costhub probe --json` "
            "prints it. A TVM target alone does not have its figures."
        )
    return Device.from_row(rows[0])


def load_devices() -> tuple[Device, ...]:
    """Lists the devices of all hubs, ordered by id; a shared hub's row takes precedence over the embedded one.

    Example:
        >>> "nvidia-h200" in [device.device_id for device in load_devices()]
        True
    """
    devices: dict[str, Device] = {}
    for root in hub_roots():
        for device in read_devices(root.devices_file):
            devices.setdefault(device.device_id, device)
    return tuple(devices[key] for key in sorted(devices))


def read_devices(path: Path) -> tuple[Device, ...]:
    """Reads the devices in one index file, again only after a change; empty if there is no file.

    Raises:
        DataError: The file is not a device index.
    """
    try:
        changed = path.stat().st_mtime_ns
    except FileNotFoundError:
        return ()
    return _read_devices(path, changed)


@lru_cache(maxsize=8)
def _read_devices(path: Path, changed: int) -> tuple[Device, ...]:
    try:
        content = json.loads(read_regular(path, limit=MAX_INDEX_BYTES, error=DataError))
        refuse_newer(content, newest=INDEX_VERSION, what=path, error=DataError)
        rows = content["devices"]
        return tuple(Device.from_row(row) for row in rows)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path} is not a device index ({class_and_line(error):.300}). If it is in the cache, remove it and run "
            "`costhub probe` again; otherwise restore it, or reinstall costhub."
        ) from error


def find_device(device_id: str) -> Device | None:
    """Finds the device with exactly this id, or None."""
    return next((device for device in load_devices() if device.device_id == device_id), None)


def knows_instructions(names: Iterable[str], device: Mapping[str, Any]) -> bool:
    """Whether any of some indexed devices has vectors as wide as a given device's, and instructions in common with it.

    A model of such a device gains almost nothing from adaptation (docs/measured/transfer.md).

    Args:
        names: Ids of devices, for example those that a model was trained on.
        device: A row of the devices table.

    Example:
        >>> knows_instructions(["amd-epyc-zen5-2c"], {"simd_bits": 512, "isa_features": ["avx512f"]})
        True
        >>> knows_instructions(["amd-epyc-zen5-2c"], {"simd_bits": 128, "isa_features": ["neon"]})
        False
    """
    own = set(device.get("isa_features") or ())
    known = [found for name in names if (found := find_device(name)) is not None]
    return any(each.simd_bits == device.get("simd_bits") and own & set(each.isa_features) for each in known)


def register_device(row: Mapping[str, Any], *, path: Path) -> Device:
    """Puts a device into an index file, replacing any device with the same id.

    Columns missing from the new row keep their old values, and aliases accumulate: identifying again loses nothing.

    Args:
        row: Columns of the `devices` table.
        path: The index file; created if missing.

    Raises:
        DataError: The folder cannot be locked, for example on a file system without locks.
    """
    new = Device.from_row(row)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FolderLock(path.parent, wait=True):  # of two probes that end at once, neither may lose the other's figures
        devices = {device.device_id: device for device in read_devices(path)}
        old = devices.get(new.device_id)
        if old is not None:
            stated = {k: v for k, v in new.row().items() if v is not None and v != []}
            aliases = list(dict.fromkeys([*old.aliases, *new.aliases]))
            new = Device.from_row({**old.row(), **stated, "aliases": aliases})
        devices[new.device_id] = new
        _write_devices(path, [devices[key].row() for key in sorted(devices)])
    return new


def _write_devices(path: Path, rows: list[dict[str, Any]]) -> None:
    content = json.dumps({"version": INDEX_VERSION, "devices": rows}, indent=2)
    write_replacing(path, f"{content}\n".encode())
    _read_devices.cache_clear()


def device_rows(data: str | Path, device_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The rows of some devices; an unknown device has only its id.

    Args:
        data: A data folder, whose rows take precedence over the index.
        device_ids: The ids of the devices.

    Raises:
        DataError: The data folder is missing, or its table of devices cannot be read.
    """
    own = {row["device_id"]: row for row in DataFolder.open(data).devices().to_pylist()}
    return {name: complete_device_row(own.get(name, {"device_id": name})) for name in device_ids}


def complete_device_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Completes a row of the `devices` table from the index, or else from the figures of `keep_probed_figures`.

    Raises:
        DataError: An index, or the file of `keep_probed_figures`, cannot be read.

    Example:
        >>> complete_device_row({"device_id": "nvidia-h200", "cores": 64})["kind"]
        'cuda'
    """
    indexed = _row_of(find_device(row["device_id"]))
    probed = probed_figures(row["device_id"])
    # The index takes precedence, because models were trained on its figures.
    return {**indexed, **_stated_facts(probed), **_stated_facts(indexed), **_stated_facts(row)}


def probed_figures(device_id: str) -> dict[str, Any]:
    """The row of a device as `keep_probed_figures` stored it; empty if it has not been probed on this machine.

    Raises:
        DataError: The file of `keep_probed_figures` cannot be read.
    """
    devices = read_devices(_probed_figures_file())
    return _row_of(next((device for device in devices if device.device_id == device_id), None))


def keep_probed_figures(row: Mapping[str, Any]) -> None:
    """Keeps the figures probed on this machine in the cache, where `complete_device_row` finds them."""
    register_device(row, path=_probed_figures_file())


def _probed_figures_file() -> Path:
    return cache_root() / "devices.json"


def _row_of(device: Device | None) -> dict[str, Any]:
    return device.row() if device else {}


def _stated_facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row that are known."""
    return {name: value for name, value in row.items() if value is not None and value != []}
