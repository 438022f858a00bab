"""hide_latencies, submit_scores, score_submissions: from measurements to a table of submissions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import costhub
from costhub.api import hidden
from costhub.api.hidden import HiddenScores
from costhub.dataset.features.specs import find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.hidden import task as tasks
from costhub.dataset.hidden.submission import MOST_NAME, Submission
from costhub.errors import ArgumentError, DataError
from costhub.hub.data import find_data

DEVICE, SPEC = "nvidia-h200", "trace_tokens@1"
NOTHING = {"trained_on": "nothing"}


class Oracle:
    """Scores by latencies that it should not have."""

    name = "oracle"
    feature_spec = SPEC

    def __init__(self, sign: float = 1.0) -> None:
        own = costhub.load_programs(DEVICE, spec=SPEC, progress=False)
        rows = np.split(own.rows, np.cumsum(own.counts)[:-1])
        self._known = {part.tobytes(): -sign * seconds for part, seconds in zip(rows, own.latency_s, strict=True)}

    def predict(self, rows: Any, counts: Any) -> Any:
        parts = np.split(rows, np.cumsum(counts)[:-1])
        return np.array([self._known[part.tobytes()] for part in parts])


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> tasks.HiddenTask:
    place, folder = tmp_path_factory.mktemp("hidden"), find_data(DEVICE).path
    chosen = set(sorted(DataFolder.open(folder).workloads()["workload_id"].to_pylist())[:4])
    return tasks.hide_latencies(
        folder, place / "task", place / "kept.csv", name="four", devices={DEVICE}, workloads=chosen
    )


def test_the_true_order_wins_and_its_reverse_loses(task: tasks.HiddenTask, tmp_path: Path) -> None:
    best = costhub.submit_scores(task.path, Oracle(), tmp_path / "best", about={**NOTHING, "seed": 1}, progress=False)
    worst = costhub.submit_scores(
        task.path, Oracle(-1.0), tmp_path / "worst", about={**NOTHING, "model": "reverse"}, progress=False
    )

    found = costhub.score_submissions([worst.path, best.path], task.path.parent / "kept.csv")

    assert [submission.model for submission, _ in found.evaluations] == ["oracle", "reverse"]
    first, last = (evaluation for _, evaluation in found.evaluations)
    assert (first.top_1, first.pairwise) == (1.0, 1.0)
    assert last.pairwise == 0.0
    assert task.latencies_sha256 in str(found)
    frame = found.to_pandas()
    assert (list(frame["model"]), list(frame["workloads"])) == (["oracle", "reverse"], [4, 4])
    assert list(frame["pairwise"]) == [first.pairwise, 0.0]
    assert list(frame["level"]) == [True, False]
    assert frame["top_1_se"][1] == last.standard_errors["top_1"]
    assert found.level == (True, False)
    assert [row["level"] for row in found.rows()] == [True, False]
    row = found.rows()[0]
    assert (row["model"], row["seed"], row["task"], row["spec"]) == ("oracle", 1, "four", SPEC)
    assert row["latencies_sha256"] == task.latencies_sha256
    assert len(row["workload_ids"]) == 4


def test_a_program_that_cannot_be_replayed_comes_last(task: tasks.HiddenTask, tmp_path: Path) -> None:
    class Lost(Oracle):
        def predict(self, rows: Any, counts: Any) -> Any:
            return np.arange(float(len(counts)))

    opened = tasks.HiddenTask.open(task.path)
    submission = costhub.submit_scores(task.path, Lost(), tmp_path / "all", about=NOTHING, progress=False)
    assert set(submission.scores) == set(opened.keys)

    part = Submission.scored(tmp_path / "part", opened, {0: 2.0, 1: 3.0}, {"model": "x", **NOTHING})
    assert set(part.scores) == set(opened.keys)
    assert part.scores[opened.keys[2]] < part.scores[opened.keys[0]] < part.scores[opened.keys[1]]
    huge = Submission.scored(tmp_path / "huge", opened, {0: -1e300, 1: -1e299}, {"model": "x", **NOTHING})
    assert huge.scores[opened.keys[2]] < huge.scores[opened.keys[0]]


class Sum:
    """Scores a program by the sum of its features."""

    def __init__(self, name: str = "sum", spec: str = SPEC) -> None:
        self.name, self.feature_spec = name, spec

    def predict(self, rows: Any, counts: Any) -> Any:
        return np.array([part.sum() for part in np.split(rows, np.cumsum(counts)[:-1])])


TWO_DEVICES = {"amd-epyc-zen3-1c", "amd-epyc-zen3-2c"}


def task_of_two_devices(place: Path) -> tasks.HiddenTask:
    folder = DataFolder.open(find_data("amd-epyc-zen3").path)
    chosen = set(sorted(folder.workloads(["workload_id"])["workload_id"].to_pylist())[:2])
    return tasks.hide_latencies(
        folder.path, place / "t", place / "l.csv", name="two", devices=TWO_DEVICES, workloads=chosen
    )


def test_programs_of_two_devices_are_scored_each_by_its_own_features(tmp_path: Path) -> None:
    task = task_of_two_devices(tmp_path)

    scores = costhub.submit_scores(task.path, Sum(), tmp_path / "sum", about=NOTHING, progress=False).scores

    assert {device for device, _ in scores} == TWO_DEVICES
    spec = find_spec(SPEC)
    expected = [spec.extract(None, [row["trace"]], row["target"])[0] for row in task.rows]
    assert [scores[key] for key in task.keys] == [float(rows.sum()) for rows in expected if rows is not None]


def test_models_of_devices_read_their_own_features_and_are_all_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {"amd-epyc-zen3-1c": Sum("sum", SPEC), "amd-epyc-zen3-2c": Sum("other-sum", "tiles@1")}
    monkeypatch.setattr(hidden, "load_model", lambda name, device: models[device["device_id"]])
    task = task_of_two_devices(tmp_path)

    made = costhub.submit_scores(task.path, "auto", tmp_path / "auto", about=NOTHING, progress=False)

    assert (made.about["model"], made.about["spec"]) == ("sum, other-sum", f"{SPEC}, tiles@1")
    for device, model in models.items():
        alone = costhub.submit_scores(task.path, model, tmp_path / device, about=NOTHING, progress=False).scores
        own = [key for key in task.keys if key[0] == device]
        assert [made.scores[key] for key in own] == [alone[key] for key in own]


def test_names_that_no_table_has_room_for_become_a_number() -> None:
    scorers = [Sum(f"model-{number:03}", SPEC) for number in range(40)]

    assert hidden._joined_names([*scorers[:2], scorers[0]]) == "model-000, model-001"
    assert hidden._joined_names(scorers) == "model-000 and 39 others"
    assert len(hidden._joined_names([Sum("x" * 300, SPEC), *scorers])) <= MOST_NAME


def test_only_the_test_side_of_a_split_takes_part(tmp_path: Path) -> None:
    split = costhub.load_split(DEVICE, "fold-5-seed0-1")

    made = costhub.hide_latencies(DEVICE, tmp_path / "named", tmp_path / "kept.csv", split="fold-5-seed0-1")

    assert made.name == "named"
    assert set(made.workloads) <= set(split.test)
    assert len(made.workloads) > 5


def test_a_split_by_device_hides_its_devices_only(tmp_path: Path) -> None:
    (split,) = costhub.make_splits(
        "amd-epyc-zen3", "device", hold_out=["amd-epyc-zen3-1c"], count=20, out=tmp_path / "splits"
    )
    file = str(tmp_path / "splits" / f"{split.name}.json")

    with pytest.raises(DataError, match="has amd-epyc-zen3-1c to test on"):
        costhub.hide_latencies(
            "amd-epyc-zen3", tmp_path / "t", tmp_path / "l.csv", device="amd-epyc-zen3-2c", split=file
        )
    made = costhub.hide_latencies("amd-epyc-zen3", tmp_path / "t", tmp_path / "l.csv", split=file)

    assert set(made.devices) == {"amd-epyc-zen3-1c"}


def test_what_cannot_predict_and_what_exists_is_refused(task: tasks.HiddenTask, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no method `predict"):
        costhub.submit_scores(task.path, object(), tmp_path / "x")
    with pytest.raises(ArgumentError, match="exists"):
        costhub.submit_scores(task.path, Oracle(), tmp_path)


def test_a_model_that_has_learned_the_task_is_refused(task: tasks.HiddenTask, tmp_path: Path) -> None:
    class Trained(Oracle):
        def __init__(self, device: str, workloads: int) -> None:
            super().__init__()
            learned = sorted(task.workloads)[:workloads]
            self.info = SimpleNamespace(device_ids=(device, "acme-two"), train_workloads=(*learned, "other"))

    with pytest.raises(ArgumentError, match=r"learned from 3 of the 4 workloads of this task on nvidia-h200"):
        costhub.submit_scores(task.path, Trained(DEVICE, 3), tmp_path / "x", progress=False)
    assert not (tmp_path / "x").exists()

    for number, fair in enumerate((Trained(DEVICE, 0), Trained("acme-one", 4))):
        made = costhub.submit_scores(task.path, fair, tmp_path / str(number), progress=False)
        assert made.about["trained_on"] == ", ".join(fair.info.device_ids)


def test_what_an_object_of_ones_own_calls_info_does_not_matter(task: tasks.HiddenTask, tmp_path: Path) -> None:
    class Chatty(Oracle):
        info: ClassVar[dict[str, str]] = {"about": "mine"}

    made = costhub.submit_scores(task.path, Chatty(), tmp_path / "x", about=NOTHING, progress=False)

    assert made.about["trained_on"] == "nothing"


@pytest.mark.parametrize("about", [None, {"trained_on": ""}, {"trained_on": ["nvidia-a100"]}])
def test_a_model_of_which_nothing_says_what_it_has_learned_from_is_refused_before_anything_is_computed(
    task: tasks.HiddenTask, tmp_path: Path, about: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.HiddenTask, "programs", lambda *_, **__: pytest.fail("features were read"))

    with pytest.raises(ArgumentError, match=r"Nothing says what oracle has learned from.*`--about trained_on=\.\.\.`"):
        costhub.submit_scores(task.path, Oracle(), tmp_path / "x", about=about, progress=False)

    assert not (tmp_path / "x").exists()


def test_a_class_of_which_nothing_says_what_it_has_learned_from_is_refused_before_it_trains(
    task: tasks.HiddenTask, tmp_path: Path
) -> None:
    class Trains(Sum):
        def __init__(self) -> None:
            pytest.fail("it was trained")

    with pytest.raises(ArgumentError, match="Nothing says what Trains has learned from"):
        costhub.submit_scores(task.path, Trains, tmp_path / "x", about={"model": "mine"}, progress=False)

    made = costhub.submit_scores(task.path, Sum, tmp_path / "x", about=NOTHING, progress=False)
    assert made.model == "sum"


def table_of(scores: dict[str, Sequence[Sequence[float]]], tmp_path: Path, *, workloads: int) -> HiddenScores:
    """The table of submissions: name -> scores of three programs of each workload, the first of which is fastest."""
    rows = [(f"w{number}", f"{number}-{place}", place + 1) for number in range(workloads) for place in range(3)]
    lines = [f"acme,{workload},{program},{latency}e-3" for workload, program, latency in rows]
    (tmp_path / "kept.csv").write_text("\n".join(["device_id,workload_id,program_id,latency_s", *lines]) + "\n")
    for name, given in scores.items():
        values = [value for part in given for value in part]
        keyed = {("acme", program): value for (_, program, _), value in zip(rows, values, strict=True)}
        Submission.write(tmp_path / name, {"model": name, **NOTHING}, keyed)
    return costhub.score_submissions([tmp_path / name for name in scores], tmp_path / "kept.csv")


RIGHT, TURNED, SECOND, LAST = (3, 2, 1), (3, 1, 2), (2, 3, 1), (1, 2, 3)
"""Scores of programs that take 1, 2 and 3 ms; TURNED chooses the best, but has one pair of three wrong."""


def test_pairs_decide_where_the_first_choices_are_equally_good(tmp_path: Path) -> None:
    found = table_of({"turned": [TURNED] * 3, "right": [RIGHT] * 3, "second": [SECOND] * 3}, tmp_path, workloads=3)

    assert [submission.model for submission, _ in found.evaluations] == ["right", "turned", "second"]
    assert [evaluation.top_1 for _, evaluation in found.evaluations] == [1.0, 1.0, 0.5]


def test_what_pairs_alone_tell_apart_is_not_level(tmp_path: Path) -> None:
    found = table_of({"right": [RIGHT] * 3, "turned": [TURNED] * 3}, tmp_path, workloads=3)

    assert found.level == (True, False)
    assert [line.split()[-2] for line in str(found).splitlines()[:3]] == ["level", "yes", "no"]


@pytest.mark.parametrize(("wrong", "is_level"), [(3, True), (4, False)])
def test_a_result_is_level_if_the_lead_is_within_two_standard_errors_of_the_differences(
    tmp_path: Path, wrong: int, is_level: bool
) -> None:
    # The lead in top-1 is 0.5 in `wrong` of 16 workloads: 0.094 against 2 * 0.0504, and 0.125 against 2 * 0.0559.
    one = [RIGHT] * 16
    found = table_of({"one": one, "two": [*[SECOND] * wrong, *one[wrong:]]}, tmp_path, workloads=16)

    assert found.level == (True, is_level)


def test_what_is_hard_for_both_does_not_make_them_level(tmp_path: Path) -> None:
    # The error of either mean is 0.09, but it comes from workloads that neither can rank.
    one, two = [LAST, RIGHT] * 8, [LAST, RIGHT] * 4 + [LAST, SECOND] * 4

    assert table_of({"one": one, "two": two}, tmp_path, workloads=16).level == (True, False)


def test_of_one_workload_all_are_level(tmp_path: Path) -> None:
    assert table_of({"right": [RIGHT], "last": [LAST]}, tmp_path, workloads=1).level == (True, True)


@pytest.mark.parametrize("values", [{"cores": "x"}, {"cores": 10**400}, {"peak_gflops": [1]}, {"kind": ["cpu"]}])
def test_a_device_of_a_task_that_is_none_is_refused(
    task: tasks.HiddenTask, tmp_path: Path, values: dict[str, Any]
) -> None:
    folder = Path(shutil.copytree(task.path, tmp_path / "task"))
    about = json.loads((folder / tasks.TASK).read_text())
    about["devices"][DEVICE] |= values
    (folder / tasks.TASK).write_text(json.dumps(about))

    with pytest.raises(DataError, match=f"{next(iter(values))}"):
        costhub.submit_scores(folder, "nvidia-h200", tmp_path / "out", progress=False)
