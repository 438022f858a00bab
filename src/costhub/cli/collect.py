"""Provides `costhub collect`: measured programs of this machine, or of boards, in a data folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.api.collect import Collection, CollectOptions, collect
from costhub.api.measuring import BoardsAt
from costhub.cli.shared.choices import COLLECT_STOP, MODEL, PICTURE, PRECISION, SHARES, SPACE, TRACKER, Duration
from costhub.cli.shared.interaction import interruptible, saying_what_is_kept
from costhub.cli.shared.options import (
    ListingCommand,
    allow_other_kind_option,
    check_tracker_options,
    list_option,
    named_subjects,
    seed_option,
    trials_per_workload_option,
)
from costhub.terminal_text import counted

if TYPE_CHECKING:
    from costhub.collector.collect import Profile
    from costhub.collector.propose.sampler import Shares

EXAMPLE = """
\b
Example:
  costhub collect resnet18.c7 mine.pt2 --out measurements/
  costhub collect --suite resnet18 --trials-per-workload 64 --budget 30m --out measurements/
  costhub collect --network mobilenet_v2 --device amd-epyc-zen5-1c-avx2 --out measurements/
  costhub collect --network resnet50 --space blocked --precision bf16 --out measurements/
  costhub collect --suite all --tracker 127.0.0.1:9190 --key pi4 --out measurements/
  costhub collect --network all --dask tcp://10.0.0.1:8786 --out measurements/
"""


@click.command("collect", cls=ListingCommand, epilog=EXAMPLE)
@list_option
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option(
    "--suite",
    "suites",
    multiple=True,
    help="A suite, one workload of it (resnet18.c7), or 'all'; may be repeated.",
    metavar="SUITE",
)
@click.option(
    "--network",
    "networks",
    metavar="NETWORK",
    multiple=True,
    help="A network by name, a file (.pt2 or relax .json), or 'all'; may be repeated. Files can run code (costhub "
    "refuses what it recognises in a .pt2): open only files you trust.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Data folder.")
@click.option(
    "--device",
    "devices",
    multiple=True,
    default=("auto",),
    show_default=True,
    help="A device of this machine (`costhub devices`); may be repeated; the devices share builds.",
    metavar="DEVICE",
)
@click.option("--tracker", type=TRACKER, help="Measure on the boards of a TVM RPC tracker instead.")
@click.option("--key", metavar="KEY", help="The boards' key at the tracker.")
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Measure on the machines of a Dask cluster instead, which must be of one kind: the address of its scheduler, "
    "such as tcp://10.0.0.1:8786. Its connections are not encrypted by default.",
)
@trials_per_workload_option(160, "Programs per workload, including those already measured.")
@click.option(
    "--budget", type=Duration(), default="30m", show_default=True, help="Time limit, with its unit: 90s, 30m, 2h."
)
@click.option(
    "--stop",
    type=COLLECT_STOP,
    default="never",
    show_default=True,
    help="When to end before trials and time are used up: once more programs no longer improve a model that learns "
    "from them (gain), or never.",
)
@click.option("--space", type=SPACE, default="default", show_default=True, help="Design space: a name, or your own.")
@click.option(
    "--precision",
    type=PRECISION,
    default="float32",
    show_default=True,
    help="What a network's convolutions and dense layers multiply: float32 or, with --space blocked, bf16 (bfloat16, "
    "with sums in float32), on CPUs that compute in it. `costhub tune --help` says which do.",
)
@click.option(
    "--shares",
    type=SHARES,
    help="Share of the programs from each source, for example random=0.5,mutation=0.3,model=0.2; by "
    "default random=0.5,mutation=0.5.",
)
@click.option("--model", "guide", type=MODEL, help="Model for the share `model`: a name as for `costhub pull`.")
@allow_other_kind_option
@click.option("--check-outputs", is_flag=True, help="Compare outputs with the default schedule's.")
@click.option("--flush-caches", is_flag=True, help="Flush the caches before every repeat.")
@seed_option
@click.option(
    "--contributor", metavar="NAME", default="anonymous", show_default=True, help="Name written into the rows."
)
@click.option("--licence", metavar="LICENCE", default="CC-BY-4.0", show_default=True, help="Licence of the rows.")
@click.option("--profile", type=PICTURE, help="Draw where the time went (.png or .svg).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    workloads: tuple[str, ...],
    suites: tuple[str, ...],
    networks: tuple[str, ...],
    out: Path,
    devices: tuple[str, ...],
    tracker: str | None,
    key: str | None,
    dask: str | None,
    trials: int,
    budget: float,
    stop: str,
    space: str,
    precision: str,
    shares: Shares | None,
    guide: str | None,
    allow_other_kind: bool,
    check_outputs: bool,
    flush_caches: bool,
    seed: int,
    contributor: str,
    licence: str,
    profile: Path | None,
    as_json: bool,
) -> None:
    """Measure programs of each WORKLOAD on this machine, on boards or on a cluster.

    WORKLOAD is what `costhub tune` takes: a kernel such as resnet18.c7, a network such as resnet50, a suite (--list
    lists them all), or a file. A name that a suite and a network share is the network; --suite names the suite.

    Stop it with Ctrl-C or `kill` at any time and start it again with the same --out: it continues where it
    stopped, loses nothing and measures nothing twice.
    """
    if not (workloads or suites or networks):
        raise click.UsageError("Nothing to measure: name a workload, as in resnet18.c7, or use --suite or --network.")
    check_tracker_options(tracker, key, devices)
    _check_elsewhere(tracker, dask, devices, check_outputs=check_outputs, has_profile=profile is not None)
    options = CollectOptions(
        contributor=contributor,
        licence=licence,
        space=space,
        precision=precision,
        shares=shares,
        model=guide,
        check_outputs=check_outputs,
        flush_caches=flush_caches,
        allow_other_kind=allow_other_kind,
        stop=stop,
    )
    with saying_what_is_kept(out), interruptible():  # in this order: an interruption may come out of TVM as an error
        what = named_subjects(workloads, suites, networks)
        limits: dict[str, Any] = {"trials": trials, "budget_s": budget, "options": options, "seed": seed}
        if dask is not None:
            from costhub.api.cluster.collect import collect_on_cluster

            done = collect_on_cluster(what, out, dask, device=devices[0], **limits)
        else:
            done = collect(what, out, device=BoardsAt(tracker, key) if tracker and key else devices, **limits)
    # Boards measure while this machine builds, so shares of its time would mean little.
    _report(done, profile, as_json=as_json, with_profile=tracker is None and dask is None)


def _draw_profile(done: Collection, file: Path) -> None:
    from costhub.cards.reports.device_plots import plot_profile

    plot_profile({", ".join(done.device_ids): done.progress.profile.as_dict()}, file)


def _check_elsewhere(
    tracker: str | None, dask: str | None, devices: Sequence[str], *, check_outputs: bool, has_profile: bool
) -> None:
    """Refuses options that do not go with boards or with a cluster."""
    if tracker is not None and (check_outputs or has_profile):
        raise click.UsageError("--check-outputs and --profile are for this machine; leave out --tracker.")
    if dask is not None and (tracker is not None or has_profile or len(devices) > 1):
        raise click.UsageError("--dask goes with one --device, and without --tracker and --profile.")


def _report(done: Collection, picture: Path | None, *, as_json: bool, with_profile: bool) -> None:
    """Prints the outcome, and then draws where the time went, if a file for that is given."""
    progress = done.progress
    if as_json:
        for name, problem in progress.problems.items():
            click.echo(f"{name} was given up: {problem}", err=True)
        counts = {"measured": progress.done, "good": progress.good, "failed": progress.failed}
        told: dict[str, Any] = {
            "devices": done.device_ids,
            **counts,
            "folder": str(done.folder),
            "stopped": progress.stopped,
        }
        told["noise"] = [asdict(noise) for noise in done.noise]
        click.echo(json.dumps({**told, "profile": progress.profile.as_dict()}))
    else:
        click.echo(str(done))
        if progress.done and with_profile:
            click.echo(_table(progress.profile))
    if picture is not None:
        _draw_profile(done, picture)


def _table(profile: Profile) -> str:
    """Where the time went, as text."""
    total = profile.wall_s * profile.cores
    lines = [
        f"  {stage:10} {seconds:8.1f} core-s  {seconds / total:5.1%}" for stage, seconds in profile.seconds.items()
    ]
    summary = (
        f"{profile.good_per_s:.2f} good/s over {profile.wall_s:,.0f} s on {counted(profile.cores, 'core')}; "
        f"LLVM and the runs alone would take {profile.floor_share:.0%} of that."
    )
    return "\n".join([summary, *lines])
