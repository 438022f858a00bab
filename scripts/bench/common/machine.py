"""Where result files go, and what each records about where and when it was measured."""

from __future__ import annotations

import datetime
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from costhub.collector.device.identity import identify
from costhub.versions import costhub_version, installed_versions

ROOT = Path(__file__).resolve().parents[3]
"""Of the checkout."""
RESULTS = ROOT / "docs" / "results"


def describe() -> dict[str, Any]:
    """Machine, versions, date and command."""
    device = identify()
    return {
        "device": device["device_id"],
        "machine": f"{device['model_name']}, {device['cores']} cores, {device['memory_bytes'] >> 30} GiB",
        "versions": {"costhub": costhub_version(), **installed_versions()},
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": command(),
        "load_average": os.getloadavg()[0],
    }


def command() -> str:
    """The command that started this process."""
    spec = sys.modules["__main__"].__spec__
    program = ["-m", spec.name.removesuffix(".__main__")] if spec else [os.path.relpath(sys.argv[0])]
    return shlex.join(["python", *program, *sys.argv[1:]])


def write_result(
    path: Path | None,
    figures: Mapping[str, Any],
    *,
    default: Callable[[Any], Any] | None = None,
    indent: int | None = 1,
) -> None:
    """Writes figures with `describe` to a JSON file, if one is given.

    Args:
        path: The file, or None.
        figures: JSON values.
        default: Makes a JSON value of what is not one, as in `json.dumps`.
        indent: Of the file; None for large ones.
    """
    if path:
        path.write_text(json.dumps({**describe(), **figures}, indent=indent, default=default) + "\n", encoding="utf-8")
