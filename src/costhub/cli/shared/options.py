"""Provides the options that several commands share, and the listing of suites and networks."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.cli.shared.choices import ARCHITECTURE, LAYOUT, PRECISION, SPACE, WholeNumber
from costhub.terminal_text import counted

if TYPE_CHECKING:
    from costhub.api.subjects import Subjects
    from costhub.models.options import OptionDescription

    DescribedOptions = Mapping[str, Sequence[OptionDescription]]

F = TypeVar("F", bound=Callable[..., Any])
_OLD_TRIALS, _AS_JSON = "costhub.old_trials", "costhub.as_json"


def check_tracker_options(tracker: str | None, key: str | None, devices: Sequence[str] = ("auto",)) -> None:
    """Refuses --tracker without --key, --key without --tracker, and either with --device.

    Raises:
        UsageError: One of the two is missing, or a device of this machine is named as well.
    """
    if (tracker is None) != (key is None):
        raise click.UsageError("--tracker and --key go together: give both or neither.")
    if tracker is not None and tuple(devices) != ("auto",):
        raise click.UsageError("--device selects a device of this machine; leave it out with --tracker.")


def nothing_named(verb: str, out: str | None = None) -> click.UsageError:
    """The error of a command that names neither a network nor a kernel nor a file; `out` is its folder of results."""
    place = f" --out {out}" if out else ""
    return click.UsageError(
        f"This does not say what to {verb}: name a network, a kernel or a file, as in `costhub {verb} resnet50{place}`."
    )


def workloads_argument(verb: str, out: str | None = None) -> Callable[[F], F]:
    """The argument WORKLOAD, which may be repeated; a command without any is refused before its options are looked at.

    Args:
        verb: The command's name.
        out: Its folder of results in the example that the refusal gives.
    """

    def named(context: click.Context, _: click.Parameter, workloads: tuple[str, ...]) -> tuple[str, ...]:
        if workloads or context.resilient_parsing:
            return workloads
        raise nothing_named(verb, out)

    return click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...", is_eager=True, callback=named)


def named_subjects(workloads: Sequence[str], suites: Sequence[str], networks: Sequence[str]) -> Subjects:
    """What the arguments WORKLOAD and the options --suite and --network name, all together.

    Example:
        >>> named_subjects(["resnet18.c7", "mine.pt2"], ["softmax"], [])
        Subjects(workloads=('resnet18.c7', 'softmax'), networks=('mine.pt2',), modules=())
    """
    from costhub.api.subjects import Subjects, read_subjects

    found = read_subjects(list(workloads), Path())  # names write nothing
    return Subjects((*found.workloads, *suites), (*found.networks, *networks))


def trials_per_workload_option(default: int | None, help_: str, *, most: int | None = None) -> Callable[[F], F]:
    """`--trials-per-workload`, with `--trials`, its name until 0.1, as a hidden alias that warns.

    Args:
        default: Its default.
        help_: Its line in the help.
        most: The largest number accepted.
    """

    def remember(context: click.Context, option: click.Parameter, value: int | None) -> None:
        del option
        if value is not None:
            context.meta[_OLD_TRIALS] = value
            click.echo(
                f"--trials, which counts per workload here, is now called --trials-per-workload: write "
                f"--trials-per-workload {value}.",
                err=True,
            )

    def take(context: click.Context, option: click.Parameter, value: int | None) -> int | None:
        is_given = context.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT
        old: int | None = context.meta.get(_OLD_TRIALS)
        return value if is_given or old is None else old

    number = WholeNumber(min=1, max=most)
    new = click.option(
        "--trials-per-workload",
        "trials",
        metavar="N",
        default=default,
        show_default=default is not None,
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
    help="Allow a GPU model for a CPU, or vice versa, although it ranks programs about as well as chance.",
)
arch_option = click.option("--arch", type=ARCHITECTURE, help="Architecture of the model; by default the best one.")
fast_math_option = click.option(
    "--fast-math",
    is_flag=True,
    help="Use polynomials for exp, tanh and erf in networks. These functions are then several times as fast (a small "
    "BERT as a whole takes a quarter less), but the last digits differ.",
)
layout_option = click.option(
    "--layout",
    type=LAYOUT,
    default="blocked",
    show_default=True,
    help="Layout of a network's convolutions and dense layers on a CPU: blocked, where vectors hold channels (NCHW16c "
    "with AVX-512), or plain, as in torch.",
)
precision_option = click.option(
    "--precision",
    type=PRECISION,
    default="float32",
    show_default=True,
    help="What a network's convolutions and dense layers multiply: float32, or bf16 (bfloat16, with sums in float32), "
    "about twice as fast on AMD's CPUs with AVX512-BF16, faster still in Intel's matrix units (AMX; there, both "
    "products of attention as well), slower where a virtual machine hides these units, and refused without "
    "AVX512-BF16; inputs and weights are rounded to 8 binary digits.",
)
seed_option = click.option(
    "--seed",
    metavar="N",
    default=0,
    show_default=True,
    type=WholeNumber(min=0),
    help="Seed for all random choices; the same seed repeats them.",
)
space_option = click.option(
    "--space",
    type=SPACE,
    help="Design space of every workload and kernel, whatever its layout: a name, or your own. By default, 'blocked' "
    "for kernels in blocked layouts and 'default', TVM's choice, for all others.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Send without asking for confirmation.")

_NETWORKS = (
    TableColumn("network", "network"),
    TableColumn("input", "input"),
    number("parameters", "parameters", ",d"),
)
_OPTIONS = (TableColumn("name", "option"), TableColumn("default", "default"), TableColumn("meaning", "meaning"))
_WIDTH = 100
"""Columns of the names."""
_EVERY = "all"
"""Stands for every architecture or method."""


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
        {"network": name, "input": network.inputs, "parameters": network.parameters}
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
            name: {
                "label": each.label,
                "input": each.shape,
                "further_inputs": each.further,
                "parameters": each.parameters,
            }
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


def named_options(kind: str, metavar: str, described: Callable[[str | None], DescribedOptions]) -> Callable[[F], F]:
    """`--option NAME=VALUE`, as `pairs`, and `--list-options` of a `ListingCommand`.

    Args:
        kind: What has the options, for the help: `architecture`.
        metavar: Stands for the name of one in the help.
        described: Name -> its options; None stands for all names.
    """

    def show(context: click.Context, option: click.Parameter, name: str | None) -> None:
        del option
        if name is None or context.resilient_parsing:
            return
        found = described(None if name == _EVERY else name)
        rows = {each: [asdict(option) for option in options] for each, options in found.items()}
        tables = (f"{each}\n{plain_table(own, _OPTIONS) if own else 'no options'}" for each, own in rows.items())
        print_listing(context, lambda: "\n\n".join(tables), lambda: rows)

    pair = click.option(
        "--option",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help=f"Option of the {kind} (see --list-options); may be repeated.",
    )
    list_ = click.option(
        "--list-options",
        is_flag=False,
        flag_value=_EVERY,
        is_eager=True,
        expose_value=False,
        callback=show,
        metavar=f"[{metavar}]",
        help=f"List the options of {'an' if kind[0] in 'aeiou' else 'a'} {kind}, or of all.",
    )
    return lambda command: pair(list_(command))


def named_values(pairs: Sequence[str]) -> dict[str, str]:
    """Name -> text of the value, of texts of the form NAME=VALUE.

    Raises:
        BadParameter: A text is of another form.

    Example:
        >>> named_values(["hidden=512"])
        {'hidden': '512'}
    """
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not of the form NAME=VALUE.", param_hint="--option")
        found[name.strip()] = value.strip()
    return found


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
