"""Provides Clustered: one candidate of each cluster is measured (adaptive sampling, ReLeASE section 4.2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from costhub.dataset.programs import IntArray
from costhub.models.protocol import Scores
from costhub.transfer.selection.knobs import Decision, Knobs, coordinates
from costhub.transfer.selection.selection import Candidates

LEAST, MOST = 8, 64
"""Clusters that are tried first, and the most there can be."""
_STARTS = 8
"""Random starts of the first k-means; the others go on from the one before."""


@dataclass(frozen=True)
class Clustered:
    """Adaptive sampling: k-means over the candidates, as many clusters as their loss is worth.

    After *Reinforcement Learning and Adaptive Sampling for Optimized DNN Compilation* (Ahn et al., 2019),
    section 4.2: k grows from 8 until the loss, the squared distance of candidates from their centroids, falls
    by too little (the knee), and the centroids are measured. So it may choose fewer than it is asked for, and
    never more. A centroid that has been measured already is replaced by the mode: for each knob, the decision
    that most candidates have.

    Not every point is a program, so here a centroid is replaced by the nearest candidate of its cluster, and
    the mode by the nearest candidate that is new and not chosen yet; the knobs of the mode are those of the
    most frequent sketch. The paper's candidates were found by an agent that is rewarded by the model; of
    candidates from elsewhere, those with the best scores take their place. Programs are measured in the order
    of their scores.

    Example:
        >>> programs = [Knobs("s", ((1, choice),)) for choice in (0, 1, 2, 50, 51, 52, 53)]
        >>> some = Candidates(np.arange(7.0), programs)
        >>> Clustered().choose(some, 2, seed=0).tolist() in ([4, 1], [5, 1])
        True
    """

    top: float = 8.0
    """The best `top` * count new candidates are clustered, and with them measured ones that score as well;
    `math.inf` takes all."""
    knee: float = 1.02
    """Clusters are added until one more divides the loss by less than this."""

    name = "clustered"

    def choose(self, candidates: Candidates, count: int, *, seed: int) -> IntArray:
        """See `Selection`."""
        order = candidates.best_first()
        new = candidates.is_new()[order]
        if count < 1 or not new.any():
            return np.zeros(0, np.int64)
        most = np.searchsorted(np.cumsum(new), self.top * count) + 1
        order, new = order[:most], new[:most]
        knobs = [candidates.knobs[place] for place in order.tolist()]
        points = coordinates([*knobs, mode(knobs)])
        central = _central(points[:-1], count, knee=self.knee, seed=seed)
        chosen = central[new[central]]
        near = np.argsort(((points[:-1] - points[-1]) ** 2).sum(axis=1), kind="stable")
        spare = near[new[near] & ~np.isin(near, chosen)]
        ranks: IntArray = np.sort(np.concatenate([chosen, spare[: len(central) - len(chosen)]]))
        return order[ranks]


def mode(programs: list[Knobs]) -> Knobs:
    """For each knob of the most frequent sketch the decision that most programs have, the first of equals.

    Example:
        >>> mode([Knobs("s", ((1, 4),)), Knobs("t", ((1, 2), (3, 0))), Knobs("t", ((1, 2), (3, 1)))])
        Knobs(sketch='t', decisions=((1, 2), (3, 0)))
    """
    ((sketch, _),) = Counter(program.sketch for program in programs).most_common(1)
    own = [program.decisions for program in programs if program.sketch == sketch]
    by_place: dict[int, Counter[Decision]] = {}
    for decisions in own:
        for place, decision in decisions:
            by_place.setdefault(place, Counter())[decision] += 1
    return Knobs(sketch, tuple((p, by_place[p].most_common(1)[0][0]) for p in sorted(by_place)))


def _central(points: Scores, count: int, *, knee: float, seed: int) -> IntArray:
    """The point nearest to the centroid of each cluster, with as many clusters as are worth it."""
    from scipy.cluster.vq import kmeans, vq

    most = min(count, MOST, len(points))
    centres, _ = kmeans(points, min(LEAST, most), iter=_STARTS, rng=np.random.default_rng(seed))
    owner, distance = vq(points, centres)
    loss = float((distance**2).sum())
    while len(centres) < most and loss > 0:
        # A further cluster begins where the centroids describe the candidates worst.
        guess = np.vstack([centres, points[np.argmax(distance)]])
        centres, _ = kmeans(points, guess)
        owner, distance = vq(points, centres)
        before, loss = loss, float((distance**2).sum())
        if knee * loss > before:
            break
    nearest = [np.flatnonzero(owner == c) for c in np.unique(owner)]
    return np.array([members[np.argmin(distance[members])] for members in nearest], np.int64)
