"""Provides hide_latencies, submit_scores and score_submissions: a benchmark whose latencies only the scorer has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costhub.api.models import load_model
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.features.specs import DEFAULT_SPEC
from costhub.dataset.folder import DataFolder
from costhub.dataset.hidden import task as tasks
from costhub.dataset.hidden.submission import MOST_NAME, HiddenLatencies, Submission, names_training
from costhub.dataset.hidden.task import HiddenTask
from costhub.dataset.splits.split import find_split
from costhub.errors import ArgumentError
from costhub.hub.catalogue.devices import Device
from costhub.hub.data import find_data
from costhub.models.evaluate import Evaluation, evaluate_scores, lead
from costhub.models.own_code import learned_from, name_of, scorer_given
from costhub.models.protocol import CostModel, Scores
from costhub.terminal_text import Printed, counted
from costhub.versions import load_pandas

DECIDING = ("top_1", "pairwise")
"""The metrics that order a table of submissions; the second decides where the first is equal."""
SHOWN = (*DECIDING, "top_5")
COLUMNS = (
    TableColumn("model", "model"),
    *(part for name in SHOWN for part in (number(name, name, ".3f"), number(f"{name}_se", "±", ".3f"))),
    TableColumn("level", "level"),
    number("workloads", "workloads", "d"),
)


@dataclass(frozen=True, repr=False)
class HiddenScores(Printed):
    """Submissions in the order of a table; `print` shows it."""

    evaluations: tuple[tuple[Submission, Evaluation], ...]
    """The best top-1 first; of equal ones, that with more pairs in the right order."""
    latencies_sha256: str
    """Hash of the file with the latencies, as `task.json` promises it."""

    @property
    def level(self) -> tuple[bool, ...]:
        """For each of `evaluations`, whether the first one cannot be told from it.

        An evaluation is level if the first one leads it by no more than two standard errors both in top-1 and in pairs.
        These are standard errors of the differences on the same workloads. A single workload has none, so all
        are level.
        """
        first = self.evaluations[0][1]
        return tuple(_is_level(first, evaluation) for _, evaluation in self.evaluations)

    def __str__(self) -> str:
        lines = []
        for (submission, evaluation), level in zip(self.evaluations, self.level, strict=True):
            errors = evaluation.standard_errors
            line: dict[str, Any] = {"model": submission.model, "level": "yes" if level else "no"}
            line["workloads"] = len(evaluation.workloads)
            for name in SHOWN:
                line |= {name: evaluation.totals[name], f"{name}_se": errors[name]}
            lines.append(line)
        return f"{plain_table(lines, COLUMNS)}\nlatencies: sha256 {self.latencies_sha256}"

    def rows(self) -> list[dict[str, Any]]:
        """A line for each submission, in the form of `Evaluation.row`: what its author says, `level`, the figures."""
        return [
            evaluation.row({**submission.about, "latencies_sha256": self.latencies_sha256, "level": level})
            for (submission, evaluation), level in zip(self.evaluations, self.level, strict=True)
        ]

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per submission: its model, `level`, figures and errors (`_se`)."""
        rows = []
        for (submission, evaluation), level in zip(self.evaluations, self.level, strict=True):
            errors = {f"{name}_se": error for name, error in evaluation.standard_errors.items()}
            told = {"model": submission.model, "level": level, "workloads": len(evaluation.workloads)}
            rows.append({**told, **evaluation.totals, **errors})
        return load_pandas().DataFrame(rows)


def _is_level(first: Evaluation, other: Evaluation) -> bool:
    leads = (lead(first, other, name) for name in DECIDING)
    return not any(mean > 2 * error for mean, error in leads)


def hide_latencies(
    data: str | Path,
    out: str | Path,
    latencies: str | Path,
    *,
    name: str = "",
    device: str | Sequence[str] | None = None,
    split: str | None = None,
) -> HiddenTask:
    """Makes a task of measurements that nobody has seen: programs for everybody, latencies for whoever scores.

    Args:
        data: A data folder, or the name of a dataset or device.
        out: The folder of the task, to publish. It must not exist.
        latencies: The file for the latencies (CSV), to keep. It must not exist, nor lie in `out`.
        name: What the task is called; by default the name of `out`.
        device: The device, or several; by default the test devices of the split, or else the folder's only one.
        split: Take only the test workloads of this split and, if it is by device, only its test devices.

    Returns:
        The task; `print` shows what it holds.

    Raises:
        ArgumentError: `out` or `latencies` exists, or the file would lie in the task.
        DataError: The data, the device or the split cannot be found, or no program is left.

    Example:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp())
        >>> print(hide_latencies("nvidia-h200", place / "task", place / "kept.csv", split="fold-5-seed0-1"))
        task: 537 programs of 10 workloads on nvidia-h200; latencies withheld
    """
    place = find_data(data)
    folder = DataFolder.open(place.path)
    named = [device] if isinstance(device, str) else list(device or ())
    chosen = find_split(place.path, split) if split else None
    devices = named or ([place.device_id] if place.device_id else list(chosen.test_devices if chosen else ()))
    devices = devices or [folder.only_device(", or several.")]
    if chosen:
        for device_id in devices:
            chosen.check_device(device_id, "test")
    wanted = chosen.test if chosen else folder.workloads()["workload_id"].to_pylist()
    return tasks.hide_latencies(
        place.path, out, latencies, name=name or Path(out).name, devices=set(devices), workloads=set(wanted)
    )


def submit_scores(
    task: str | Path,
    model: str | Path | CostModel | Any,
    out: str | Path,
    *,
    about: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Submission:
    """Scores the programs of a task with a model, and writes the submission.

    Args:
        task: The folder of the task.
        model: A name or folder as for `costhub.load_model`, which is bound to each device; FILE.py:NAME, MODULE:NAME
            or an object with ``predict(rows, counts)``.
        out: The folder of the submission, which must not exist.
        about: What a reader must know of the model: `model` (its name), `trained_on`, `seed`, `url`. A model that
            keeps a record of its training names in `trained_on` the devices that it has learned from; of any other,
            say it here: devices and datasets, or "nothing".
        progress: Show a progress bar on a terminal.

    Returns:
        The submission. A program that this TVM cannot replay is scored below all others.

    Raises:
        ArgumentError: `out` exists, `model` cannot predict, it has learned from measurements of the task's workloads
            on its devices, or nothing says what it has learned from.
        DataError: The task is damaged, or describes a device as none can be.
        CosthubError: The task or the model cannot be found.
    """
    if Path(out).exists():
        raise ArgumentError(f"{out} exists. Choose another name, or remove the folder.")
    opened = HiddenTask.open(task)
    own = scorer_given(model, before_making=lambda kind: _refuse_untold_class(kind, about or {}))
    bound = {
        device: own if own is not None else load_model(str(model), device=_checked(row))
        for device, row in opened.devices.items()
    }
    _refuse_learned(bound, opened)
    by_spec = _devices_by_spec(bound, opened)
    described = {
        "model": _joined_names(bound.values()),
        "spec": ", ".join(by_spec),
        **_training(bound),
        **(about or {}),
    }
    _refuse_untold(described["model"], described)  # before the features are computed
    scores = {
        place: score
        for spec, group in by_spec.items()
        for place, score in _scores(bound, group, opened, spec, progress=progress)
    }
    return Submission.scored(out, opened, scores, described)


def _refuse_untold_class(kind: type, about: Mapping[str, Any]) -> None:
    """Refuses a class of the user's own before it trains, which it may do when it makes its model."""
    if not issubclass(kind, CostModel):  # which records what it has learned from
        _refuse_untold(kind.__name__, about)


def _refuse_untold(model: str, about: Mapping[str, Any]) -> None:
    """Refuses a model if nothing says what it has learned from."""
    if not names_training(about):
        raise ArgumentError(
            f"Nothing says what {model} has learned from, and a submission must. Add it to what you say "
            "of the model: `--about trained_on=...` (in Python `about`), the devices and datasets, or nothing."
        )


def _devices_by_spec(bound: Mapping[str, Any], task: HiddenTask) -> dict[str, set[str]]:
    """Feature spec -> the devices with programs whose model reads it: `auto` may stand for different models."""
    found: dict[str, set[str]] = {}
    for device in sorted({row["device_id"] for row in task.rows}):
        found.setdefault(getattr(bound[device], "feature_spec", DEFAULT_SPEC), set()).add(device)
    return found


def _scores(
    bound: Mapping[str, Any], devices: Set[str], task: HiddenTask, spec: str, *, progress: bool
) -> Iterator[tuple[int, float]]:
    """The position in `task.keys` and the score of each program of some devices that can be replayed."""
    programs, places = task.programs(spec, devices=devices, progress=progress)
    for index, device in enumerate(programs.device_ids):
        mine = (programs.device == index).nonzero()[0]
        if len(mine):
            part = programs.select(mine)
            found: Scores = bound[device].predict(part.rows, part.counts)
            yield from zip(places[mine].tolist(), map(float, found), strict=True)


def _joined_names(scorers: Iterable[Any]) -> str:
    """The names of the models, each once, as short as the name of a submission must be."""
    first, *others = dict.fromkeys(map(name_of, scorers))
    joined = ", ".join([first, *others])
    return joined if len(joined) <= MOST_NAME else f"{first:.{MOST_NAME - 30}} and {counted(len(others), 'other')}"


def _training(bound: Mapping[str, Any]) -> dict[str, str]:
    """What the models themselves say they have learned from."""
    devices = dict.fromkeys(device for scorer in bound.values() for device in learned_from(scorer)[0])
    return {"trained_on": ", ".join(devices)} if devices else {}


def _refuse_learned(bound: Mapping[str, Any], task: HiddenTask) -> None:
    """Refuses a model that knows its task; of an object that keeps no record of its training, nobody can tell."""
    for device, scorer in bound.items():
        devices, learned = learned_from(scorer, [device])
        if device not in devices:
            continue
        own = {row["workload_id"] for row in task.rows if row["device_id"] == device}
        if known := own & learned:
            raise ArgumentError(
                f"{name_of(scorer)} has learned from {len(known)} of the {len(own)} workloads of this task on {device}"
                ", and a submission must not: train a model without them, or name another one."
            )


def score_submissions(submissions: Sequence[str | Path], latencies: str | Path) -> HiddenScores:
    """Scores submissions with the latencies that a task withholds; nothing else is needed.

    Args:
        submissions: Folders of submissions.
        latencies: The file that `hide_latencies` wrote.

    Returns:
        The figures of each, the best first, and which are level with it; `print` shows a table.

    Raises:
        ArgumentError: There are no submissions.
        DataError: A submission is damaged, does not say what its model was trained on, or does not score exactly the
            programs of the task.
    """
    if not submissions:
        raise ArgumentError("There is nothing to score: name at least one submission.")
    hidden = HiddenLatencies.open(latencies)
    programs = hidden.programs()
    found = []
    for path in submissions:
        submission = Submission.open(path)
        found.append((submission, evaluate_scores(hidden.scores_of(submission), programs)))
    found.sort(key=lambda pair: [-pair[1].totals[name] for name in DECIDING])
    return HiddenScores(tuple(found), hidden.sha256)


def _checked(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a device of a task, which anybody may have written.

    Raises:
        DataError: A column of it is not what it says of a device.
    """
    Device.from_row(row)
    return dict(row)
