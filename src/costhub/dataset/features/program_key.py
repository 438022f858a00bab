"""Provides ProgramKeys: how the feature cache identifies a program: a hash of everything its features depend on.

Names do not suffice: records, workloads and seals are whatever a data folder claims, and an untrusted folder may claim
the same as another one. Without a sha256 collision nobody can store features under another program's key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import pyarrow as pa

from costhub.dataset.folder import DataFolder

KEY_TYPE = pa.binary(32)
KEY_COLUMNS = ("workload_id", "target", "trace")
"""The columns of measurements that `ProgramKeys.of` reads."""

_NO_MODULE = bytes(32)


class ProgramKeys:
    """Computes the keys of the programs of a data folder: sha256 of module, target and trace.

    Example:
        >>> keys = ProgramKeys({"w": "{}"})
        >>> row = {"workload_id": "w", "target": "{}", "trace": "[[],[]]"}
        >>> rows = pa.RecordBatch.from_pylist([row, row, row | {"trace": "[]"}])
        >>> keys.of(rows).value_counts().field("counts").to_pylist()
        [2, 1]
    """

    def __init__(self, modules: Mapping[str, str]) -> None:
        """Hashes the modules of a folder, as `modules_of` reads them."""
        self._modules = {name: _digest(module) for name, module in modules.items()}

    def of(self, rows: pa.RecordBatch) -> pa.FixedSizeBinaryArray:
        """The key of each measurement, of type `KEY_TYPE`.

        A workload that the folder does not describe has no module. Its programs still have keys of their own.

        Args:
            rows: Measurements with the columns `KEY_COLUMNS`.
        """
        ids, targets = rows["workload_id"].to_pylist(), rows["target"].to_pylist()
        heads: dict[tuple[str, str], bytes] = {}
        digests = []
        for place, trace in enumerate(_utf8(rows["trace"])):
            pair = ids[place], targets[place]
            head = heads.get(pair)
            if head is None:
                # Of fixed length, so that different programs never yield the same bytes once joined.
                head = heads[pair] = self._modules.get(pair[0], _NO_MODULE) + _digest(pair[1])
            digests.append(hashlib.sha256(head + trace).digest())
        return key_array(digests)


def key_array(keys: Sequence[bytes]) -> pa.FixedSizeBinaryArray:
    """Keys as an Arrow array, without a copy of each."""
    return pa.FixedSizeBinaryArray.from_buffers(KEY_TYPE, len(keys), [None, pa.py_buffer(b"".join(keys))])


def modules_of(folder: DataFolder) -> dict[str, str]:
    """The JSON of each workload's module.

    Raises:
        DataError: The workloads cannot be read.
    """
    table = folder.workloads(["workload_id", "module_json"])
    return dict(zip(table["workload_id"].to_pylist(), table["module_json"].to_pylist(), strict=True))


def keys_of_records(folder: DataFolder, device_id: str) -> dict[str, bytes]:
    """The key of each measurement of a device, by its record id.

    Raises:
        DataError: The folder cannot be read, or lacks the device.
    """
    keys = ProgramKeys(modules_of(folder))
    return {
        record: key
        for batch in folder.iter_measurements([device_id], ["record_id", *KEY_COLUMNS])
        for record, key in zip(batch["record_id"].to_pylist(), keys.of(batch).to_pylist(), strict=True)
    }


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _utf8(texts: pa.Array) -> list[bytes]:
    """The bytes of each text; decoding them to str and back would take as long as hashing."""
    return list(texts.cast(pa.binary()).to_pylist())
