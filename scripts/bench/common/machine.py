"""What every result file records about where and when it was measured."""

from __future__ import annotations

import datetime
import os
import shlex
import sys
from typing import Any

from costhub.collector.device.identify import identify
from costhub.versions import costhub_version, installed_versions


def describe() -> dict[str, Any]:
    """Machine, versions, date and command."""
    device = identify()
    return {
        "device": device["device_id"],
        "machine": f"{device['model_name']}, {device['cores']} cores, {device['memory_bytes'] >> 30} GiB",
        "versions": {"costhub": costhub_version(), **installed_versions()},
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(["python", os.path.relpath(sys.argv[0]), *sys.argv[1:]]),
        "load_average": os.getloadavg()[0],
    }
