"""Pools on this machine: real programs, built once; what fails when the pool is made is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest

from costhub.collector.build.builder import BuildResult
from costhub.collector.device.local import local_target
from costhub.collector.measurer import BuiltProgram
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.features.specs import find_spec
from costhub.dataset.workload import module_to_json, workload_id
from scripts.bench.common import live_pools
from scripts.bench.common.live_pools import DRAWS, Subject, open_pool, timed


class Made:
    """A measurer and its builder: the programs named in `broken`, by the order of their builds, never run."""

    def __init__(self, folder: Path, broken: Sequence[int] = ()) -> None:
        self.folder, self.broken = folder, broken
        self.target, self.devices = local_target(), (SimpleNamespace(device_id="here"),)
        self.builder, self.builds, self.batches = self, 0, []  # type: ignore[var-annotated]

    def build(self, modules: Sequence[str]) -> list[BuildResult]:
        results = []
        for _ in modules:
            artifact = self.folder / str(self.builds) / "program.so"
            artifact.parent.mkdir()
            artifact.touch()
            results.append(BuildResult("ok", str(artifact), 0.1, None))
            self.builds += 1
        return results

    def measure(self, programs: Sequence[BuiltProgram]) -> Iterator[tuple[int, Any]]:
        self.batches.append(len(programs))
        for place, program in enumerate(programs):
            number = int(Path(str(program.build.artifact)).parent.name)
            yield place, SimpleNamespace(run_s=() if number in self.broken else (3.0, 1.0 + number, 1000.0))


@pytest.fixture(scope="module")
def subject() -> Subject:
    mod = find_workload("matmul.128x128x128").module()
    return Subject(workload_id(mod), "matmul", module_to_json(mod), 1.0)


def test_latencies_are_medians_in_order_and_a_failure_is_infinite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_pools, "TIMED_TOGETHER", 2)
    made = Made(tmp_path, broken=[3])
    built = [BuiltProgram(build, ()) for build in made.build(["{}"] * 5)]

    found = timed(made, built)  # type: ignore[arg-type]

    assert found.tolist() == [3.0, 3.0, 3.0, np.inf, 5.0]
    assert made.batches == [2, 2, 1]


def test_what_fails_is_replaced_and_its_library_removed(tmp_path: Path, subject: Subject) -> None:
    made = Made(tmp_path, broken=[1, 4])

    with open_pool(made, subject, count=4, spec="tiles@1") as pool:  # type: ignore[arg-type]
        held = sorted(int(path.name) for path in tmp_path.iterdir())
        assert held == [0, 2, 3, 5]
        assert pool.first_s.tolist() == [3.0, 3.0, 4.0, 6.0]
        assert pool.measure([3, 0]).tolist() == [6.0, 3.0]
        task = pool.task
    assert list(tmp_path.iterdir()) == []

    assert (task.n, task.workload_id, task.name, task.device_id) == (4, subject.workload_id, "matmul", "here")
    assert len(set(task.knobs)) == 4
    assert task.programs.spec == "tiles@1"
    assert {rows.shape[1] for rows in task.features} == {find_spec("tiles@1").width}
    assert task.programs.latency_s.tolist() == [1.0] * 4  # strategies do not see what was measured


def test_equal_seeds_draw_equal_programs_and_without_a_spec_they_have_no_rows(tmp_path: Path, subject: Subject) -> None:
    drawn = []
    for number, seed in enumerate((0, 0, 1)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with open_pool(Made(folder), subject, count=3, seed=seed) as pool:  # type: ignore[arg-type]
            drawn.append(pool.task.knobs)
            assert pool.task.programs.rows.size == 0

    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_a_pool_in_which_nothing_runs_is_a_sentence(tmp_path: Path, subject: Subject) -> None:
    made = Made(tmp_path, broken=range(100))

    with (
        pytest.raises(click.ClickException, match="Of the programs of matmul, 0 ran"),
        open_pool(made, subject, count=2),  # type: ignore[arg-type]
    ):
        pass

    assert made.builds == 2 * DRAWS
    assert list(tmp_path.iterdir()) == []
