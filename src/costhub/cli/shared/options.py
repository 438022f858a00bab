"""Provides the options that several commands share, and the listing of suites and networks."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from costhub.cards.tables import TableColumn, counted, number, plain_table

F = TypeVar("F", bound=Callable[..., Any])
_OLD_TRIALS, _AS_JSON = "costhub.old_trials", "costhub.as_json"


def check_tracker_options(tracker: str | None, key: str | None) -> None:
    """Refuses --tracker without --key and --key without --tracker.

    Raises:
        UsageError: One of the two is missing.
    """
    if (tracker is None) != (key is None):
        raise click.UsageError("--tracker and --key go together: give both or neither.")


def trials_per_workload_option(default: int, help_: str) -> Callable[[F], F]:
    """`--trials-per-workload`, with `--trials`, its name until 0.1, as a hidden alias that warns.

    Args:
        default: Its default.
        help_: Its line in the help.
    """

    def remember(context: click.Context, option: click.Parameter, value: int | None) -> None:
        del option
        if value is not None:
            context.meta[_OLD_TRIALS] = value
            click.echo(
                "--trials counts per workload here and will mean all workloads together; write "
                f"--trials-per-workload {value}.",
                err=True,
            )

    def take(context: click.Context, option: click.Parameter, value: int) -> int:
        is_given = context.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT
        old: int | None = context.meta.get(_OLD_TRIALS)
        return value if is_given or old is None else old

    number = click.IntRange(min=1)
    new = click.option(
        "--trials-per-workload",
        "trials",
        metavar="N",
        default=default,
        show_default=True,
        type=number,
        callback=take,
        help=help_,
    )
    # Given options are handled before those with defaults, so the alias is remembered by then.
    alias = click.option("--trials", "old_trials", type=number, hidden=True, expose_value=False, callback=remember)
    return lambda command: new(alias(command))


allow_other_kind_option = click.option(
    "--allow-other-kind",
    is_flag=True,
    help="Take a model of GPUs for a CPU, or the reverse, which ranks programs about as well as chance.",
)
seed_option = click.option(
    "--seed",
    metavar="N",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Seed of all random choices: the same one repeats them.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Send without asking for confirmation.")

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


def listing_json() -> dict[str, Any]:
    """All suites and networks, as JSON values.

    Example:
        >>> listing_json()["networks"]["resnet18"]["parameters"] > 10_000_000
        True
    """
    from costhub.collector.workloads.suites import suites
    from costhub.collector.workloads.zoo.networks import NETWORKS

    return {
        "suites": {
            suite: [
                {"name": each.name, "operator": each.operator, "sizes": each.sizes, "networks": dict(each.networks)}
                for each in workloads
            ]
            for suite, workloads in suites().items()
        },
        "networks": {
            name: {"label": each.label, "input": each.shape, "parameters": each.parameters}
            for name, each in sorted(NETWORKS.items())
        },
    }


class ListingCommand(click.Command):
    """A command with options such as `--list` that print something else and end; `--json` holds for these too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Notes whether JSON is asked for, before the first option is handled."""
        ctx.meta[_AS_JSON] = "--json" in args
        return super().parse_args(ctx, args)


def print_listing(context: click.Context, text: Callable[[], str], values: Callable[[], Any]) -> None:
    """Prints a listing as text or JSON, and ends the command.

    Args:
        context: Of a `ListingCommand`.
        text: Makes the text.
        values: Makes the JSON values.
    """
    click.echo(json.dumps(values(), indent=2) if context.meta[_AS_JSON] else text())
    context.exit()


def list_option(command: F) -> F:
    """Gives a `ListingCommand` the option `--list`."""
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
        print_listing(context, listing, listing_json)
