"""Provides Duration: a time as people write it on a command line."""

from __future__ import annotations

import re
from typing import Any

import click


class Duration(click.ParamType[float]):
    """A time such as ``90s``, ``30m`` or ``2h``, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds in `value`."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(value))
        if not match:
            self.fail(f"{value!r} is not a duration; write for example 90s, 30m or 2h.", param, ctx)
        return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
