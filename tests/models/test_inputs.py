from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError
from costhub.models.inputs import check_training, checked_rows, is_informative, read_weights


def programs(latency_s: list[float], workload: list[int]) -> Programs:
    rows = [np.ones((1, 2))] * len(latency_s)
    return Programs.from_list(rows, np.array(workload), ("a", "b"), np.array(latency_s))


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ModelError, match="rows of 3 columns, got 2"):
        checked_rows(np.ones((1, 2), np.float32), np.array([1]), columns=3)


def test_counts_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match="add up to the 1 rows, got 2"):
        checked_rows(np.ones((1, 2), np.float32), np.array([2]), columns=2)


def test_an_empty_array_gets_the_right_width() -> None:
    assert checked_rows(np.zeros((0, 0), np.float32), np.array([0]), columns=2).shape == (0, 2)


@pytest.mark.parametrize(
    ("latency_s", "workload", "expected"),
    [
        ([], [], False),
        ([1.0], [0], False),
        ([1.0, 1.0], [0, 0], False),
        ([1.0, 2.0], [0, 1], False),
        ([1.0, 2.0], [0, 0], True),
        ([1.0, 1.0, 3.0], [0, 1, 1], True),
    ],
)
def test_two_programs_of_one_workload_must_differ(latency_s: list[float], workload: list[int], expected: bool) -> None:
    assert is_informative(programs(latency_s, workload)) == expected


def test_nothing_to_learn_is_said_so() -> None:
    with pytest.raises(DataError, match="nothing to learn from 2 programs"):
        check_training(programs([1.0, 2.0], [0, 1]))
    with pytest.raises(DataError, match=r"no program to learn from: .* module or trace could be read .* spec failed"):
        check_training(programs([1.0, 2.0], [0, 1]).select(np.array([], int)))


def test_a_file_of_the_size_of_a_model_passes(tmp_path: Path) -> None:
    path = tmp_path / "model.ubj"
    path.write_bytes(b"1234")

    assert read_weights(path, "the trees", limit=4) == b"1234"

    path.write_bytes(b"12345")
    with pytest.raises(ModelError, match=r"has 5 bytes\. At most 4 are read"):
        read_weights(path, "the trees", limit=4)


def test_a_missing_file_is_named_with_its_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks model\.ubj, the trees of the model"):
        read_weights(tmp_path / "model.ubj", "the trees")


def to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "kind"), [(Path.mkdir, "a folder"), (os.mkfifo, "a named pipe"), (to_device, "a device")]
)
def test_what_is_no_file_is_said_at_once(make: Callable[[Path], object], kind: str, tmp_path: Path) -> None:
    make(tmp_path / "model.ubj")

    with pytest.raises(ModelError, match=rf"model\.ubj is {kind}"):
        read_weights(tmp_path / "model.ubj", "the trees")
