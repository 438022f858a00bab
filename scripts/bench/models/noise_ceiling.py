"""Provides noise_ceiling: what a model that knows every true latency would score, given the noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from costhub.dataset.blocks import name_codes
from costhub.dataset.latency import median_latency_s, repeats_by_length
from costhub.dataset.programs import Programs
from costhub.models.evaluate import NOISE_FLOOR, Evaluation, WorkloadScore, evaluate_scores

Latencies = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator], Latencies]
"""A fresh measurement of every program: (n,) seconds."""

# Median of |b / a - 1| over pairs of measurements / standard deviation of one of them, where noise is normal:
# 0.6745 sqrt(2).
_GAP_OF_SIGMA = 0.9539


@dataclass(frozen=True)
class MeasuredRepeats:
    """Measurements without features, all that the ceiling needs."""

    programs: Programs
    """Without rows; latencies are the medians of `repeats`."""
    repeats: pa.ListArray
    """(n,) seconds of every repeat."""

    @classmethod
    def of(cls, table: pa.Table, *, device_id: str = "") -> MeasuredRepeats:
        """The good rows of measurements of one device.

        Args:
            table: With `workload_id` and `run_s`.
            device_id: For the rows of the evaluation.
        """
        latency_s = median_latency_s(table["run_s"])
        good = np.flatnonzero(np.isfinite(latency_s) & (latency_s > 0))
        table, latency_s = table.take(pa.array(good)), latency_s[good]
        names, workload = name_codes(table["workload_id"])
        programs = Programs(
            np.zeros((0, 0), np.float32),
            np.zeros(len(latency_s), np.int64),
            workload,
            names,
            latency_s,
            device_ids=(device_id,),
        )
        return cls(programs, _one_list(table["run_s"]))


def noise_ceiling(
    programs: Programs, draw: Draw, *, draws: int = 20, seed: int = 0, noise_floor: float = NOISE_FLOOR
) -> Evaluation:
    """Evaluates a model that knows the true latencies against equally noisy measurements.

    The measured latency stands for the true one. Each draw measures every program afresh with its own noise;
    the model ranks by the true latency and is compared with the fresh one. Figures are means over the draws.

    The ceiling accounts only for the noise in `draw`. Repeats of one measurement follow each other
    directly, so they do not show drift between sessions, and the collector stops repeating when they agree: a
    ceiling from `repeat_noise` is too high. `gap_noise` takes the noise between two passes instead.

    Args:
        programs: Measured programs; their rows are not used.
        draw: `repeat_noise` or `gap_noise`.
        draws: Fresh measurements of everything.
        seed: Of the draws.
        noise_floor: As in `evaluate`.

    Raises:
        DataError: No workload has two programs that differ by more than the noise.

    Example:
        >>> pair = Programs.from_list([np.ones((1, 2))] * 2, np.array([0, 0]), ("w",), np.array([1e-3, 2e-3]))
        >>> noise_ceiling(pair, gap_noise(pair, 0.01)).top_1
        1.0
    """
    rng = np.random.default_rng(seed)
    score = -programs.latency_s
    by_workload: dict[tuple[str, str], list[WorkloadScore]] = {}
    skipped: dict[str, None] = {}
    for _ in range(draws):
        fresh = replace(programs, latency_s=draw(rng))
        evaluation = evaluate_scores(score, fresh, noise_floor=noise_floor)
        skipped |= dict.fromkeys(evaluation.skipped)
        for row in evaluation.workloads:
            by_workload.setdefault((row.workload_id, row.device_id), []).append(row)
    ranked = {workload_id for workload_id, _ in by_workload}
    never = tuple(name for name in skipped if name not in ranked)
    return Evaluation(tuple(map(_mean, by_workload.values())), noise_floor, never)


def repeat_noise(measured: MeasuredRepeats) -> Draw:
    """Noise of the repeats: the median of as many repeats, drawn again from the program's own.

    The relative difference to the measured median is widened by sqrt(m / (m - 1)) for m repeats, since draws
    with replacement from few repeats are too similar. A program with one repeat gets the relative difference
    of a random other program; if no program has two repeats, there is no noise.
    """
    latency_s = measured.programs.latency_s
    groups = list(repeats_by_length(measured.repeats))

    def draw(rng: np.random.Generator) -> Latencies:
        relative = np.full(len(latency_s), np.nan)
        for rows, values in groups:
            length = values.shape[1]
            if length > 1:
                picked = rng.integers(0, length, size=values.shape)
                fresh = np.median(np.take_along_axis(values, picked, axis=1), axis=1)
                relative[rows] = (fresh / latency_s[rows] - 1.0) * np.sqrt(length / (length - 1))
        finite, unknown = relative[np.isfinite(relative)], np.isnan(relative)
        relative[unknown] = rng.choice(finite, int(unknown.sum())) if len(finite) else 0.0
        # A widened difference may reach -100 %, but a latency is positive.
        return np.asarray(latency_s * np.maximum(1.0 + relative, 0.01))

    return draw


def gap_noise(programs: Programs, median_gap: float) -> Draw:
    """Log-normal noise whose size is that of two passes over the same programs.

    Args:
        programs: The programs.
        median_gap: Median relative difference between the two passes, as the benchmark `noise` measures it.
    """
    sigma = median_gap / _GAP_OF_SIGMA
    return lambda rng: np.asarray(programs.latency_s * np.exp(sigma * rng.standard_normal(programs.n)))


def _one_list(column: pa.ChunkedArray) -> pa.ListArray:
    return pa.concat_arrays([pa.array([], column.type), *column.chunks])


def _mean(rows: Sequence[WorkloadScore]) -> WorkloadScore:
    """The mean of every figure of one workload over the draws."""
    tables: list[Mapping[str, float | int | str]] = [asdict(row) for row in rows]
    means = {
        key: fmean(float(table[key]) for table in tables)
        for key, value in tables[0].items()
        if isinstance(value, float)
    }
    return WorkloadScore(**{**tables[0], **means})  # type: ignore[arg-type]
