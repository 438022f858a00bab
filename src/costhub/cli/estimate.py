"""Provides `costhub estimate`: what kernels and networks take on a device, without measuring."""

from __future__ import annotations

import click

from costhub.cli.shared.choices import DecimalNumber
from costhub.cli.shared.options import (
    ListingCommand,
    fast_math_option,
    list_option,
    trials_per_workload_option,
    workloads_argument,
)

EXAMPLE = """
\b
Example:
  costhub estimate resnet18.c7 --device amd-epyc-zen4-2c
  costhub estimate mobilenet_v2 --device intel-xeon-graniterapids-2c
  costhub estimate mine.pt2 --device board.json --interval 0.8 --json
"""


@click.command("estimate", cls=ListingCommand, epilog=EXAMPLE)
@list_option
@workloads_argument("estimate")
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="DEVICE|FILE",
    help="A device listed by `costhub devices`, 'auto' for this machine's CPU or a part of it by name, or a file with "
    "the output of `costhub probe --json` from another machine.",
)
@trials_per_workload_option(64, "Number of programs in the search assumed for predicted kernels.", most=100_000)
@click.option(
    "--interval",
    default=0.9,
    show_default=True,
    metavar="SHARE",
    type=DecimalNumber(0, 1, min_open=True, max_open=True),
    help="Share of the figures that should lie within their intervals.",
)
@click.option(
    "--data",
    "folders",
    multiple=True,
    metavar="DATA",
    help="Measurements of your own, besides those in the hubs on this machine. May be repeated.",
)
@fast_math_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    workloads: tuple[str, ...],
    device: str,
    trials: int,
    interval: float,
    folders: tuple[str, ...],
    fast_math: bool,
    as_json: bool,
) -> None:
    """Estimate how long each WORKLOAD takes on a device after a search; nothing is measured.

    WORKLOAD is a kernel such as resnet18.c7, a network such as resnet50, a suite, a network saved by torch.export.save
    (.pt2), or a file with a TVM module in JSON (tvm.ir.save_json). Files can run code: open only those you trust.
    --list lists the names.

    A kernel of which a hub has measured at least eight programs on the device gets the latency of the best one; others
    are predicted. Networks are split into kernels in torch's layouts, as with `costhub tune --layout plain`.
    """
    from costhub.api.estimating.estimate import estimate

    found = estimate(list(workloads), device, trials=trials, interval=interval, data=folders, fast_math=fast_math)
    click.echo(found.to_json() if as_json else str(found), nl=not as_json)
