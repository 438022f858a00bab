"""Provides Submission, the scores that a model gave to the programs of a task, and HiddenLatencies, which judge them.

A submission is a folder: `about.json` names the model and what it has learned from, and `scores.csv` has the columns
`device_id`, `program_id` and `score`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from costhub.dataset.hidden.task import LATENCY_COLUMNS, MOST_BYTES, HiddenTask, Key, codes
from costhub.dataset.programs import Programs
from costhub.errors import ArgumentError, DataError, ScoreError
from costhub.files import open_regular, read_regular, refuse_newer, write_replacing
from costhub.terminal_text import Printed

SUBMISSION_VERSION = 1
"""Raised with every change that makes older submissions unreadable."""
ABOUT, SCORES = "about.json", "scores.csv"
SCORE_COLUMNS = ("device_id", "program_id", "score")
_MOST_ABOUT = 1 << 20
_MOST_LINE = 1 << 20
"""Bytes of a line of a table."""
MOST_NAME = 200
"""Characters of the name of a model, which tables show."""
MOST_SCORES = 5_000_000


@dataclass(frozen=True, repr=False)
class Submission(Printed):
    """Who scored the programs of a task, and the scores; `print` shows how many."""

    path: Path
    about: Mapping[str, Any]
    """`model`, `task`, `trained_on`, and what else its author says: `spec`, `seed`, `url`."""
    scores: Mapping[Key, float]
    """(Device id, program id) -> score; higher is faster."""

    def __str__(self) -> str:
        return f"{self.model}: {len(self.scores):,} programs scored, in {self.path}"

    @property
    def model(self) -> str:
        """What its author calls the model."""
        return str(self.about["model"])

    @classmethod
    def open(cls, path: str | Path) -> Submission:
        """Reads a submission from anybody.

        Raises:
            DataError: The folder is no submission, does not say what the model was trained on, a program is scored
                twice, or a score is not a finite number.
        """
        path = Path(path)
        if not (path / ABOUT).is_file():
            raise DataError(f"{path} has no {ABOUT}. Expected a folder made by `costhub bench submit`.")
        content = read_regular(path / ABOUT, limit=_MOST_ABOUT, follow=False, error=DataError)
        try:
            about = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path / ABOUT} is not JSON. Write an object with `model`.") from error
        if not isinstance(about, dict) or not isinstance(about.get("model"), str) or not about["model"].strip():
            raise DataError(f"{path / ABOUT} must hold an object with `model`, the name of the model.")
        if len(about["model"]) > MOST_NAME:
            raise DataError(f"The name of the model in {path / ABOUT} is longer than {MOST_NAME} characters.")
        refuse_newer(about, newest=SUBMISSION_VERSION, what=path / ABOUT, error=DataError)
        if not names_training(about):
            raise DataError(
                f"{path / ABOUT} does not say what the model has learned from. Every submission does: add "
                '`trained_on`, a text with the devices and datasets, or "nothing".'
            )
        scores: dict[Key, float] = {}
        for number, row in _table(path / SCORES, SCORE_COLUMNS, follow=False):
            key, score = (sys.intern(row[0]), row[1]), _number(row[2])  # millions of rows share a few devices
            if score is None:
                raise DataError(f"{path / SCORES}, line {number}: {row[2]!r:.40} is not a finite number.")
            if key in scores:
                raise DataError(f"{path / SCORES}, line {number}: program {row[1]:.16} is scored a second time.")
            scores[key] = score
            if len(scores) > MOST_SCORES:
                raise DataError(f"{path / SCORES} scores more than {MOST_SCORES:,} programs, more than any task has.")
        return cls(path, about, scores)

    @classmethod
    def write(cls, path: str | Path, about: Mapping[str, Any], scores: Mapping[Key, float]) -> Submission:
        """Writes a submission to a new folder.

        Args:
            path: The folder, which must not exist.
            about: At least `model` and `trained_on`.
            scores: (Device id, program id) -> score.

        Raises:
            ArgumentError: The folder exists, or `about` does not say what the model was trained on.
            ScoreError: A score is NaN or infinite.
        """
        path = Path(path)
        if path.exists():
            raise ArgumentError(f"{path} exists. Choose another name, or remove the folder.")
        if not names_training(about):
            raise ArgumentError('Say what the model has learned from: `trained_on`, a text, which may be "nothing".')
        if not all(map(math.isfinite, scores.values())):
            raise ScoreError("Some scores are NaN or infinite. Every program needs a finite score.")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(SCORE_COLUMNS)
        writer.writerows([device, program, repr(float(score))] for (device, program), score in scores.items())
        path.mkdir(parents=True)
        write_replacing(path / SCORES, text.getvalue().encode())
        write_replacing(path / ABOUT, json.dumps({"version": SUBMISSION_VERSION, **about}, indent=1).encode())
        return cls.open(path)

    @classmethod
    def scored(
        cls, path: str | Path, task: HiddenTask, scores: Mapping[int, float], about: Mapping[str, Any]
    ) -> Submission:
        """Writes the scores of a task's programs, given by their position in `task.keys`.

        A program without a score (this TVM cannot replay it) gets one below all others: it must not be lost.
        """
        lowest = float(min(scores.values(), default=0.0))
        least = min(lowest - 1.0, math.nextafter(lowest, -math.inf))  # Beyond 2**53, 1 less is the same number.
        named = {key: scores.get(place, least) for place, key in enumerate(task.keys)}
        return cls.write(path, {"task": task.name, **about}, named)


@dataclass(frozen=True)
class HiddenLatencies:
    """The latencies that a task withholds."""

    path: Path
    sha256: str
    """To compare with `latencies_sha256` of the task."""
    keys: tuple[Key, ...]
    workload_ids: tuple[str, ...]
    """One per program."""
    latency_s: tuple[float, ...]

    @classmethod
    def open(cls, path: str | Path) -> HiddenLatencies:
        """Reads the file that `hide_latencies` wrote.

        Raises:
            DataError: It is not such a file.
        """
        path = Path(path)
        keys, workload_ids, latency_s = [], [], []
        digest = hashlib.sha256()
        for number, (device, workload, program, text) in _table(path, LATENCY_COLUMNS, follow=True, digest=digest):
            seconds = _number(text)
            if seconds is None or seconds <= 0:
                raise DataError(f"{path}, line {number}: {text!r:.40} is not a latency in seconds.")
            keys.append((device, program))
            workload_ids.append(workload)
            latency_s.append(seconds)
        if len(set(keys)) < len(keys):
            raise DataError(f"{path} names a program twice. Expected the file that `costhub bench hide` wrote.")
        return cls(path, digest.hexdigest(), tuple(keys), tuple(workload_ids), tuple(latency_s))

    def programs(self) -> Programs:
        """The programs without features, in the order of `keys`."""
        names, workload = codes(self.workload_ids)
        devices, device = codes([key[0] for key in self.keys])
        count = len(self.keys)
        return Programs(
            np.zeros((0, 0), np.float32),
            np.zeros(count, np.int64),
            workload,
            names,
            np.array(self.latency_s),
            device=device,
            device_ids=devices,
        )

    def scores_of(self, submission: Submission) -> np.ndarray[Any, np.dtype[np.float64]]:
        """(n,) the scores of a submission, in the order of `keys`.

        Raises:
            DataError: A program is not scored, or one is scored that the task does not have.
        """
        if missing := [key for key in self.keys if key not in submission.scores]:
            raise DataError(
                f"{submission.path} does not score {len(missing):,} of {len(self.keys):,} programs, such as "
                f"{missing[0][1]:.16} on {missing[0][0]}. A submission scores every program of the task."
            )
        if len(submission.scores) > len(self.keys):
            known = set(self.keys)
            other = next(key for key in submission.scores if key not in known)
            raise DataError(
                f"{submission.path} scores program {other[1]:.16} on {other[0]:.40}, which the task does not have. Was "
                "it made for another task?"
            )
        return np.array([submission.scores[key] for key in self.keys])


def names_training(about: Mapping[str, Any]) -> bool:
    """Whether a description says what the model has learned from, which every reader of a table must know.

    Example:
        >>> names_training({"trained_on": "amd-epyc-zen5-2c"}), names_training({"trained_on": " "})
        (True, False)
    """
    text = about.get("trained_on")
    return isinstance(text, str) and bool(text.strip())


def _table(path: Path, columns: Sequence[str], *, follow: bool, digest: Any = None) -> Iterator[tuple[int, list[str]]]:
    """Line number and the cells in the order of `columns` of each line but the first, which names them.

    Args:
        path: The file, of which one line is held at a time.
        columns: The names of the columns.
        follow: Whether it may be a link.
        digest: A hash of `hashlib` that takes in all bytes.

    Raises:
        DataError: It is not such a table, or is too large.
    """
    try:
        with open_regular(path, limit=MOST_BYTES, follow=follow, error=DataError) as file:
            reader = csv.reader(_texts(file, path, digest))
            head = next(reader, [])
            if missing := [name for name in columns if name not in head]:
                raise DataError(f"{path} lacks the column {missing[0]}. Expected CSV with {', '.join(columns)}.")
            places = [head.index(name) for name in columns]
            for row in reader:
                if len(row) != len(head):
                    raise DataError(f"{path}, line {reader.line_num}: {len(row)} cells, but {len(head)} columns.")
                yield reader.line_num, [row[place] for place in places]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not CSV in UTF-8. Expected the columns {', '.join(columns)}.") from error


def _texts(file: BinaryIO, path: Path, digest: Any) -> Iterator[str]:
    """The lines of a file, as text."""
    while line := file.readline(_MOST_LINE + 1):
        if len(line) > _MOST_LINE:
            raise DataError(f"{path} has a line of more than {_MOST_LINE:,} bytes. Expected CSV with a program a line.")
        if digest is not None:
            digest.update(line)
        yield line.decode()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
