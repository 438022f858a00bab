from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.dataset import blocks as source_module
from costhub.dataset.blocks import ProgramBlocks
from costhub.dataset.features import compute as compute_module
from costhub.dataset.features.cache import NOT_COMPUTED, FeatureCache
from costhub.dataset.features.cache_part import PartLost
from costhub.dataset.features.combined import combine
from costhub.dataset.features.program_key import key_array, keys_of_records
from costhub.dataset.features.specs import DEFAULT_SPEC, find_spec, spec_names
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import iter_programs, load_programs
from costhub.dataset.programs import FloatArray, Programs
from costhub.dataset.schema import STATUSES
from costhub.errors import DataError, UnknownNameError
from costhub.files import CACHE_VARIABLE
from costhub.hub import data
from costhub.models.protocol import CostModel

SPEC = find_spec(DEFAULT_SPEC)
COMPOSITE = f"trace_tokens@1+{SPEC.name}"


def plant(folder: DataFolder, device_id: str, records: list[str], rows: list[FloatArray]) -> None:
    """Puts features into the cache as if they had been computed of these measurements."""
    keys = keys_of_records(folder, device_id)
    FeatureCache(device_id, SPEC).append([keys[record] for record in records], rows)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache: programs of one test are those of another, with other features."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def real(tmp_path: Path, measurement: Any, workload: Any, tiny_matmul: Any) -> DataFolder:
    """Programs of a workload that TVM knows: four good, one whose trace does not replay, one that failed."""
    root = DataFolder.create(tmp_path / "data")
    root.put_workloads([workload(0, workload_id=tiny_matmul.workload_id, module_json=tiny_matmul.module_json)])
    common = {"workload_id": tiny_matmul.workload_id, "target": tiny_matmul.target}
    with root.writer("cpu0") as writer:
        for number, trace in enumerate([*tiny_matmul.traces, tiny_matmul.bad_trace]):
            writer.append(measurement(number, trace=trace, run_s=[number + 1.0], **common))
        failed = {"status": "run_error", "error": "x", "run_s": []}
        writer.append(measurement(9, trace=tiny_matmul.traces[0], **common, **failed))
        writer.append(measurement(10, trace="[[],[]]", workload_id="not in workloads"))
    return root


@pytest.mark.parametrize(
    "read",
    [load_programs, iter_programs, ProgramBlocks.open, data.load_programs, data.iter_programs, data.open_programs],
)
def test_every_reader_has_the_same_default(read: Callable[..., Any]) -> None:
    assert inspect.signature(read).parameters["spec"].default == DEFAULT_SPEC == CostModel.default_spec


def test_programs_are_featurised_once_and_then_read(
    real: DataFolder, tiny_matmul: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_programs(real.path)

    assert first.workload_ids == (tiny_matmul.workload_id,)
    assert sorted(first.latency_s) == [1.0, 2.0, 3.0, 4.0]
    assert first.rows.shape == (4, SPEC.width)

    # The program without features is remembered as well.
    asked: list[bytes] = []
    monkeypatch.setattr(source_module, "compute_missing", lambda *a, **_: asked.extend(a[3].to_pylist()))
    again = load_programs(real.path, device="cpu0")
    assert asked == [keys_of_records(real, "cpu0")["r00010"]], "only the one without a workload can still be missing"
    assert np.array_equal(again.rows, first.rows)
    assert np.array_equal(again.latency_s, first.latency_s)


def test_an_interrupted_computation_is_resumed(real: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_module, "CHUNK_PROGRAMS", 2)
    compute = compute_module.featurise

    def interrupted(chunks: Any, spec: Any, **_: Any) -> Any:
        yield next(iter(compute([next(iter(chunks))], spec)))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compute_module, "featurise", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load_programs(real.path)
    found = FeatureCache("cpu0", SPEC).find(key_array(list(set(keys_of_records(real, "cpu0").values()))))
    assert sum(found.counts != NOT_COMPUTED) == 2

    asked: list[int] = []

    def counted(chunks: Any, spec: Any, **_: Any) -> Any:
        for chunk in chunks:
            asked.append(len(chunk.keys))
            yield from compute([chunk], spec)

    monkeypatch.setattr(compute_module, "featurise", counted)
    assert load_programs(real.path).n == 4
    assert sum(asked) == 3


@pytest.mark.parametrize("name", [*spec_names(), COMPOSITE])
def test_every_spec_gives_programs(name: str, real: DataFolder) -> None:
    found = load_programs(real.path, spec=name)

    # What needs no TVM has features of a trace that does not replay, too.
    assert (found.n, found.spec) == (4 if find_spec(name).needs_tvm else 5, name)
    assert found.rows.shape == (found.counts.sum(), find_spec(name).width)


def test_a_composite_spec_has_the_rows_of_its_parts_out_of_their_caches(
    real: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The fifth program has tokens, and no loops to compute anything else from.
    tokens = load_programs(real.path, spec="trace_tokens@1").select(np.arange(4))
    stores = load_programs(real.path)
    asked: list[str] = []
    monkeypatch.setattr(source_module, "compute_missing", lambda *a, **_: asked.extend(a[3].to_pylist()))

    found = load_programs(real.path, spec=COMPOSITE)

    assert set(asked) == {keys_of_records(real, "cpu0")["r00010"]}, (
        "only the one without a workload can still be missing"
    )
    expected, counts = combine([(tokens.rows, tokens.counts), (stores.rows, stores.counts)])
    assert np.array_equal(found.rows, expected)
    assert np.array_equal(found.counts, counts)
    assert np.array_equal(found.latency_s, stores.latency_s)


def test_programs_that_failed_are_there_where_they_are_asked_for(real: DataFolder) -> None:
    found = load_programs(real.path, spec="trace_tokens@1", failures=True)

    assert found.latency_s.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, np.inf]
    assert found.is_ok.tolist() == [True] * 5 + [False]
    # It is the first program once more, which failed at that time.
    assert np.array_equal(found.rows[: found.counts[0]], found.rows[-found.counts[-1] :])
    assert load_programs(real.path, spec="trace_tokens@1").latency_s.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
def test_every_failure_says_something_about_the_program(status: str, tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("cpu0") as writer:
        writer.append(measurement(0, trace="0", status=status, error="x", run_s=[]))
        # Neither measured nor failed: nobody knows what became of it.
        writer.append(measurement(1, trace="1", run_s=[0.0]))
        writer.append(measurement(2, trace="2", run_s=[]))
    rows = np.ones((2, SPEC.width), np.float32)
    plant(root, "cpu0", [f"r{i:05d}" for i in range(3)], [rows] * 3)

    found = load_programs(root.path, failures=True)

    assert (found.latency_s.tolist(), found.counts.tolist()) == ([np.inf], [2])
    assert load_programs(root.path).n == 0


@pytest.fixture
def two_devices(tmp_path: Path, measurement: Any) -> DataFolder:
    """Workload w0 on both devices, w1 on the first and w2 on the second."""
    root = DataFolder.create(tmp_path / "data")
    for device_id, numbers in (("cpu0", [0, 1, 3]), ("cpu1", [5, 6, 9])):
        with root.writer(device_id) as writer:
            for number in numbers:
                writer.append(measurement(number, trace=str(number), device_id=device_id, run_s=[1.0 + number]))
        rows = [np.full((1, SPEC.width), number, np.float32) for number in numbers]
        plant(root, device_id, [f"r{n:05d}" for n in numbers], rows)
    return root


def test_programs_of_several_devices_come_together(two_devices: DataFolder) -> None:
    found = load_programs(two_devices.path, device=["cpu1", "cpu0", "cpu1"])

    assert found.device_ids == ("cpu1", "cpu0")
    assert found.device.tolist() == [0, 0, 0, 1, 1, 1]
    assert [found.workload_ids[w] for w in found.workload] == ["w0", "w0", "w2", "w0", "w0", "w1"]
    assert found.rows[:, 0].tolist() == [6, 9, 5, 0, 3, 1]
    assert found.latency_s.tolist() == [7, 10, 6, 1, 4, 2]
    assert found.throughput().tolist() == [1, 0.7, 1, 1, 0.25, 1]


def test_programs_of_one_device_say_which(two_devices: DataFolder) -> None:
    assert load_programs(two_devices.path, device="cpu1").device_ids == ("cpu1",)


def test_a_device_that_is_not_there_is_refused(two_devices: DataFolder) -> None:
    with pytest.raises(DataError, match="no measurements of 'gpu0'; it has those of cpu0, cpu1"):
        load_programs(two_devices.path, device=["cpu0", "gpu0"])


def test_batches_of_several_devices_make_up_the_whole(two_devices: DataFolder) -> None:
    devices = ["cpu0", "cpu1"]
    whole = load_programs(two_devices.path, device=devices)

    parts = list(iter_programs(two_devices.path, device=devices, batch_programs=1))

    assert [part.device_ids for part in parts] == [("cpu0",), ("cpu0",), ("cpu1",), ("cpu1",)]
    joined = Programs.join(parts)
    assert np.array_equal(joined.rows, whole.rows)
    assert np.array_equal(joined.throughput(), whole.throughput())


def test_an_unknown_spec_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no feature spec named 'per_row@1'"):
        load_programs(tmp_path, spec="per_row@1")


def test_features_that_are_known_need_no_tvm(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    runs: list[list[float]] = [[1.0], [2.0], [float("nan")], [0.0], [3.0, 5.0]]
    with root.writer("cpu0") as writer:
        for number, run_s in enumerate(runs):
            writer.append(measurement(number, trace=str(number), run_s=run_s))
    rows = [np.full((number, SPEC.width), number, np.float32) for number in range(5)]
    plant(root, "cpu0", [f"r{i:05d}" for i in range(5)], list(rows))

    found = load_programs(root.path, workloads={"w0", "w1"}, progress=False)

    # w0 has programs 0 and 3 (a latency of zero), w1 has 1 and 4.
    assert found.workload_ids == ("w0", "w1")
    assert found.counts.tolist() == [0, 1, 4]
    assert found.rows[:, 0].tolist() == [1, 4, 4, 4, 4]
    assert found.latency_s.tolist() == [1.0, 2.0, 4.0]
    assert found.workload.tolist() == [0, 1, 1]


def test_a_folder_without_good_programs_gives_none(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("cpu0") as writer:
        writer.append(measurement(0, trace="0", status="run_error", error="x", run_s=[]))

    found = load_programs(root.path)
    assert (found.n, found.rows.shape, found.workload_ids) == (0, (0, SPEC.width), ())


def test_several_devices_must_be_told_apart(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    for device_id in ("cpu0", "cpu1"):
        with root.writer(device_id) as writer:
            writer.append(measurement(0, trace="0", device_id=device_id))
    with pytest.raises(DataError, match=r"measurements of 2 devices \(cpu0, cpu1\); name one of them"):
        load_programs(root.path)


@pytest.fixture
def scattered(tmp_path: Path, measurement: Any) -> tuple[DataFolder, list[int]]:
    """300 programs of 7 workloads in three shards, their features in twelve parts in no order."""
    rng = np.random.default_rng(0)
    root = DataFolder.create(tmp_path / "data")
    counts = rng.integers(0, 4, 300)
    for start in range(0, 300, 100):
        with root.writer("cpu0") as writer:
            for number in range(start, start + 100):
                writer.append(
                    measurement(number, trace=str(number), workload_id=f"w{number * 5 % 7}", run_s=[1.0 + number])
                )
    for numbers in rng.permutation(300).reshape(12, -1):
        rows = [np.full((counts[n], SPEC.width), n, np.float32) for n in numbers]
        plant(root, "cpu0", [f"r{n:05d}" for n in numbers], rows)
    return root, counts.tolist()


def test_programs_are_grouped_by_workload_and_in_the_order_of_measurements(
    scattered: tuple[DataFolder, list[int]],
) -> None:
    root, counts = scattered

    found = load_programs(root.path)

    expected = sorted(range(300), key=lambda n: (n * 5 % 7, n))
    assert found.latency_s.tolist() == [1.0 + n for n in expected]
    assert [found.workload_ids[w] for w in found.workload] == [f"w{n * 5 % 7}" for n in expected]
    assert found.counts.tolist() == [counts[n] for n in expected]
    assert found.rows[:, 0].tolist() == [n for n in expected for _ in range(counts[n])]


@pytest.mark.parametrize(("batch_programs", "batches"), [(1, 7), (60, 4), (10_000, 1)])
def test_batches_hold_whole_workloads_and_make_up_the_whole(
    scattered: tuple[DataFolder, list[int]], batch_programs: int, batches: int
) -> None:
    root, _ = scattered
    whole = load_programs(root.path)

    parts = list(iter_programs(root.path, batch_programs=batch_programs))

    assert len(parts) == batches
    assert sum((part.workload_ids for part in parts), ()) == whole.workload_ids
    assert np.array_equal(np.concatenate([part.rows for part in parts]), whole.rows)
    assert np.array_equal(np.concatenate([part.latency_s for part in parts]), whole.latency_s)
    assert all(part.workload.tolist() == sorted(part.workload.tolist()) for part in parts)
    assert {part.spec for part in parts} == {SPEC.name}


def test_a_folder_without_good_programs_has_no_batches(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("cpu0") as writer:
        writer.append(measurement(0, trace="0", status="run_error", error="x", run_s=[]))

    assert list(iter_programs(root.path)) == []


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_part_that_breaks_is_computed_again(
    real: DataFolder, cache: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load_programs(real.path, spec="trace_tokens@1")
    [part] = cache.rglob("part-*")
    if when == "before":
        part.write_bytes(part.read_bytes()[:-100])
    else:
        read = FeatureCache.read
        broken = iter([part])

        def breaking(cache: FeatureCache, found: Any) -> Any:
            for path in broken:
                path.write_bytes(b"")
            return read(cache, found)

        monkeypatch.setattr(FeatureCache, "read", breaking)

    found = load_programs(real.path, spec="trace_tokens@1")

    assert np.array_equal(found.rows, expected.rows)
    assert not part.exists()


def test_a_disk_that_breaks_every_part_is_told(real: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(cache: FeatureCache, found: Any) -> Any:
        raise PartLost

    monkeypatch.setattr(FeatureCache, "read", lost)
    with pytest.raises(DataError, match="keep getting damaged; check the disk"):
        load_programs(real.path, spec="trace_tokens@1")


def test_features_are_computed_where_no_cache_can_be_written(real: DataFolder, cache: Path) -> None:
    cache.write_text("in the way, for root as well")

    assert load_programs(real.path, spec="trace_tokens@1").n == 5
    assert not list(real.path.rglob("part-*"))


def test_a_draw_takes_so_many_programs_of_each_workload_whatever_else_is_read(
    tmp_path: Path, measurement: Any, workload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = DataFolder.create(tmp_path / "data")
    folder.put_workloads([workload(number, workload_id=f"w{number}") for number in range(3)])
    with folder.writer("cpu0") as writer:
        for number in range(60):
            trace = json.dumps([[["a"], [number]], []])
            writer.append(measurement(number, trace=trace, workload_id=f"w{number % 3}", run_s=[number + 1.0]))
    computed: list[int] = []

    def compute(folder: DataFolder, cache: FeatureCache, device: str, missing: Any, *, progress: bool) -> None:
        computed.append(len(missing))
        cache.append(missing.to_pylist(), [np.ones((1, SPEC.width), np.float32)] * len(missing))

    monkeypatch.setattr(source_module, "compute_missing", compute)

    drawn = load_programs(folder.path, per_workload=5, seed=1)
    alone = load_programs(folder.path, per_workload=5, seed=1, workloads={"w2"})
    larger, other = (load_programs(folder.path, per_workload=n, seed=s) for n, s in ((6, 1), (5, 2)))

    assert np.bincount(drawn.workload).tolist() == [5, 5, 5]
    assert computed[0] == 15  # and none of the other 45
    assert set(alone.latency_s) == set(drawn.of_workloads({"w2"}).latency_s)
    assert set(drawn.latency_s) < set(larger.latency_s)
    assert set(drawn.latency_s) != set(other.latency_s)
    assert load_programs(folder.path, per_workload=100).n == 60
    with pytest.raises(DataError, match="per_workload is 0, but must be at least 1"):
        load_programs(folder.path, per_workload=0)
