"""Provides list_option: `--list`, which prints the workloads and networks that have names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from costhub.cards.tables import Column, number, plain_table

_SUITES = (Column("suite", "suite"), number("workloads", "workloads", "d"), Column("names", "names"))
_NETWORKS = (
    Column("network", "network"),
    Column("input", "input"),
    number("parameters", "parameters", ",d"),
)
_SHOWN = 4
"""Names of each suite; the others follow the same pattern."""


def listing() -> str:
    """All suites and networks, as text for a terminal.

    Example:
        >>> "resnet18.c7" in listing(), "mobilenet_v2" in listing()
        (False, True)
    """
    from costhub.collector.suite import suites
    from costhub.collector.zoo.registry import NETWORKS

    rows = [
        {
            "suite": suite,
            "workloads": len(workloads),
            "names": ", ".join(workload.name for workload in workloads[:_SHOWN])
            + (", ..." if len(workloads) > _SHOWN else ""),
        }
        for suite, workloads in suites().items()
    ]
    networks = [
        {"network": name, "input": " x ".join(map(str, network.shape)), "parameters": network.parameters}
        for name, network in sorted(NETWORKS.items())
    ]
    return f"{plain_table(rows, _SUITES)}\n\n{plain_table(networks, _NETWORKS)}"


def list_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the option `--list`."""
    return click.option(
        "--list", is_flag=True, is_eager=True, expose_value=False, callback=_print,
        help="Print the suites, workloads and networks that have names.",
    )(command)  # fmt: skip


def _print(context: click.Context, option: click.Parameter, value: bool) -> None:
    del option
    if value and not context.resilient_parsing:
        click.echo(listing())
        context.exit()
