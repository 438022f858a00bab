"""Both benches, of this machine and of boards, can take each other's place."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import pytest

from costhub.collector.boards.boards import Boards
from costhub.collector.boards.server import RunningServer
from costhub.collector.boards.tracker import Tracker
from costhub.collector.build.builder import Builder
from costhub.collector.collect import Proposals, collect
from costhub.collector.device.identify import identify
from costhub.collector.device.local import find_local, local_names
from costhub.collector.measurer import (
    BatchMeasurer,
    BoardBatchMeasurer,
    BuiltProgram,
    BuiltReference,
    LocalBatchMeasurer,
    Measurer,
    Timer,
    board_collection_measurer,
    board_measurer,
    local_collection_measurer,
    local_measurer,
)
from costhub.collector.propose.sampler import Program
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.run.output_check import default_program
from costhub.collector.run.runner import Runner
from costhub.collector.session import Rights
from costhub.collector.workloads.suites import find_suites, find_workload
from costhub.dataset.folder import DataFolder
from costhub.dataset.workload import argument_shapes, module_to_json
from costhub.errors import DeviceError, MeasureError
from costhub.isolation.process import end_idle_children


@pytest.mark.parametrize("bench", [LocalBatchMeasurer, BoardBatchMeasurer])
def test_it_has_the_methods_of_a_bench_with_their_arguments(bench: type) -> None:
    for name in ("launch", "measure"):
        asked = inspect.signature(getattr(BatchMeasurer, name)).parameters
        assert list(inspect.signature(getattr(bench, name)).parameters) == list(asked)


@pytest.mark.parametrize("kind", [Runner, Boards])
@pytest.mark.parametrize("name", ["launch", "run", "run_each"])
def test_a_runner_and_boards_are_timers(kind: Any, name: str) -> None:
    asked, taken = (inspect.signature(getattr(each, name)).parameters for each in (Timer, kind))

    assert list(taken)[: len(asked)] == list(asked)
    assert all(taken[each].default is not inspect.Parameter.empty for each in list(taken)[len(asked) :])


def test_every_program_has_an_outcome_on_every_device_and_no_file_stays(
    builder: Builder, runner: Runner, programs: list[Program]
) -> None:
    built = builder.build([programs[0].module_json, "not a module", programs[1].module_json])
    batch = [BuiltProgram(p, b) for p, b in zip([programs[0], programs[2], programs[1]], built, strict=True)]

    outcomes = list(LocalBatchMeasurer({"a": runner, "b": runner}, builder).measure(batch))

    assert [o.device_id for o in outcomes] == ["a"] * 3 + ["b"] * 3
    assert [o.status for o in outcomes] == ["ok", "build_error", "ok"] * 2
    assert outcomes[0].error is None
    assert outcomes[1].error
    assert all(o.surroundings.reference_s > 0 for o in outcomes)
    assert all((o.surroundings.reference_after_s or 0) > 0 for o in outcomes if o.status == "ok")
    assert not any(b.artifact and os.path.exists(b.artifact) for b in built)


def test_nothing_is_built_while_programs_are_timed(target: str, runner: Runner, programs: list[Program]) -> None:
    with Builder(target, processes=2) as builder:
        built = builder.build([programs[0].module_json])
        under_way = [builder.submit(p.module_json) for p in programs * 4]
        outcomes = LocalBatchMeasurer({"a": runner}, builder).measure([BuiltProgram(programs[0], built[0])])

        next(outcomes)
        states = [psutil.Process(pid).status() for pid in builder._pool.pids]
        done = sum(f.done() for f in under_way)
        outcomes.close()

        assert states == [psutil.STATUS_STOPPED] * len(states)
        assert done < len(under_way)
        wait(under_way, timeout=60)
        assert {f.result().status for f in under_way} == {"ok"}


def test_an_interrupted_batch_leaves_no_file(
    builder: Builder, runner: Runner, programs: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = builder.build([p.module_json for p in programs[:2]])

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(LocalBatchMeasurer({"a": runner}, builder).measure([BuiltProgram(p, b) for p, b in zip(programs, built)]))  # noqa: B905
    assert not any(os.path.exists(b.artifact or "") for b in built)


def test_a_program_that_computes_something_else_is_a_row_of_its_own_kind(
    target: str, builder: Builder, runner: Runner, programs: list[Program]
) -> None:
    default = default_program(find_workload("matmul.128x128x128").module(), target)
    other = default_program(find_workload("matmul.128x768x768").module(), target)
    right, plain, foreign = builder.build([programs[0].module_json, default.module_json, other.module_json])
    assert plain.artifact is not None
    expected = BuiltReference(default, plain.artifact)
    wrong = dataclasses.replace(programs[0], module_json=other.module_json, arguments=other.arguments)

    outcomes = list(
        LocalBatchMeasurer({"a": runner}, builder).measure(
            [BuiltProgram(programs[0], right, expected), BuiltProgram(wrong, foreign, expected)]
        )
    )

    assert outcomes[0].status == "ok"
    assert outcomes[0].ran is not None
    assert outcomes[0].ran.output_checked
    assert outcomes[1].status != "ok" or not outcomes[1].ran.output_checked  # type: ignore[union-attr]


def test_devices_share_one_builder_for_the_one_with_the_most_threads() -> None:
    devices = find_local([name for name, (isa, _) in local_names().items() if isa is None])
    end_idle_children()
    before = set(psutil.Process().children())
    with local_collection_measurer(devices, evaluator=Evaluator(), rights=Rights("me", "MIT")) as rig:
        rig.builder.launch()
        rig.bench.launch()
        children = set(psutil.Process().children()) - before
        cores = [s.target["num-cores"] for s in rig.sessions]
        assert {s.device_id for s in rig.sessions} == {d.device_id for d in devices}
        assert len(set(cores)) == 1
        assert cores[0] == max(d.threads or 0 for d in devices)
        assert {(s.contributor, s.licence) for s in rig.sessions} == {("me", "MIT")}
        assert all(s.cpu_affinity for s in rig.sessions)
        assert [row["device_id"] for row in rig.rows] == [s.device_id for s in rig.sessions]
        assert len(children) >= len(devices) + 1
    end_idle_children()
    assert not any(child.is_running() for child in children)


QUICK = Evaluator(repeat=2, min_repeat_ms=1)


def test_boards_fill_a_folder_as_this_machine_would(
    tmp_path: Path, tracker: Tracker, boards_of_key: list[RunningServer]
) -> None:
    folder = DataFolder.create(tmp_path / "data")
    address = f"{tracker.host}:{tracker.port}"
    with board_collection_measurer(address, "test", evaluator=QUICK, rights=Rights()) as rig:
        for row in rig.rows:
            folder.put_device(row)
        done = collect(
            find_suites(["matmul.128x128x128"]),
            folder,
            rig=rig,
            proposals=Proposals(12, seed=1),
            budget_s=300,
            on_outcome=lambda *_: None,
        )

    rows = folder.measurements().to_pylist()
    assert (done.good, done.failed) == (12, 0)
    assert len({row["program_id"] for row in rows}) == len(rows) == 12
    assert {row["board"] for row in rows} == {"1", "2"}  # no address
    assert {row["device_id"] for row in rows} == {identify()["device_id"]}


@pytest.mark.parametrize("address", ["here", "127.0.0.1:", ":9190", "a:b", "a:²", "a:0", "a:65536"])
def test_what_is_no_address_is_a_sentence(address: str) -> None:
    with (
        pytest.raises(MeasureError, match="HOST:PORT"),
        board_collection_measurer(address, "test", evaluator=QUICK, rights=Rights()),
    ):
        pass


def _here() -> AbstractContextManager[Measurer]:
    return local_measurer(identify(threads=1)["device_id"])


@pytest.fixture(params=["here", "boards"])
def opened(
    request: pytest.FixtureRequest, two_boards: tuple[str, str]
) -> Callable[[], AbstractContextManager[Measurer]]:
    return _here if request.param == "here" else lambda: board_measurer(*two_boards)


def test_programs_are_built_for_a_place_and_timed_there(
    opened: Callable[[], AbstractContextManager[Measurer]],
) -> None:
    small, large = (find_workload(f"matmul.{size}x{size}x{size}").module() for size in (128, 256))
    with opened() as place:
        place.timer.launch()
        built = place.builder.build([module_to_json(mod) for mod in (small, large, small)])
        programs = [
            (str(each.artifact), argument_shapes(mod)) for each, mod in zip(built, (small, large, small), strict=True)
        ]
        ran = dict(place.timer.run_each(programs))

    assert {number: each.status for number, each in ran.items()} == dict.fromkeys(range(3), "ok")
    first, second, third = (min(ran[number].run_s) for number in range(3))
    assert second > 2 * max(first, third)
    assert place.target["num-cores"] == place.row["cores"]


def test_boards_are_elsewhere_and_a_device_of_this_machine_is_here(two_boards: tuple[str, str]) -> None:
    with _here() as here, board_measurer(*two_boards) as boards:
        assert here.boards is None
        assert boards.boards is not None
        assert f"{boards.boards.tracker.host}:{boards.boards.tracker.port}" == two_boards[0]
        assert boards.row["device_id"] == identify()["device_id"]


def test_what_is_not_there_is_a_sentence() -> None:
    with pytest.raises(DeviceError, match="no device named 'amd-epyc-zen9'"), local_measurer("amd-epyc-zen9"):
        pass
    with pytest.raises(MeasureError, match="HOST:PORT"), board_measurer("here", "pair"):
        pass
