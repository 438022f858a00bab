"""Provides adapt: makes a model for this device from a model for others and a few hundred measured programs."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from costhub.dataset.programs import Programs
from costhub.models.inputs import is_informative, nothing_to_learn_error
from costhub.models.protocol import CostModel
from costhub.progress import bar
from costhub.terminal_text import Printed
from costhub.transfer.guard import ADAPTED, CANDIDATES, Guard
from costhub.transfer.methods.by_name import find_method, method_text
from costhub.transfer.methods.lottery import LayerShares
from costhub.transfer.methods.method import TransferMethod
from costhub.transfer.stopping import ADAPT_STOPS, BatchVerdict, Stopped
from costhub.transfer.trial_order import BATCH_SIZE, round_robin
from costhub.versions import load_pandas

DEFAULT_METHOD = "corrected"


@dataclass(frozen=True, repr=False)
class Adaptation(Printed):
    """A model after it has learned from a target device; `print` shows how each batch was ranked."""

    model: CostModel
    """The candidate that led at the end, see `Guard`."""
    chosen: str
    """Its name: `adapted`, or `source` or `local` if transfer did harm."""
    method: str
    """Its name, with the options that differ from their defaults."""
    learned: Programs
    """What it learned from, in the order of the trials."""
    verdicts: tuple[BatchVerdict, ...]
    """One for each batch: how the candidates ranked it before they learned from it."""
    shares: tuple[tuple[LayerShares, ...], ...]
    """For each network and each epoch of the last batch, the share of every layer's parameters that were
    transferable; empty if the method has no masks."""
    kept: tuple[tuple[LayerShares, ...], ...]
    """For each network and each epoch from the second on, the share of those parameters of every layer that
    were transferable in the epoch before and still are."""
    stopped: Stopped | None = None
    """Where and why measuring ended before all trials were spent; None if all were."""
    is_adapted: bool = True
    """Whether the method gave a model with finite scores after any batch; if not, `chosen` is another candidate."""

    @property
    def trials(self) -> int:
        """How many programs it learned from."""
        return self.learned.n

    @property
    def is_ahead(self) -> bool:
        """Whether the adapted model ranked the last tested batch better than the source."""
        tested = [verdict.pairwise for verdict in self.verdicts[1:] if verdict.pairwise]
        return bool(tested) and tested[-1]["adapted"] > tested[-1]["source"]

    @property
    def summary(self) -> str:
        """How the model came about, for its card."""
        text = f"{self.method}, {self.trials} trials"
        if self.stopped is not None:
            text += f" of at most {self.stopped.cap}"
        last = [share for network in self.shares for share in network[-1].values()]
        if last:
            text += f", on average {statistics.fmean(last):.0%} of a layer's weights transferable"
        return text if self.chosen == ADAPTED else f"{text}; the {self.chosen} model was chosen"

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per batch: the share of its pairs that each candidate ranked correctly."""
        return load_pandas().DataFrame(
            [{"trials": each.trials, **each.pairwise, "chosen": each.chosen} for each in self.verdicts]
        )

    def __str__(self) -> str:
        names = [name for name in CANDIDATES if any(name in each.pairwise for each in self.verdicts)]
        rows = [
            [str(each.trials), *(f"{each.pairwise[name]:.3f}" if name in each.pairwise else "-" for name in names)]
            for each in self.verdicts
        ]
        lines = ["".join(f"{cell:>10}" for cell in row) for row in [["trials", *names], *rows]]
        what = "Share of the pairs in each new batch that were ranked correctly before learning from it:"
        ended = [] if self.stopped is None else [str(self.stopped)]
        return "\n".join([f"A {self.model.arch} model adapted by {self.summary}.", *ended, what, *lines])

    def to_json(self) -> dict[str, Any]:
        """Everything but the model, as JSON values."""
        return {
            "method": self.method,
            "trials": self.trials,
            "chosen": self.chosen,
            "curve": [
                {
                    "trials": verdict.trials,
                    "chosen": verdict.chosen,
                    "pairwise": verdict.pairwise,
                    "gains": list(verdict.gains),
                }
                for verdict in self.verdicts
            ],
            "transferable": [list(network) for network in self.shares],
            "kept": [list(network) for network in self.kept],
            "stopped": None if self.stopped is None else self.stopped.to_json(),
        }


@dataclass(frozen=True)
class Source:
    """A fitted model for other devices, which is not changed, and what is known about it."""

    model: CostModel
    programs: Programs | None = None
    """Some of the programs it learned from, for methods that compare with them."""
    is_alike: bool | None = None
    """Whether it learned from latencies like the target's, see `Guard`; None if that is unknown."""


@dataclass(frozen=True)
class Stopping:
    """What may end the measuring of an adaptation before all trials are spent."""

    rule: str
    """A key of `ADAPT_STOPS`."""
    seconds_each: Callable[[], float] = float
    """Returns the seconds that measuring a program takes, for the note on what was saved; 0 if nobody knows."""
    measured: Callable[[], int] = int
    """Returns how many programs were measured so far, including failures; fewer than ran if nobody counted."""

    def stopped(self, why: str | None, ran: int, cap: int) -> Stopped | None:
        """The note about an early end; None if there was no reason, or the cap was reached anyway.

        Args:
            why: The reason.
            ran: How many programs ran.
            cap: How many programs could have been measured.
        """
        trials = max(ran, self.measured())
        if why is None or trials >= cap:
            return None
        return Stopped(self.rule, why, trials, cap, self.seconds_each() * (cap - trials) or None)


def adapt(
    source: CostModel | Source,
    programs: Programs,
    *,
    method: str | TransferMethod = DEFAULT_METHOD,
    trials: int | None = None,
    batch: int = BATCH_SIZE,
    seed: int = 0,
    on_batch: Callable[[BatchVerdict], object] | None = None,
    progress: bool = True,
) -> Adaptation:
    """Adapts a model to another device.

    Args:
        source: A fitted model for other devices; it is not changed. A `Source` also says what is known about it.
        programs: What was measured on the target, with the features that the source reads.
        method: A key of `METHODS`, or a method with its own options.
        trials: How many of the programs to learn from, a few from each workload in turn (see `round_robin`);
            all by default.
        batch: Programs per batch, or a quarter of those before it if they are more; each batch tests the candidates
            before they learn from it (see `Guard`).
        seed: The only source of randomness.
        on_batch: Called with what each batch showed.
        progress: Show a progress bar on a terminal.

    Returns:
        The model that ranked the target's programs best, which has learned from all of the trials.

    Raises:
        UnknownNameError: No method has this name.
        DataError: No workload among the trials has two programs with different latencies.
        ModelError: The source cannot read the programs.

    Example:
        >>> from costhub.models.architectures import new_model
        >>> rows = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
        >>> ones, workload = np.ones(64, np.int64), np.arange(64) // 16
        >>> here = Programs(rows, ones, workload, ("a", "b", "c", "d"), np.exp(rows[:, 0]).astype(float))
        >>> source = new_model("gbt", feature_spec="demo@1", options={"objective": "log", "rounds": 20})
        >>> source.fit(here, None, seed=0, progress=False)
        >>> adaptation = adapt(source, here, trials=48, batch=16, progress=False)
        >>> adaptation.trials, len(adaptation.verdicts), adaptation.chosen
        (48, 3, 'adapted')
    """
    learned = _programs_to_learn(programs, trials, seed)
    places = np.split(np.arange(learned.n), _cuts(learned.n, batch))
    return adapt_to_batches(
        source,
        (learned.select(part) for part in places),
        method=method,
        trials=learned.n,
        seed=seed,
        on_batch=on_batch,
        progress=progress,
    )


def _cuts(programs: int, batch: int) -> list[int]:
    """Where batches end.

    After each, the candidates are trained anew on all programs so far: with batches of one size, that would be
    quadratic work for the thousands of programs of a stored dataset.

    Example:
        >>> _cuts(250, 32)
        [32, 64, 96, 128, 160, 200]
    """
    cuts, end = [], batch
    while end < programs:
        cuts.append(end)
        end += max(batch, end // 4)
    return cuts


def adapt_to_batches(
    source: CostModel | Source,
    batches: Iterable[Programs],
    *,
    trials: int,
    method: str | TransferMethod = DEFAULT_METHOD,
    seed: int = 0,
    stop: Stopping | None = None,
    on_batch: Callable[[BatchVerdict], object] | None = None,
    progress: bool = True,
) -> Adaptation:
    """Adapts a model to another device, batch by batch, as the batches are measured.

    Args:
        source: As for `adapt`, like the other arguments.
        batches: The measured programs, for example from `OnlineTrials.batches`.
        trials: How many programs there will be, for the progress bar.
        method: How the model is carried over.
        seed: The only source of randomness.
        stop: What may end measuring before all trials are spent; by default they are.
        on_batch: Called with what each batch showed.
        progress: Show a progress bar on a terminal.

    Raises:
        UnknownNameError: No method or stop rule has this name.
        DataError: In all batches together, no workload has two programs with different latencies.
        CosthubError: As for `adapt`, or whatever `batches` raises.
    """
    how = find_method(method) if isinstance(method, str) else method
    known = source if isinstance(source, Source) else Source(source)
    guard = Guard(known.model, how, seed=seed, is_alike=known.is_alike, source_programs=known.programs)
    rule, why = None if stop is None else ADAPT_STOPS.find(stop.rule)(), None
    with bar(trials, desc="adapting", unit="trial", enabled=progress) as shown:
        for part in batches:
            measured = part.measured()
            shown.update(part.n)
            if not measured.n:
                continue
            verdict = guard.learn(measured)
            if on_batch is not None:
                on_batch(verdict)
            if rule is not None and (why := rule.reason_to_stop(guard.verdicts)):
                break
    learned = guard.learned
    if learned is None or not is_informative(learned):
        raise nothing_to_learn_error(0 if learned is None else learned.n, "trial")
    masked = getattr(how, "networks", how)
    shares, kept = (tuple(tuple(network) for network in getattr(masked, notes, ())) for notes in ("shares", "kept"))
    return Adaptation(
        model=copy.deepcopy(guard.model),  # The leader may be the source itself.
        chosen=guard.chosen,
        method=method_text(how),
        learned=learned,
        verdicts=tuple(guard.verdicts),
        shares=shares,
        kept=kept,
        stopped=None if stop is None else stop.stopped(why, learned.n, trials),
        is_adapted=guard.is_adapted,
    )


def _programs_to_learn(programs: Programs, trials: int | None, seed: int) -> Programs:
    """The programs to learn from, in the order of measuring."""
    measured = programs.measured()
    learned = measured.select(round_robin(measured, measured.n if trials is None else trials, seed=seed))
    if not is_informative(learned):
        raise nothing_to_learn_error(learned.n, "trial")
    return learned
