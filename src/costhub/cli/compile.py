"""Provides `costhub compile`: libraries with the best schedules that are known or predicted, without measuring."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import click

from costhub.cli.shared.choices import MODEL, WholeNumber
from costhub.cli.shared.options import (
    ListingCommand,
    allow_other_kind_option,
    arch_option,
    fast_math_option,
    layout_option,
    list_option,
    precision_option,
    seed_option,
    space_option,
    workloads_argument,
)
from costhub.errors import NetworkError, WorkloadError

SOURCES = ("measured", "carried", "model")

EXAMPLE = """
\b
Example:
  costhub compile mobilenet_v2 --out compiled/
  costhub compile mine.pt2 --out compiled/
  costhub compile resnet18.c7 --device amd-epyc-zen5-2c --out compiled/
  costhub compile matmul.512x512x512 --source carried --source model --out compiled/
"""


@click.command("compile", cls=ListingCommand, epilog=EXAMPLE)
@list_option
@workloads_argument("compile", "compiled/")
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar="DEVICE|FILE",
    help="What to compile for: 'auto' (this machine's CPU), a CPU listed by `costhub devices`, a file with the output "
    "of `costhub probe --json` from another machine, or a TVM target as JSON with num-cores.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Folder for the results.")
@click.option(
    "--model",
    "model_name",
    type=MODEL,
    default="auto",
    show_default=True,
    help="Model: a name as for `costhub pull`, or 'auto'.",
)
@arch_option
@click.option(
    "--source",
    "sources",
    multiple=True,
    type=click.Choice(SOURCES),
    default=SOURCES,
    show_default=True,
    help="Where schedules come from: measured for the same workload, carried over from similar ones, or the model's "
    "choice from the design space. May be repeated.",
)
@click.option(
    "--data",
    "folders",
    multiple=True,
    metavar="DATA",
    help="Measurements of your own, besides those in the hubs on this machine. May be repeated.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="NAME",
    help="A workload, suite or network whose measurements to ignore, for benchmarks. May be repeated.",
)
@click.option(
    "--pool",
    default=128,
    show_default=True,
    metavar="N",
    type=WholeNumber(min=1),
    help="Number of random programs per workload that the model scores.",
)
@space_option
@fast_math_option
@layout_option
@precision_option
@allow_other_kind_option
@seed_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    workloads: tuple[str, ...],
    device: str,
    out: Path,
    model_name: str,
    arch: str | None,
    sources: tuple[str, ...],
    folders: tuple[str, ...],
    without: tuple[str, ...],
    pool: int,
    space: str | None,
    fast_math: bool,
    layout: str,
    precision: str,
    allow_other_kind: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Compile each WORKLOAD for a CPU with the best known or predicted schedules, without measuring.

    WORKLOAD is a kernel such as resnet18.c7, a network such as resnet50, a suite, a network saved by torch.export.save
    (.pt2), or a file with a TVM module in JSON (tvm.ir.save_json). Files can run code: open only those you trust.
    --list lists the names.

    The results are a TVM database, a library for each network or workload, and report.json. If the device is this
    machine, outputs are compared with those of the untuned program; for other devices, libraries are only built.
    """
    from costhub.api.compile import CompileOptions, compile

    options = CompileOptions(
        sources=sources,
        without=without,
        data=folders,
        pool=pool,
        space=space,
        arch=arch,
        fast_math=fast_math,
        layout=layout,
        precision=precision,
        allow_other_kind=allow_other_kind,
        command=shlex.join(["costhub", *sys.argv[1:]]),
    )
    compiled = compile(list(workloads), out, model=model_name, device=device, options=options, seed=seed)
    click.echo(json.dumps(compiled.summary) if as_json else str(compiled))
    wrong = [network.error for network in compiled.networks if network.error]
    if wrong:
        raise NetworkError(" ".join(wrong))
    if all(kernel.error for kernel in compiled.kernels):
        raise WorkloadError("No workload got a schedule. The table says why.")
    if compiled.unlinked:
        has = "has" if len(compiled.unlinked) == 1 else "have"
        raise NetworkError(
            f"{' and '.join(compiled.unlinked)} {has} no library, since no linker for the target is installed: on "
            "Debian, install lld or the binutils for it, and run the same command again."
        )
