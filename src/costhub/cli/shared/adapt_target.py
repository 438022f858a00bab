"""Provides the targets of `costhub adapt`, measured already or during the command, and how a source gets there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from costhub.api.measuring import BoardsAt, folder_of, open_measurer
from costhub.api.network_jobs import no_kernels_error
from costhub.api.subjects import named_workloads
from costhub.cli.shared.interaction import interruptible, saying_what_is_kept
from costhub.progress import BarWithLines
from costhub.terminal_text import counted

if TYPE_CHECKING:
    from costhub.collector.collect import CollectionProgress
    from costhub.collector.workload_queue import QueuedWorkload
    from costhub.dataset.programs import Programs
    from costhub.models.info import ModelInfo
    from costhub.transfer.adapt import Adaptation, Source
    from costhub.transfer.methods.method import TransferMethod
    from costhub.transfer.online_trials import OnlineTrials

EVERYTHING = ("all",)


class AdaptTarget(Protocol):
    """A device, with the programs from which a model for it can learn."""

    data: Path
    """The folder of the measurements."""

    @property
    def row(self) -> Mapping[str, Any]:
        """The known facts of the device."""

    def first(self, spec: str) -> Programs:
        """The programs on which sources are compared."""

    def adapted(
        self,
        source: Source,
        method: TransferMethod,
        seed: int,
        stop: str | None,
    ) -> Adaptation:
        """Adapts a source model; `stop` names the rule by which measuring may end early."""

    def test(self, spec: str) -> Programs | None:
        """Programs of held-out workloads; None if nothing is held out."""

    def ended(self, done: Adaptation) -> str | None:
        """Why measuring ended and how many programs failed, once all is measured; None if nothing was."""


@dataclass(frozen=True)
class Carrying:
    """How a source is carried over, as it was typed."""

    name: str
    options: Mapping[str, str]
    source_data: str | None
    """A data folder, or the name of a dataset or device, of the source's own measurements."""
    seed: int
    arch: str | None
    """Architecture of the source; None for that of the best model."""
    stop: str | None = None
    """Name of the rule that ends measuring; None for none."""

    def checked(self) -> Carrying:
        """Itself; refuses wrong options and data before anything is measured; loads torch only where some are given."""
        from costhub.hub.data import find_data

        if self.source_data is not None:
            find_data(self.source_data)
        if self.options or self.source_data is not None:
            check_source = getattr(self.method(), "check_source", None)
            if check_source is not None:
                check_source(given=self.source_data is not None)
        return self

    def method(self) -> TransferMethod:
        """The method with its options."""
        from costhub.transfer.methods.by_name import find_method

        return find_method(self.name, self.options)

    def source_programs(self, spec: str) -> Programs | None:
        """The programs of `--source-data`, with features."""
        from costhub.hub.data import load_programs

        return None if self.source_data is None else load_programs(self.source_data, spec=spec)


@dataclass
class StoredTarget:
    """Measurements of a data folder.

    Args:
        data: The folder.
        device: The device; may be None if the folder has only one.
        split: Name or file of a split; None draws one at random.
        trials: How many programs to learn from; None for all.
        seed: Of the split that is drawn.
    """

    data: Path
    device: str | None
    split: str | None
    trials: int | None
    seed: int
    _read_before: dict[str, tuple[Programs, Programs]] = field(default_factory=dict)

    @cached_property
    def row(self) -> Mapping[str, Any]:
        """The known facts of the device."""
        from costhub.dataset.folder import DataFolder
        from costhub.hub.catalogue.devices import device_rows

        name = self.device or DataFolder.open(self.data).only_device(" with --device.")
        return device_rows(self.data, [name])[name]

    def first(self, spec: str) -> Programs:
        """The programs to learn from."""
        return self._sides(spec)[0]

    def adapted(
        self,
        source: Source,
        method: TransferMethod,
        seed: int,
        stop: str | None,
    ) -> Adaptation:
        """Adapts a source model."""
        from costhub.transfer.adapt import adapt

        return adapt(
            source,
            self.first(source.model.feature_spec),
            method=method,
            trials=self.trials,
            seed=seed,
        )

    def test(self, spec: str) -> Programs:
        """Programs of the workloads that the split holds out."""
        return self._sides(spec)[1]

    def ended(self, done: Adaptation) -> None:
        """None: the programs were measured before."""

    def _sides(self, spec: str) -> tuple[Programs, Programs]:
        if spec not in self._read_before:
            self._read_before[spec] = self._read(spec)
        return self._read_before[spec]

    def _read(self, spec: str) -> tuple[Programs, Programs]:
        from costhub.cli.shared.learning import split_of
        from costhub.dataset.load import load_programs

        device = self.row["device_id"]
        programs = load_programs(self.data, device=device, spec=spec)
        split = split_of(self.data, programs.workload_ids, self.split, self.seed)
        split.check_device(device, "train")
        # A split by device may have the same workloads on both sides: none of them is new to the model.
        return programs.of_workloads(set(split.train)), programs.of_workloads(set(split.test) - set(split.train))


@dataclass
class LiveTarget:
    """A device that is measured while the model learns."""

    data: Path
    row: Mapping[str, Any]
    trials: OnlineTrials
    held_out: OnlineTrials | None

    def first(self, spec: str) -> Programs:
        """The first batch of trials."""
        return self.trials.first(spec)

    def adapted(
        self,
        source: Source,
        method: TransferMethod,
        seed: int,
        stop: str | None,
    ) -> Adaptation:
        """Adapts a source model."""
        from costhub.transfer.adapt import Stopping, adapt_to_batches

        found = adapt_to_batches(
            source,
            self.trials.batches(source.model.feature_spec),
            trials=self.trials.trials,
            method=method,
            seed=seed,
            stop=None if stop is None else Stopping(stop, lambda: self.trials.seconds_each, lambda: self.trials.held),
            progress=False,
        )
        for name, problem in self.trials.problems.items():
            click.echo(f"{name} was given up: {problem}", err=True)
        return found

    def test(self, spec: str) -> Programs | None:
        """Measures the held-out workloads; None if nothing is held out."""
        from costhub.dataset.programs import Programs

        return None if self.held_out is None else Programs.join(list(self.held_out.batches(spec)))

    def ended(self, done: Adaptation) -> str:
        """Why measuring ended and how many programs failed."""
        parts = [self.trials] if self.held_out is None else [self.trials, self.held_out]
        asked, measured, failed = (sum(getattr(part, what) for part in parts) for what in ("trials", "held", "failed"))
        why = f"All {counted(asked, 'trial')} were spent."
        if done.stopped is not None:
            why = str(done.stopped)
        elif measured < asked:
            why = f"{measured:,} of {counted(asked, 'trial')} were spent: the workloads have no more programs."
        return f"{why} Of {counted(measured, 'measured program')}, {failed or 'none'} failed."


def new_to_source(source: ModelInfo, test: Programs | None, name: str, device_id: str) -> Programs | None:
    """The held-out programs, without workloads that the source knows from the same device if others remain.

    Args:
        source: What the source has learned from.
        test: The held-out programs; None if there are none.
        name: Of the source, for messages.
        device_id: The target.
    """
    if test is None or device_id not in source.known_devices:
        return test
    held_out = {test.workload_ids[place] for place in test.workload.tolist()}
    known = held_out & set(source.known_workloads)
    if not known:
        return test
    if known == held_out:
        click.echo(
            f"{name} has learned from all held-out workloads, too: the figures are better than on new ones.", err=True
        )
        return test
    left_out = counted(len(known), "held-out workload")
    click.echo(f"{name} has learned from {left_out} as well; the figures leave them out.", err=True)
    return test.of_workloads(held_out - known)


@contextmanager
def live_target(
    data: Path,
    *,
    where: str | BoardsAt,
    suites: Sequence[str],
    networks: Sequence[str],
    trials: int,
    seed: int,
    contributor: str,
    check: Callable[[Mapping[str, Any]], object] = lambda row: None,
) -> Iterator[LiveTarget]:
    """A device of this machine, or the boards of a tracker, to measure while the model adapts.

    Args:
        data: The folder for the measurements; those already in it are not repeated.
        where: A device of this machine, `auto` for its whole CPU, or boards.
        suites: Suites and workloads by name; all of them if no network is named either.
        networks: Networks by name.
        trials: How many programs to measure.
        seed: Chooses the programs.
        contributor: Name in the rows, whose licence is CC-BY-4.0.
        check: Called with the row of the device, before a folder is made; an error that it raises ends the command.
    """
    from costhub.collector.run.evaluator import COLLECTING
    from costhub.collector.session import Rights
    from costhub.dataset.credit import check_rights
    from costhub.hub.catalogue.devices import complete_device_row
    from costhub.transfer.online_trials import OnlineTrials, distinct_workloads

    check_rights(contributor, None)
    with saying_what_is_kept(data), interruptible(), open_measurer(where, evaluator=COLLECTING) as measurer:
        workloads = named_workloads(suites or (() if networks else EVERYTHING), networks, measurer.target)
        if not workloads:
            raise no_kernels_error(networks, "measured")
        row = complete_device_row(measurer.devices[0].stored_row)
        check(row)
        folder = folder_of(data, measurer)
        with BarWithLines(trials, desc="measuring", unit="program", lines=1) as shown:

            def show(workload: QueuedWorkload, row: dict[str, Any], progress: CollectionProgress) -> None:
                best = f"best {workload.best_us:,.0f} us" if workload.best_us else row["status"]
                state = f"{workload.spec.name}: {best}"
                shown.show(state)
                shown.step()
                shown.log(lambda: f"{progress.done:,} of {trials:,} programs measured; {state}")

            online = OnlineTrials(
                distinct_workloads(workloads),
                folder,
                measurer,
                trials,
                rights=Rights(contributor),
                seed=seed,
                on_row=show,
            )
            yield LiveTarget(data, row, *online.split())
