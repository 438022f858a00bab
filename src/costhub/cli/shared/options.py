"""Provides the types and options that several commands share; none of them imports what it checks."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from costhub.cards.tables import TableColumn, counted, number, plain_table
from costhub.registry import Registry


def check_tracker_options(tracker: str | None, key: str | None) -> None:
    """Refuses --tracker without --key and --key without --tracker.

    Raises:
        UsageError: One of the two is missing.
    """
    if (tracker is None) != (key is None):
        raise click.UsageError("--tracker and --key go together: give both or neither.")


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


class RegisteredName(click.ParamType[str]):
    """A name in a registry, refused before the module that implements it is imported.

    Args:
        registry: Address of the registry, `module:attribute`.
    """

    name = "name"

    def __init__(self, registry: str) -> None:
        self._address = registry

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself.

        Raises:
            UnknownNameError: It is not in the registry; the message lists the close ones.
        """
        registry = self._registry()
        if value not in registry:
            registry.find(value)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin as the incomplete one does."""
        return [CompletionItem(name) for name in self._registry() if name.startswith(incomplete)]

    def _registry(self) -> Registry[Any]:
        module, _, attribute = self._address.partition(":")
        registry: Registry[Any] = getattr(import_module(module), attribute)
        return registry


METHOD = RegisteredName("costhub.transfer.methods.by_name:METHODS")
STRATEGY = RegisteredName("costhub.search.strategies.by_name:STRATEGIES")
SELECTION = RegisteredName("costhub.search.selection:SELECTIONS")
ARCHITECTURE = RegisteredName("costhub.models.architectures:ARCHITECTURES")

_NETWORKS = (
    TableColumn("network", "network"),
    TableColumn("input", "input"),
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
    from costhub.collector.workloads.suites import suites
    from costhub.collector.workloads.zoo.networks import NETWORKS

    named = [
        f"{suite} ({counted(len(workloads), 'workload')})\n"
        + textwrap.fill(
            ", ".join(workload.name for workload in workloads),
            _WIDTH,
            initial_indent="  ",
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
        for suite, workloads in suites().items()
    ]
    networks = [
        {"network": name, "input": " x ".join(map(str, network.shape)), "parameters": network.parameters}
        for name, network in sorted(NETWORKS.items())
    ]
    return "\n\n".join([*named, plain_table(networks, _NETWORKS)])


def list_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the option `--list`."""
    return click.option(
        "--list",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print,
        help="List the suites, workloads and networks by name.",
    )(command)


def _print(context: click.Context, option: click.Parameter, value: bool) -> None:
    del option
    if value and not context.resilient_parsing:
        click.echo(listing())
        context.exit()
