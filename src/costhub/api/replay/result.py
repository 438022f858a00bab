"""Provides ReplayResult: how a strategy did on all workloads, as a table, as JSON and in the T4 format."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costhub.cards.tables import TableColumn, number, one_line, plain_table
from costhub.files import write_replacing
from costhub.hub.searches import RESULT, RESULT_VERSION
from costhub.search.knobs import Knobs
from costhub.search.replay.judge import ReplayScore, ReplaySettings
from costhub.search.replay.workloads import ReplayWorkload
from costhub.versions import __version__, load_pandas

T4_VERSION = "1.0.0"
_SHOWN = (1, 16, 64)
"""Numbers of trials after which the table shows the best so far."""
_COLUMNS = (
    TableColumn("device", "device"),
    number("workloads", "workloads", "d"),
    number("programs", "programs each", "d"),
    number("programs_total", "in all", ",d"),
    number("trials", "trials", "d"),
    number("score", "score", ".3f"),
    number("error", "±", ".3f"),
    *(number(f"best_{trials}", f"best of {trials}", ".3f") for trials in _SHOWN),
    number("near", "trials to within 5 %", "g"),
    number("random_near", "random", "g"),
)


@dataclass(frozen=True, repr=False)
class ReplayResult:
    """The scores of a strategy; `print` shows them by device.

    Example:
        >>> from costhub.search.replay.judge import replay
        >>> from costhub.search.replay.strategies import RandomOrder
        >>> from costhub.testing import made_replay
        >>> settings = ReplaySettings(seeds=2)
        >>> found = replay(made_replay(), RandomOrder, lambda seed: None, settings)
        >>> ReplayResult("random", "", "", settings, (found,)).summary["workloads"]
        1
    """

    strategy: str
    model: str
    """Name of the model; empty if there was none."""
    method: str
    """How the model learned; empty if there was none."""
    settings: ReplaySettings
    scores: tuple[ReplayScore, ...]
    """One for each workload of each device."""

    @property
    def score(self) -> float:
        """Mean over the devices of the means over their workloads."""
        return statistics.fmean(statistics.fmean(s.score for s in own) for own in self.by_device.values())

    @property
    def summary(self) -> dict[str, Any]:
        """Everything but the curves, for JSON."""
        return {
            "costhub": RESULT,
            "version": RESULT_VERSION,
            "costhub_version": __version__,
            "strategy": self.strategy,
            "model": self.model,
            "method": self.method,
            "batch": self.settings.batch,
            "seeds": self.settings.seeds,
            "score": self.score,
            "workloads": len(self.scores),
            "devices": [_device_row(device, own) for device, own in self.by_device.items()],
        }

    def to_json(self) -> str:
        """The summary, and the curve of each workload, as JSON."""
        rows = [
            {
                "workload_id": s.workload_id,
                "name": s.name,
                "device": s.device_id,
                "programs": s.programs,
                "trials": s.trials,
                "score": s.score,
                "curve": [round(share, 5) for share in s.curve],
                "random_curve": [round(share, 5) for share in s.random_curve],
            }
            for s in self.scores
        ]
        return json.dumps({**self.summary, "rows": rows}, indent=1) + "\n"

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row for each workload: programs, trials, score, trials to within 5 %."""
        return load_pandas().DataFrame(
            [
                {
                    "workload": s.name,
                    "device_id": s.device_id,
                    "programs": s.programs,
                    "trials": s.trials,
                    "score": s.score,
                    "trials_to_near": s.trials_to_near,
                    "random_trials_to_near": s.random_trials_to_near,
                    "workload_id": s.workload_id,
                }
                for s in self.scores
            ]
        )

    def __str__(self) -> str:
        """A line for each device, and the score over all."""
        led = f" with {self.model} ({self.method})" if self.model else ""
        rows = [_device_row(device, own) for device, own in self.by_device.items()]
        legend = (
            "Score: 1 = the optimum at once, 0 = random search. Best of n: optimum / best of the first n, mean over "
            "workloads."
        )
        return f"{one_line(self.strategy + led)}: score {self.score:.3f}\n{plain_table(rows, _COLUMNS)}\n{legend}"

    __repr__ = __str__

    @property
    def by_device(self) -> dict[str, list[ReplayScore]]:
        """The scores of each device."""
        found: dict[str, list[ReplayScore]] = {}
        for score in self.scores:
            found.setdefault(score.device_id, []).append(score)
        return found


def _device_row(device: str, scores: Sequence[ReplayScore]) -> dict[str, Any]:
    """The figures of one device: means over workloads, medians of programs and trials, the sum of its programs."""
    values = [s.score for s in scores]
    near = [s.trials_to_near or s.trials + 1 for s in scores]
    random_near = [s.random_trials_to_near or s.trials + 1 for s in scores]
    return {
        "device": device,
        "workloads": len(scores),
        "programs": int(statistics.median(s.programs for s in scores)),
        "programs_total": sum(s.programs for s in scores),
        "trials": int(statistics.median(s.trials for s in scores)),
        "score": statistics.fmean(values),
        "error": statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None,
        **{
            f"best_{trials}": statistics.fmean(s.curve[min(trials, len(s.curve)) - 1] for s in scores)
            for trials in _SHOWN
        },
        "near": statistics.median(near),
        "random_near": statistics.median(random_near),
    }


def plot_curves(result: ReplayResult, path: str | Path) -> Path:
    """Plots how close the best so far comes to the optimum, averaged over the workloads of each device.

    Args:
        result: The scores.
        path: The picture to write, `.png` or `.svg`.
    """
    from costhub.cards.plots import SERIES, diagram, legend, log2_axis, save, save_svg

    label = "best so far / optimum"
    figure, axes = diagram(4.0, title=f"{result.strategy} {result.model}".strip(), x="trials", y=label)
    for place, (device, scores) in enumerate(result.by_device.items()):
        shortest = min(s.trials for s in scores)
        trials = range(1, shortest + 1)
        for curve, style in (("curve", "-"), ("random_curve", ":")):
            mean = [statistics.fmean(getattr(s, curve)[t - 1] for s in scores) for t in trials]
            name = device if curve == "curve" else f"{device}, random"
            axes.plot(trials, mean, style, color=SERIES[place % len(SERIES)], label=name)
    log2_axis(axes)
    legend(axes)
    return save_svg(figure, path, label=label) if Path(path).suffix == ".svg" else save(figure, path)


def write_t4(result: ReplayResult, workloads: Sequence[ReplayWorkload], folder: str | Path) -> list[Path]:
    """Writes every search in T4, the exchange format of autotuners.

    The schema is `T4.json` of AutoTuningAssociation/autotuning_methodology: one file for each workload and seed, with
    the knobs of each program as its configuration.

    Args:
        result: The scores.
        workloads: The workloads that were searched, in the same order.
        folder: Where the files go; created if missing.

    Returns:
        The files.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for score, workload in zip(result.scores, workloads, strict=True):
        for seed, chosen in enumerate(score.chosen):
            document = {
                "schema_version": T4_VERSION,
                "metadata": {**_metadata(score.device_id), "autotuner": f"costhub {result.strategy}"},
                "results": [_t4_entry(workload, place) for place in chosen],
            }
            name = re.sub(r"[^\w.+-]", "_", f"{score.device_id}-{score.workload_id[:12]}")  # ids may be anybody's
            path = folder / f"{name}-seed{seed}.json"
            write_replacing(path, json.dumps(document).encode())
            written.append(path)
    return written


def _metadata(device: str) -> dict[str, str]:
    # The schema knows CUDA, OpenCL and Vulkan; it has no word for CPUs and ROCm.
    api = {"compute_api": "CUDA"} if device.startswith("nvidia-") else {}
    return {**api, "device": device, "autotuner_version": __version__, "timeunit": "milliseconds"}


def _t4_entry(workload: ReplayWorkload, place: int) -> dict[str, Any]:
    latency_ms = float(workload.latency_s[place]) * 1e3
    return {
        "configuration": dict(_configuration(workload.task.knobs[place])),
        "objectives": ["time"],
        "times": {"runtimes": [latency_ms]},
        "invalidity": "correct",
        "correctness": 1,
        "measurements": [{"name": "time", "value": latency_ms, "unit": "milliseconds"}],
    }


def _configuration(knobs: Knobs) -> Iterator[tuple[str, Any]]:
    """The sketch, and each decision under the number of its instruction."""
    yield "sketch", knobs.sketch[:12]
    for place, decision in knobs.decisions:
        yield f"decision_{place}", list(decision) if isinstance(decision, tuple) else decision
