"""Provides translation of workloads, traces and targets written by older TVM to the form that TVM 0.27 reads."""

from __future__ import annotations

import base64
import binascii
import functools
import json
import re
from typing import Any

from costhub.dataset.metaschedule.old_graph import is_old
from costhub.dataset.metaschedule.origin import is_tvm_version
from costhub.dataset.metaschedule.rebuild import rebuild, rebuild_object
from costhub.dataset.workload import module_from_json, parse_target, why_refused
from costhub.errors import WorkloadError

_RENAMED_INSTRUCTIONS = {"GetBlock": "GetSBlock"}
# Attributes that later versions added, and the values that keep the old behaviour.
_ADDED_ATTRIBUTES: dict[str, tuple[Any, ...]] = {
    "Split": (1, 0),
    "Fuse": (1,),
    "ComputeAt": (1, -1),
    "ReverseComputeAt": (1, -1),
    "Blockize": (1,),
    "Tensorize": ("", 1),
}
_WITH_CONSUMERS = ("CacheRead", "CacheWrite")
_LIST_OPTIONS = ("keys", "mattr", "libs")
_LENGTH_BYTES = 8


def translate_trace(instructions: list[Any]) -> list[Any]:
    """Translates the instructions of a trace; those in the form of TVM 0.27 stay unchanged.

    Raises:
        WorkloadError: An instruction holds something that TVM 0.27 does not support.

    Example:
        >>> translate_trace([["GetBlock", [], ["C", "main"], ["b0"]], ["Split", ["l1", 4, 8], [1], ["l2", "l3"]]])
        [['GetSBlock', [], ['C', 'main'], ['b0']], ['Split', ['l1', 4, 8], [1, 0], ['l2', 'l3']]]
    """
    return [_translate_instruction(*instruction) for instruction in instructions]


def _translate_instruction(kind: str, inputs: list[Any], attributes: list[Any], outputs: list[Any]) -> list[Any]:
    if kind in _WITH_CONSUMERS and len(inputs) == 1:
        inputs = [*inputs, []]
    if kind == "TransformLayout" and len(inputs) == 1:
        # Until 0.12 the map was an attribute, and nothing said whether it is injective.
        index, index_type, index_map, *padding = attributes
        inputs, attributes = [*inputs, index_map], [index, index_type, *(padding or [None]), 0]
    attributes = [*attributes, *_ADDED_ATTRIBUTES.get(kind, ())[len(attributes) :]]
    return [_RENAMED_INSTRUCTIONS.get(kind, kind), _translate_values(inputs), _translate_values(attributes), outputs]


def _translate_values(values: list[Any]) -> list[Any]:
    """Index maps and similar objects, which traces store as JSON inside JSON, in the form of TVM 0.27."""
    return [_translate_object(value) if isinstance(value, str) and value.startswith("{") else value for value in values]


def _translate_object(text: str) -> str:
    import tvm

    try:
        graph = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return str(tvm.ir.save_json(rebuild_object(graph))) if is_old(graph) else text


@functools.lru_cache(maxsize=256)
def translate_target(target: str) -> tuple[str, str]:
    """Translates a target, and names the kind of device it is for.

    The record's own attributes are kept: TVM's canonical form would add the importer's machine to them.
    Options that TVM no longer has are dropped.

    Args:
        target: JSON of a target: an object, a tag such as ``"nvidia/nvidia-a100"``, or the options that TVM
            took before 0.22, such as ``"llvm -mcpu=znver4 -num-cores 2"``.

    Returns:
        The target as canonical JSON, and the device kind (``cpu``, ``cuda``, ...).

    Raises:
        WorkloadError: It has none of these forms, or a kind that TVM does not know, or sets options of LLVM, or holds
            characters that cannot be printed.

    Example:
        >>> translate_target('"llvm -mcpu=znver4 -num-cores 2 -link-params=1"')
        ('{"kind":"llvm","mcpu":"znver4","num-cores":2}', 'cpu')
    """
    value = json.loads(target)
    options = _parse_options(value) if isinstance(value, str) else value
    if not isinstance(options, dict):
        raise WorkloadError(f"The target {target:.200} is neither an object nor a string.")
    if why := why_refused(options):
        raise WorkloadError(f"The target {target!r:.200} has {why}.")
    text = json.dumps(_accepted_options(options), separators=(",", ":"), sort_keys=True)
    return text, _device_kind(parse_target(text))


def _accepted_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options without those that TVM rejects."""
    tag = options.get("tag")
    if "kind" not in options and isinstance(tag, str):
        return dict(json.loads(str(parse_target(json.dumps({"tag": tag})))))
    kept = {name: value for name, value in options.items() if name == "kind" or value not in ("", None, [])}
    host = kept.pop("host", None)
    if host is not None:
        kept["host"] = json.loads(translate_target(json.dumps(host))[0])
    if _is_accepted(kept):
        return kept
    kind = {"kind": kept.get("kind")}
    return {name: value for name, value in kept.items() if name == "kind" or _is_accepted({**kind, name: value})}


def _is_accepted(options: dict[str, Any]) -> bool:
    try:
        parse_target(json.dumps(options))
    except WorkloadError:
        return False
    return True


def _parse_options(text: str) -> dict[str, Any]:
    """Reads ``kind -option=value -option value -flag``; a word without options may also be a tag."""
    kind, *words = re.sub(r"\s-+([\w-]+)\s+(?!-)", r" -\1=", f" {text.strip()} ").split() or [""]
    if not words and "/" in kind:
        return {"tag": kind}
    options: dict[str, Any] = {"kind": kind}
    for word in words:
        name, _, value = word.lstrip("-").partition("=")
        options[name] = _parse_value(name, value)
    return options


def _parse_value(name: str, text: str) -> Any:
    if name in _LIST_OPTIONS:
        return [part for part in text.split(",") if part]
    return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else text.strip("\"'")


def _device_kind(target: Any) -> str:
    from tvm_ffi import Device

    return str(Device(int(target.get_target_device_type()), 0).type)


def read_workload(line: bytes) -> tuple[Any, str | None]:
    """Reads a line ``["<hash>", "<base64>"]`` of any version of TVM.

    A crafted module can crash TVM: call it in a child process only.

    Returns:
        The module (``tvm.IRModule``), and the version of TVM that wrote it, if the line says so in a text that can be
        one: it goes into tables and into the file of origin of a clean copy.

    Raises:
        WorkloadError: The line does not hold a module that TVM 0.27 supports.
    """
    text = _graph_text(line)
    try:
        graph = json.loads(text)
        version = (graph.get("metadata") or graph.get("attrs") or {}).get("tvm_version")
    except (ValueError, RecursionError, AttributeError) as error:
        raise WorkloadError("its module is not a graph in JSON") from error
    mod = rebuild(graph) if is_old(graph) else module_from_json(text)
    return mod, version if is_tvm_version(version) else None


def is_todays(line: bytes) -> bool:
    """Whether TVM 0.27 itself reads the module in a line ``["<hash>", "<base64>"]`` that `read_workload` can read."""
    return not is_old(json.loads(_graph_text(line)))


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
