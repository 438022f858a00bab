"""Provides `costhub tune`: search for fast programs of a workload with a pretrained cost model."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from costhub.cli.shared.choices import ENGINE, METHOD, MODEL, SEARCH_STOP, SELECTION, STRATEGY, TRACKER
from costhub.cli.shared.interaction import interruptible, saying_what_is_kept
from costhub.cli.shared.options import (
    ListingCommand,
    allow_other_kind_option,
    arch_option,
    check_tracker_options,
    fast_math_option,
    layout_option,
    list_option,
    nothing_named,
    precision_option,
    seed_option,
    space_option,
    trials_per_workload_option,
)
from costhub.collector.workloads.suites import find_suites
from costhub.errors import NetworkError

if TYPE_CHECKING:
    from costhub.api.measuring import BoardsAt
    from costhub.api.subjects import Subjects
    from costhub.api.tuning import Tuning

EXAMPLE = """
\b
Example:
  costhub tune resnet18.c7 matmul.512x512x512 --trials-per-workload 64 --out tuned/
  costhub tune mobilenet_v2 --trials-per-workload 32 --out tuned/
  costhub tune mine.pt2 --trials-per-workload 32 --out tuned/
  costhub tune mine.pt2 --beside onnxruntime --beside openvino --out tuned/
  costhub tune resnet18.c7 --strategy annealing --select diverse --out tuned/
  costhub tune resnet18.c7 --tracker 127.0.0.1:9190 --key pi4 --out tuned/
"""


@click.command("tune", cls=ListingCommand, epilog=EXAMPLE)
@list_option
@click.argument(
    "workloads", nargs=-1, metavar="[WORKLOAD]...", callback=lambda context, _, value: _named(context, value)
)
@click.option(
    "--network",
    "networks",
    multiple=True,
    help="A network by name, or a file: .pt2 (torch.export.save), .json (relax, tvm.ir.save_json). Both can run "
    "code (costhub refuses what it recognises in a .pt2): open only files you trust.",
    metavar="NETWORK",
)
@click.option(
    "--suite", "suites", metavar="SUITE", multiple=True, help="All workloads of a suite; 'all' for every suite."
)
@click.option(
    "--model",
    "model_name",
    type=MODEL,
    default="auto",
    show_default=True,
    help="Model: a name as for `costhub pull`, or 'auto' for the best model for this machine.",
)
@arch_option
@click.option(
    "--draft",
    type=MODEL,
    help="A cheap model, such as one made by `costhub train --arch gbt --features trace_decisions@1`. It ranks all "
    "candidates, and --model then scores only the best of them.",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="The device of this machine to tune for, such as amd-epyc-zen5-1c for one thread; 'auto' is its CPU, "
    "'cuda' its NVIDIA GPU (never tried on one).",
    metavar="DEVICE",
)
@click.option("--tracker", type=TRACKER, help="Tune for the boards of a TVM RPC tracker instead.")
@click.option("--key", metavar="KEY", help="The boards' key at the tracker.")
@trials_per_workload_option(
    64,
    "Maximum number of programs to measure per workload, on average; workloads likely to improve get more. See --stop.",
)
@click.option(
    "--stop",
    type=SEARCH_STOP,
    default="gain",
    show_default=True,
    help="When to end the search before all trials are spent: once another batch promises too little (gain), once the "
    "model's predictions no longer vary (variation), or never.",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the results.",
)
@click.option(
    "--method",
    type=METHOD,
    default="brief",
    show_default=True,
    help="How the model learns from measurements.",
)
@click.option(
    "--strategy",
    type=STRATEGY,
    default="evolutionary",
    show_default=True,
    help="How programs are proposed; evolutionary is TVM's own.",
)
@click.option(
    "--select",
    type=SELECTION,
    default="ranked",
    show_default=True,
    help="Which proposals to measure; ranked takes the ones with the highest scores.",
)
@click.option(
    "--from-scratch",
    is_flag=True,
    help="Measure only what the strategy proposes; by default, the first batch also has the fastest schedules that the "
    "hub knows for that workload.",
)
@space_option
@fast_math_option
@layout_option
@precision_option
@click.option(
    "--torch-compile",
    is_flag=True,
    help="Time networks under torch.compile as well, which takes a minute or more.",
)
@click.option(
    "--beside",
    type=ENGINE,
    multiple=True,
    help="Time networks in this engine as well, on this machine's CPU; may be repeated. Both compute in float32; with "
    "--precision bf16, OpenVINO chooses. Both need `pip install 'costhub[engines]'`.",
)
@click.option(
    "--time-unscheduled",
    is_flag=True,
    help="Time workloads and networks without a schedule as well: plain loops on one thread, up to a minute for a "
    "workload; a network is called six times or more.",
)
@allow_other_kind_option
@seed_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    workloads: tuple[str, ...],
    networks: tuple[str, ...],
    suites: tuple[str, ...],
    model_name: str,
    arch: str | None,
    draft: str | None,
    device: str,
    tracker: str | None,
    key: str | None,
    trials: int,
    stop: str,
    out: Path,
    method: str,
    strategy: str,
    select: str,
    from_scratch: bool,
    space: str | None,
    fast_math: bool,
    layout: str,
    precision: str,
    torch_compile: bool,
    beside: tuple[str, ...],
    time_unscheduled: bool,
    allow_other_kind: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Search for fast programs of each WORKLOAD on this machine or on boards, with a pretrained cost model.

    WORKLOAD is a kernel such as resnet18.c7, a network such as resnet50, a suite (--list lists them all), a file from
    torch.export.save (.pt2), or a TVM module in JSON (tvm.ir.save_json). The results are a TVM database that stock TVM
    can compile from, a report and plots. A network for a CPU becomes OUT/NETWORK.so, checked against torch and timed.
    Stop it with Ctrl-C at any time and start it again with the same --out: it continues where it stopped.
    """
    from costhub.api.tune import TuneOptions, tune

    options = TuneOptions(
        method=method,
        strategy=strategy,
        select=select,
        stop=stop,
        draft=draft,
        from_scratch=from_scratch,
        space=space,
        arch=arch,
        fast_math=fast_math,
        layout=layout,
        precision=precision,
        torch_compile=torch_compile,
        beside=beside,
        time_unscheduled=time_unscheduled,
        allow_other_kind=allow_other_kind,
        command=shlex.join(["costhub", *sys.argv[1:]]),
    )
    what, where = _subjects(workloads, networks, suites, out), _where(device, tracker, key)
    with saying_what_is_kept(out), interruptible():
        tuning = tune(what, out, trials=trials, model=model_name, device=where, options=options, seed=seed)
    _report(tuning, as_json=as_json)


def _report(tuning: Tuning, *, as_json: bool) -> None:
    """Prints the results; raises a NetworkError if outputs differ from torch's."""
    click.echo(json.dumps(tuning.summary) if as_json else str(tuning))
    wrong = [network.error for network in tuning.networks if network.error]
    if wrong:
        raise NetworkError(" ".join(wrong))


def _subjects(workloads: Sequence[str], networks: Sequence[str], suites: Sequence[str], out: Path) -> Subjects:
    """What is named; a suite may have the name of a network, and `all` exists for both."""
    from costhub.api.subjects import read_subjects

    named = read_subjects([*workloads, *(each.name for each in find_suites(suites))], out)
    return replace(named, networks=(*named.networks, *networks))


def _where(device: str, tracker: str | None, key: str | None) -> str | BoardsAt:
    """The device of this machine, or the boards of the tracker."""
    from costhub.api.measuring import BoardsAt

    check_tracker_options(tracker, key, (device,))
    return BoardsAt(tracker, key) if tracker and key else device


def _named(context: click.Context, workloads: tuple[str, ...]) -> tuple[str, ...]:
    """The workloads; refuses a command that names nothing, before it is asked for its other options."""
    named = (workloads, context.params.get("networks"), context.params.get("suites"))
    if any(named) or context.resilient_parsing:
        return workloads
    raise nothing_named("tune", "tuned/")
