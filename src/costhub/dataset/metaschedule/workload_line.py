"""Provides read_workload: one line of a MetaSchedule database's workloads as a module of TVM 0.27."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from costhub.dataset.metaschedule.old_graph import is_old
from costhub.dataset.metaschedule.rebuild import rebuild
from costhub.dataset.workload import module_from_json
from costhub.errors import WorkloadError

_LENGTH_BYTES = 8


def read_workload(line: bytes) -> tuple[Any, str | None]:
    """Reads a line ``["<hash>", "<base64>"]`` of whatever version of TVM.

    A crafted module can crash TVM: only to be called in a child process.

    Returns:
        The module (``tvm.IRModule``), and the version of TVM that wrote it where the line says.

    Raises:
        WorkloadError: The line holds no module that TVM 0.27 can hold.
    """
    text = _graph_text(line)
    try:
        graph = json.loads(text)
        version = (graph.get("metadata") or graph.get("attrs") or {}).get("tvm_version")
    except (ValueError, RecursionError, AttributeError) as error:
        raise WorkloadError("its module is not a graph in JSON") from error
    mod = rebuild(graph) if is_old(graph) else module_from_json(text)
    return mod, str(version) if version else None


def _graph_text(line: bytes) -> str:
    """The JSON inside: base64 of its length in 8 bytes and the text itself."""
    try:
        _, encoded = json.loads(line)
        blob = base64.b64decode(encoded, validate=True)
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise WorkloadError('it is not ["<hash>", "<base64>"]; perhaps it was cut off') from error
    length = int.from_bytes(blob[:_LENGTH_BYTES], "little")
    if len(blob) != _LENGTH_BYTES + length:
        raise WorkloadError(f"its module should have {length:,} bytes and has {len(blob) - _LENGTH_BYTES:,}")
    try:
        return blob[_LENGTH_BYTES:].decode()
    except UnicodeDecodeError as error:
        raise WorkloadError("its module is not text") from error
