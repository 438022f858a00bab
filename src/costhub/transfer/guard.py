"""Provides Guard: transfer that falls back on the source, or on learning from scratch, when it does harm."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from costhub.dataset.programs import Programs
from costhub.errors import DataError
from costhub.models.architectures import new_model
from costhub.models.evaluate import evaluate
from costhub.models.inputs import is_informative
from costhub.models.protocol import CostModel
from costhub.transfer.methods.method import TransferMethod
from costhub.transfer.stopping import BatchVerdict

log = logging.getLogger(__name__)

ADAPTED, SOURCE, LOCAL = "adapted", "source", "local"
"""The model after transfer, the original model, and one that knows only the target."""
CANDIDATES = (ADAPTED, SOURCE, LOCAL)


RECENT_WORKLOADS = 16
"""How many of the latest workloads count when candidates are compared: all candidates learn as they go."""
SURE_ERRORS = 2.0
"""Standard errors that a difference must exceed to count: with one, some of many batches would show a lead
by chance."""
CHANCE = 0.5
"""Share of the pairs that a model of something unrelated ranks correctly."""
LOCAL_MODEL = {"members": "gbt(objective=log) mlp"}
"""Options of the blend that learns only from the target, unless another model is given."""


@dataclass
class Guard:
    """Learns batch by batch, and asks every candidate about a batch before learning from it.

    A batch is a test that costs no extra measurement (prequential evaluation, Dawid, 1984). The adapted model is the
    first choice for a target like the source; for one unlike it, the local model is. Another candidate takes over if
    its lead over the first choice on the last workloads exceeds two standard errors.

    A few workloads say little about how well a source ranks: on four of them, eight programs each, the share of correct
    pairs has a standard error of about 0.1. So what is known about the devices counts for more.

    Args:
        source: The model for other devices; it is not changed.
        method: How the source is carried over.
        seed: Seeds the method and the local model.
        is_alike: Whether source and target are of the same kind, such as two CPUs, and ran the same compiler's code. If
            that is unknown, the local model is the first choice as long as the source has ranked the target no better
            than chance.
        local: Trains the model that learns only from the target, given its programs and a seed; by default a blend.
        source_programs: Some of what the source learned from, for methods that compare with it.
    """

    source: CostModel
    method: TransferMethod
    seed: int = 0
    is_alike: bool | None = None
    local: Callable[[Programs, int], CostModel] | None = None
    source_programs: Programs | None = None
    verdicts: list[BatchVerdict] = field(default_factory=list)
    _measured: list[Programs] = field(default_factory=list)
    _models: dict[str, CostModel] = field(default_factory=dict)
    _shares: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in CANDIDATES})
    is_adapted: bool = False
    """Whether the method has given a model whose scores are finite."""
    _before: CostModel | None = None
    """The leading model before the last batch was learned from."""

    def __post_init__(self) -> None:
        self._models = {ADAPTED: self.source, SOURCE: self.source}

    @property
    def chosen(self) -> str:
        """The candidate that leads."""
        known = self._source_knows() if self.is_alike is None else self.is_alike
        first = ADAPTED if known or LOCAL not in self._models else LOCAL
        leads = {name: self._lead(name, first) for name in CANDIDATES if name != first}
        best = max(leads, key=lambda name: leads[name])
        leader = best if leads[best] > 0 else first
        # If every attempt to adapt it diverged, the adapted model is still the source itself.
        return SOURCE if leader == ADAPTED and self._measured and not self.is_adapted else leader

    @property
    def model(self) -> CostModel:
        """The leading candidate's model; unless it is the source, it has learned from all batches."""
        return self._models[self.chosen]

    @property
    def learned(self) -> Programs | None:
        """What the candidates have learned from, in the order of the batches; None before the first."""
        return Programs.join(self._measured) if self._measured else None

    def learn(self, batch: Programs) -> BatchVerdict:
        """Tests the candidates on a batch, then learns from it.

        Args:
            batch: What was measured last on the target.

        Returns:
            What the test showed; also in `verdicts`.
        """
        trials = sum(part.n for part in self._measured)
        shares = self._test(batch)
        gains = self._gains(batch, shares)
        self._before = self.model
        self._measured.append(batch)
        learned = Programs.join(self._measured)
        adapted = self.method.adapt(self.source, learned, seed=self.seed, source_programs=self.source_programs)
        if np.isfinite(adapted.predict(learned.rows, learned.counts)).all():
            self._models[ADAPTED], self.is_adapted = adapted, True
        else:
            log.warning("%s gave NaN or infinity after %d trials; that model is not used.", self.method.name, learned.n)
        self._learn_alone(learned)
        means = {name: float(np.mean(own)) for name, own in shares.items()}
        verdict = BatchVerdict(trials, means, self.chosen, gains)
        self.verdicts.append(verdict)
        return verdict

    def _test(self, batch: Programs) -> dict[str, tuple[float, ...]]:
        """Candidate -> the share of pairs that it ranks correctly, workload by workload; also noted for comparisons."""
        shares = {name: _right_pairs(model, batch) for name, model in self._models.items()}
        if not all(shares.values()):  # all programs of the batch are equally fast
            return {}
        for name, own in shares.items():
            if name != ADAPTED or self._measured:  # until then it is the source itself
                self._shares[name] += own
        return shares

    def _gains(self, batch: Programs, shares: Mapping[str, tuple[float, ...]]) -> tuple[float, ...]:
        """By how much the leading candidate ranks each workload better than the leader one batch earlier."""
        if self._before is None or not shares:
            return ()
        now, earlier = shares[self.chosen], _right_pairs(self._before, batch)
        return tuple(own - old for own, old in zip(now, earlier, strict=True))

    def _learn_alone(self, learned: Programs) -> None:
        if not is_informative(learned):
            return
        if self.local is not None:
            self._models[LOCAL] = self.local(learned, self.seed)
            return
        model = new_model("blend", feature_spec=self.source.feature_spec, options=LOCAL_MODEL)
        model.fit(learned, None, seed=self.seed, progress=False)
        self._models[LOCAL] = model

    def _source_knows(self) -> bool:
        """Whether the source ranks the target better than chance, beyond `SURE_ERRORS` standard errors.

        Before it has been tested, it is assumed to know a device.
        """
        above = np.array(self._shares[SOURCE]) - CHANCE
        if len(above) < 2:
            return True
        return bool(above.mean() > SURE_ERRORS * _standard_error(above))

    def _lead(self, name: str, first: str) -> float:
        """By how much a candidate leads the first choice, over the last workloads both were tested on.

        Returns:
            The mean lead in pairwise, or 0 if it is not certain.
        """
        # The local model did not exist for the first batches, so only the last ones can be compared.
        theirs, own = self._shares[name], self._shares[first]
        tested = min(len(theirs), len(own), RECENT_WORKLOADS)
        lead = np.array(theirs[len(theirs) - tested :]) - np.array(own[len(own) - tested :])
        if tested < 2 or lead.mean() <= SURE_ERRORS * _standard_error(lead):
            return 0.0
        return float(lead.mean())


def _right_pairs(model: CostModel, batch: Programs) -> tuple[float, ...]:
    """The share of pairs that a model ranks correctly, for each workload; empty if no two programs differ."""
    try:
        return tuple(row.pairwise for row in evaluate(model, batch).workloads)
    except DataError:
        return ()


def _standard_error(values: npt.NDArray[np.float64]) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))
