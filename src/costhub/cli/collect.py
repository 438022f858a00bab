"""The verb ``collect``: measure a suite of workloads on this machine."""

from __future__ import annotations

import contextlib
import json
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from costhub.errors import DeviceError
from costhub.progress import bar

if TYPE_CHECKING:
    from costhub.collector.batch import Outcome
    from costhub.collector.collect import Plan, Progress
    from costhub.collector.row import Session
    from costhub.collector.suite import Workload
    from costhub.dataset.folder import DataFolder

EXAMPLE = """
\b
Example:
  costhub collect --suite resnet18 --trials 64 --budget 30m --out measurements/
"""


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


@click.command("collect", epilog=EXAMPLE)
@click.option(
    "--suite",
    "suites",
    multiple=True,
    required=True,
    help="A suite, one workload of it (resnet18.c7), or 'all'; may be repeated.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Data folder.")
@click.option("--device", default="auto", show_default=True, help="Id of this device, or 'auto'.")
@click.option(
    "--trials",
    default=160,
    show_default=True,
    type=click.IntRange(min=1),
    help="Programs per workload, those already there included.",
)
@click.option("--budget", type=Duration(), default="30m", show_default=True, help="Time limit: 90s, 30m, 2h.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--contributor", default="anonymous", show_default=True, help="Name written into the rows.")
@click.option("--licence", default="CC-BY-4.0", show_default=True, help="Licence of the rows.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    suites: tuple[str, ...],
    out: Path,
    device: str,
    trials: int,
    budget: float,
    seed: int,
    contributor: str,
    licence: str,
    as_json: bool,
) -> None:
    """Measures programs of named workloads on this machine, resumably.

    Stop it with Ctrl-C or `kill` at any time and start it again with the same --out: nothing is measured
    twice, nothing is lost.
    """
    from costhub.collector.row import Session
    from costhub.collector.run_service import Evaluator
    from costhub.collector.suite import find_suites
    from costhub.collector.target import local_target
    from costhub.dataset.folder import DataFolder

    with ended_like_by_ctrl_c():
        workloads = find_suites(suites)
        row, target = _this_device(device), local_target()
        folder = DataFolder.create(out)
        if row["device_id"] not in folder.devices()["device_id"].to_pylist():
            folder.put_device({**row, "target": json.dumps(target)})
        session = Session(row["device_id"], target, Evaluator(), contributor, licence, row["driver"])
        result = _collect(workloads, folder, session, trials=trials, budget_s=budget, seed=seed)
    counts = {"measured": result.done, "good": result.good, "failed": result.failed}
    sentence = (
        f"{result.good} good measurements and {result.failed} failures of {row['device_id']} added to {out}."
    )
    summary = {"device": row["device_id"], **counts, "folder": str(out)}
    click.echo(json.dumps(summary) if as_json else sentence)


@contextlib.contextmanager
def ended_like_by_ctrl_c() -> Iterator[None]:
    """Lets a request to end, or a terminal that closes, interrupt the block as ^C does.

    It is heeded once: both often come twice, to the process and to its group, and must not interrupt the
    cleaning up. Signals that were ignored before stay so: ^C where a shell has started the command in the
    background, and the closing of the terminal under `nohup`, are not meant for it.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in heeded:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    heeded = [number for number, handler in handlers.items() if handler is not signal.SIG_IGN]
    try:
        for number in heeded:
            signal.signal(number, interrupt)
        yield
    finally:
        for number in heeded:
            signal.signal(number, handlers[number])


def _collect(
    workloads: Sequence[Workload],
    folder: DataFolder,
    session: Session,
    *,
    trials: int,
    budget_s: float,
    seed: int,
) -> Progress:
    from costhub.collector.builder import Builder
    from costhub.collector.collect import collect
    from costhub.collector.runner import Runner

    target = json.dumps(session.target)
    with (
        Builder(target) as builder,
        Runner(target, evaluator=session.evaluator) as runner,
        bar(len(workloads) * trials, desc=session.device_id, unit="program") as shown,
    ):

        def show(plan: Plan, outcome: Outcome, progress: Progress) -> None:
            best = progress.best_us.get(plan.workload.name)
            figures = f"best {best:,.0f} us" if best else outcome.status
            shown.set_postfix_str(f"{plan.workload.name} {figures}, failed {progress.failed}", refresh=False)
            shown.update(1)

        return collect(
            workloads,
            folder,
            session=session,
            trials=trials,
            budget_s=budget_s,
            builder=builder,
            runner=runner,
            seed=seed,
            on_outcome=show,
        )


def _this_device(name: str) -> dict[str, Any]:
    """The identity of this machine, which must be the device that was named."""
    from costhub.collector.device import identify

    row = identify()
    if name not in ("auto", row["device_id"]):
        raise DeviceError(
            f"This machine is {row['device_id']!r}, not {name!r}; measure on the device itself, or use "
            "--device auto."
        )
    return row
