"""Provides tell_if_busy: a word before measuring on a machine that has other things to do."""

from __future__ import annotations

import os

import click


def tell_if_busy() -> None:
    """Says on stderr that latencies will not be worth much, where more wants to run than can."""
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
