"""Provides rank_sources: which model of other devices knows most of this one, told by a few programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from costhub.dataset.programs import Programs
from costhub.models.evaluation.evaluate import evaluate
from costhub.models.protocol import CostModel
from costhub.transfer.selection.in_turn import in_turn

PROBED = 32
"""Programs that sources are ranked on: four workloads, eight programs each; docs/transfer.md has what fewer
cost."""


@dataclass(frozen=True)
class RankedSource:
    """A model and how well it ranks what was measured here."""

    name: str
    pairwise: float
    """Mean over workloads of the share of ordered pairs that it ranks right."""


def rank_sources(
    sources: Mapping[str, CostModel],
    programs: Callable[[str], Programs],
    *,
    seed: int = 0,
    probed: int = PROBED,
) -> list[RankedSource]:
    """Ranks models by a few programs of the target, the best first; of equals the one that came first.

    Args:
        sources: Name -> a fitted model.
        programs: Gives the target's programs with the features of a spec.
        seed: Chooses the programs.
        probed: How many to rank on.

    Raises:
        DataError: All of these programs are equally fast.
        ModelError: A model cannot read them.
    """
    found = []
    for name, model in sources.items():
        measured = programs(model.feature_spec).measured()
        few = measured.select(in_turn(measured, probed, seed=seed))
        found.append(RankedSource(name, evaluate(model, few).pairwise))
    return sorted(found, key=lambda source: -source.pairwise)
