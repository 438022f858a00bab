"""Provides today_target: targets as older TVM wrote them, as JSON that TVM 0.27 accepts."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from costhub.dataset.target import parse_target
from costhub.errors import WorkloadError

_LISTS = ("keys", "mattr", "libs")


@functools.lru_cache(maxsize=256)
def today_target(target: str) -> tuple[str, str]:
    """Translates a target, and names the kind of device it is for.

    What the record says is kept: TVM's own canonical form would add the machine of the importer to it.
    Options that TVM no longer has are dropped.

    Args:
        target: JSON of a target: an object, a tag such as ``"nvidia/nvidia-a100"``, or the options that TVM
            took before 0.22, such as ``"llvm -mcpu=znver4 -num-cores 2"``.

    Returns:
        The target as canonical JSON, and the device kind (``cpu``, ``cuda``, ...).

    Raises:
        WorkloadError: It is none of these, or of a kind that TVM does not know.

    Example:
        >>> today_target('"llvm -mcpu=znver4 -num-cores 2 -link-params=1"')
        ('{"kind":"llvm","mcpu":"znver4","num-cores":2}', 'cpu')
    """
    value = json.loads(target)
    options = _from_words(value) if isinstance(value, str) else value
    if not isinstance(options, dict):
        raise WorkloadError(f"The target {target:.200} is neither an object nor a string.")
    text = json.dumps(_accepted(options), separators=(",", ":"), sort_keys=True)
    return text, _device_kind(parse_target(text))


def _accepted(options: dict[str, Any]) -> dict[str, Any]:
    """The options without those that TVM refuses."""
    tag = options.get("tag")
    if "kind" not in options and isinstance(tag, str):
        return dict(json.loads(str(parse_target(json.dumps({"tag": tag})))))
    kept = {name: value for name, value in options.items() if name == "kind" or value not in ("", None, [])}
    host = kept.pop("host", None)
    if host is not None:
        kept["host"] = json.loads(today_target(json.dumps(host))[0])
    if _is_accepted(kept):
        return kept
    kind = {"kind": kept.get("kind")}
    return {
        name: value for name, value in kept.items() if name == "kind" or _is_accepted({**kind, name: value})
    }


def _is_accepted(options: dict[str, Any]) -> bool:
    try:
        parse_target(json.dumps(options))
    except WorkloadError:
        return False
    return True


def _from_words(text: str) -> dict[str, Any]:
    """Reads ``kind -option=value -option value -flag``; a word without options may also be a tag."""
    kind, *words = re.sub(r"\s-+([\w-]+)\s+(?!-)", r" -\1=", f" {text.strip()} ").split() or [""]
    if not words and "/" in kind:
        return {"tag": kind}
    options: dict[str, Any] = {"kind": kind}
    for word in words:
        name, _, value = word.lstrip("-").partition("=")
        options[name] = _value(name, value)
    return options


def _value(name: str, text: str) -> Any:
    if name in _LISTS:
        return [part for part in text.split(",") if part]
    return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else text.strip("\"'")


def _device_kind(target: Any) -> str:
    from tvm_ffi import Device

    return str(Device(int(target.get_target_device_type()), 0).type)
