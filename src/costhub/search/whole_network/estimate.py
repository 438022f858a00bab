"""Provides network_curve and with_time_shares: what a search's kernels say about their network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from costhub.search.result import TuneResult


def network_curve(
    results: Sequence[TuneResult], weights: Mapping[str, float], order: Sequence[str]
) -> list[tuple[int, float]]:
    """(trials so far, latency of the network in us) over a search: kernels weighted by how often they are called.

    A kernel counts with its untuned latency until one of its programs has run. If an earlier search was
    continued, the order of its trials is not known, so the curve begins after all of them.

    Args:
        results: The results of all kernels.
        weights: Workload -> calls.
        order: The workload of each trial of this search.

    Returns:
        The points where the curve falls, and the last one; none if a kernel has no latency at all.

    Example:
        >>> conv = TuneResult("conv", 2, 0, 1.0, 9.0, 5.0, [(1, 0.1, 7.0), (2, 0.2, 5.0)])
        >>> relu = TuneResult("relu", 1, 0, 1.0, 3.0, 2.0, [(1, 0.1, 2.0)])
        >>> network_curve([conv, relu], {"conv": 10.0, "relu": 1.0}, ["conv", "relu", "conv"])
        [(0, 93.0), (1, 73.0), (2, 72.0), (3, 52.0)]
    """
    timed = Counter(order)
    done = {r.workload: r.trials - timed[r.workload] for r in results}
    best: dict[str, float | None] = {}
    at: dict[str, dict[int, float]] = {}
    for result in results:
        at[result.workload] = {trial: best_us for trial, _, best_us in result.curve}
        before = [us for trial, _, us in result.curve if trial <= done[result.workload]]
        best[result.workload] = before[-1] if before else result.untuned_us
    total = sum(done.values())
    points = _point(total, best, weights)
    for name in order:
        total += 1
        done[name] += 1
        reached = at[name].get(done[name])
        if reached is not None and reached != best[name]:
            known = best[name]
            # An untuned latency may be below that of the first program; the curve shows the best so far.
            best[name] = reached if known is None else min(reached, known)
            points += [p for p in _point(total, best, weights) if not points or p[1] != points[-1][1]]
    if points and points[-1][0] != total:
        points.append((total, points[-1][1]))
    return points


def _point(trials: int, best: Mapping[str, float | None], weights: Mapping[str, float]) -> list[tuple[int, float]]:
    known = {name: us for name, us in best.items() if us is not None}
    if len(known) < len(best):
        return []
    return [(trials, sum(weights[name] * us for name, us in known.items()))]


def with_time_shares(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of workloads with the share of the total time that each takes, before and after.

    Args:
        rows: Rows with `weight`, `untuned_us` and `best_us`; a latency that is None has no share.

    Example:
        >>> rows = [{"weight": 3.0, "untuned_us": 1.0, "best_us": None},
        ...         {"weight": 1.0, "untuned_us": 1.0, "best_us": 1.0}]
        >>> [(row["share_before"], row["share_after"]) for row in with_time_shares(rows)]
        [(0.75, None), (0.25, 1.0)]
    """
    shares: list[dict[str, float | None]] = [{} for _ in rows]
    for key, latency in (("share_before", "untuned_us"), ("share_after", "best_us")):
        times = [row["weight"] * row[latency] if row[latency] is not None else None for row in rows]
        total = sum(time for time in times if time is not None)
        for share, time in zip(shares, times, strict=True):
            share[key] = time / total if time is not None and total else None
    return [{**row, **share} for row, share in zip(rows, shares, strict=True)]
