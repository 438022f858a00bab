"""Provides list_option: `--list`, which prints the workloads and networks that have names."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import click

from costhub.cards.tables import Column, counted, number, plain_table

_NETWORKS = (
    Column("network", "network"),
    Column("input", "input"),
    number("parameters", "parameters", ",d"),
)
_WIDTH = 100
"""Columns of the names."""


def listing() -> str:
    """All suites and networks, as text for a terminal.

    Example:
        >>> "resnet18.c7" in listing(), "mobilenet_v2" in listing()
        (True, True)
    """
    from costhub.collector.suite import suites
    from costhub.collector.zoo.registry import NETWORKS

    named = [
        f"{suite} ({counted(len(workloads), 'workload')})\n"
        + textwrap.fill(
            ", ".join(workload.name for workload in workloads),
            _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False,
        )
        for suite, workloads in suites().items()
    ]  # fmt: skip
    networks = [
        {"network": name, "input": " x ".join(map(str, network.shape)), "parameters": network.parameters}
        for name, network in sorted(NETWORKS.items())
    ]
    return "\n\n".join([*named, plain_table(networks, _NETWORKS)])


def list_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the option `--list`."""
    return click.option(
        "--list", is_flag=True, is_eager=True, expose_value=False, callback=_print,
        help="List the suites, workloads and networks by name.",
    )(command)  # fmt: skip


def _print(context: click.Context, option: click.Parameter, value: bool) -> None:
    del option
    if value and not context.resilient_parsing:
        click.echo(listing())
        context.exit()
