"""Provides tell_if_busy: a warning before measurements on a busy machine."""

from __future__ import annotations

import os

import click


def tell_if_busy() -> None:
    """Warns on stderr that latencies will be noisy if more processes want to run than there are cores."""
    load, cores = _load_average(), os.cpu_count() or 1
    if load > cores:
        click.echo(
            f"Other programs are running here (load average {load:.1f}, {cores} cores): latencies will be "
            "noisy, and `costhub check` may refuse them.",
            err=True,
        )


def _load_average() -> float:
    """Of the last minute."""
    return os.getloadavg()[0]
