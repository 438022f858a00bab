"""Provides `costhub doctor`: a MetaSchedule database examined, described and mended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from costhub.cli.shared.choices import WholeNumber
from costhub.cli.shared.options import ListingCommand, print_listing
from costhub.files import write_replacing

EXAMPLE = """
\b
Example:
  costhub doctor tuned/
  costhub doctor tuned/ --no-replay        # in seconds, without replaying schedules
  costhub doctor tuned/ --fix clean/
  costhub doctor tuned/ --network resnet18
  costhub doctor tuned/ --target amd-epyc-zen5-2c --fix zen5/    # only the folder's records for one device
  costhub doctor tuned/ --run --best 1     # run the program that TVM would deploy for each workload
"""


def _list_rules(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from costhub.dataset.doctor.database_rules import DATABASE_RULES

    def values() -> list[dict[str, Any]]:
        return [{"id": r.id, "severity": r.severity, "title": r.title, "fix": r.fix} for r in DATABASE_RULES.values()]

    print_listing(
        context, lambda: "\n".join(f"{r.id}  {r.severity:<7}  {r.title}" for r in DATABASE_RULES.values()), values
    )


@click.command("doctor", cls=ListingCommand, epilog=EXAMPLE)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--target",
    metavar="TARGET",
    help="Take only the records for one target: a device of `costhub devices`, 'auto' or a part of this machine, or "
    "attributes of a TVM target as JSON.",
)
@click.option("--no-replay", is_flag=True, help="Do not replay the schedules, which takes most of the time.")
@click.option("--run", is_flag=True, help="Build and run programs for CPUs like this one; compare their outputs.")
@click.option("--best", metavar="N", type=WholeNumber(min=1), help="With --run: only the N fastest of each workload.")
@click.option(
    "--network",
    metavar="NETWORK",
    help="Report which kernels of a network are tuned: a name, or a .pt2 or .json file. Both kinds can run code "
    "(costhub refuses what it recognises in a .pt2): open only files you trust.",
)
@click.option("--fast-math", is_flag=True, help="With --network: it was tuned with --fast-math.")
@click.option("--fix", metavar="OUT", type=click.Path(path_type=Path), help="Write a clean copy to OUT, a new folder.")
@click.option("--no-failures", is_flag=True, help="With --fix: leave out programs that failed.")
@click.option(
    "--manifest",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the identity, file hashes, targets and workloads to FILE, as JSON.",
)
@click.option("--strict", is_flag=True, help="Count warnings as errors.")
@click.option("--workers", type=WholeNumber(min=1), help="Number of child processes; by default one per core.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--rules", is_flag=True, is_eager=True, expose_value=False, callback=_list_rules, help="List the rules.")
@click.pass_context
def command(
    context: click.Context,
    folder: Path,
    target: str | None,
    no_replay: bool,
    run: bool,
    best: int | None,
    network: str | None,
    fast_math: bool,
    fix: Path | None,
    no_failures: bool,
    manifest: Path | None,
    strict: bool,
    workers: int | None,
    as_json: bool,
) -> None:
    """Examine FOLDER, written by a search with TVM's MetaSchedule, without importing or changing it.

    FOLDER holds database_workload.json and database_tuning_record.json, each possibly gzipped, or both as .sqlite,
    from TVM 0.10 to 0.27. Schedules are replayed in child processes; run the command again after an interruption, and
    it continues where it stopped. The exit code is 0 if no error was found (with --strict, no warning either), 1 if one
    was found, and 2 if FOLDER holds no database. --rules lists the rules.
    """
    for given, needs, option in (
        (best is not None, run, "--best goes with --run"),
        (fast_math, network, "--fast-math goes with --network"),
        (no_failures, fix, "--no-failures goes with --fix"),
    ):
        if given and not needs:
            raise click.UsageError(f"{option}.")
    from costhub.api.doctor import CleanCopy, doctor

    if manifest is not None:
        manifest.parent.mkdir(parents=True, exist_ok=True)  # before the work
    found = doctor(
        folder,
        target=target,
        replay=not no_replay,
        run=(best or "all") if run else None,
        network=network,
        fast_math=fast_math,
        fix=None if fix is None else CleanCopy(fix, failures=not no_failures),
        workers=workers,
        progress=not as_json,
    )
    if manifest is not None:
        write_replacing(manifest, f"{json.dumps(found.manifest(), indent=2)}\n".encode())
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else str(found))
    if found.errors or (strict and found.warnings):
        context.exit(1)
