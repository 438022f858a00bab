from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from costhub.dataset.features import compute as compute_module
from costhub.dataset.features.cache import NOT_COMPUTED, FeatureCache
from costhub.dataset.features.cache_part import FAILED
from costhub.dataset.features.compute import Chunk, compute_missing, extract_features, featurise, read_chunks
from costhub.dataset.features.program_key import key_array, keys_of_records
from costhub.dataset.features.spec import FeatureSpec
from costhub.dataset.features.specs import SPECS, find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.workload import module_from_json
from costhub.errors import DataError, MeasureError
from costhub.files import CACHE_VARIABLE
from costhub.isolation.pool import STARVED, ChildPool, LostCall
from costhub.isolation.process import key_of

SPEC = find_spec("trace_tokens@1")
IDS = [f"r{number:05d}" for number in range(8)]


@pytest.fixture
def folder(tmp_path: Path, measurement: Any, workload: Any) -> DataFolder:
    """Programs of two workloads and of one that is not in the table; every trace has an instruction."""
    root = DataFolder.create(tmp_path / "data")
    root.put_workloads([workload(0), workload(1)])
    with root.writer("cpu0") as writer:
        for number in range(8):
            trace = f'[[["EnterPostproc",[],[{number}],[]]],[]]' if number != 6 else "not a trace"
            writer.append(measurement(number, trace=trace))
    return root


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


def keys_of(folder: DataFolder, ids: Sequence[str] = IDS) -> pa.Array:
    keys = keys_of_records(folder, "cpu0")
    return key_array([keys[record_id] for record_id in ids])


def counts(folder: DataFolder, cache: FeatureCache) -> list[int]:
    return cache.find(keys_of(folder)).counts.tolist()


def test_only_what_is_asked_for_is_computed(folder: DataFolder) -> None:
    cache = FeatureCache("cpu0", SPEC)

    compute_missing(folder, cache, "cpu0", keys_of(folder, ["r00003", "r00002", "r00001", "r00006"]))

    # r00002 is of the workload that is not in the table.
    unknown = [NOT_COMPUTED]
    assert counts(folder, cache) == [*unknown, 1, *unknown, 1, *unknown, *unknown, FAILED, *unknown]


def test_programs_are_found_though_a_writer_moves_the_shards_meanwhile(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, read, calls = keys_of(folder), DataFolder.iter_measurements, []
    known = {key.as_py() for key in keys_of(folder, ["r00000", "r00001", "r00003", "r00004", "r00006", "r00007"])}

    def moved(own: DataFolder, devices: Any, columns: Any) -> Iterator[pa.RecordBatch]:
        calls.append(len(calls))
        for place, batch in enumerate(read(own, devices, columns, batch_rows=3)):
            if place == len(calls):
                raise DataError("the shards have changed")
            yield batch

    monkeypatch.setattr(DataFolder, "iter_measurements", moved)
    found = [key for chunk in read_chunks(folder, "cpu0", keys) for key in chunk.keys]

    assert len(calls) > 1
    assert len(found) == len(set(found)) == len(known)
    assert set(found) == known


def test_a_folder_that_cannot_be_read_is_not_read_for_ever(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, read = keys_of(folder), DataFolder.iter_measurements

    def damaged(own: DataFolder, devices: Any, columns: Any) -> Iterator[pa.RecordBatch]:
        yield next(read(own, devices, columns, batch_rows=1))
        raise DataError("it is damaged")

    monkeypatch.setattr(DataFolder, "iter_measurements", damaged)
    with pytest.raises(DataError, match="it is damaged"):
        list(read_chunks(folder, "cpu0", keys))


def test_what_was_computed_before_an_interruption_is_kept(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = FeatureCache("cpu0", SPEC)
    monkeypatch.setattr(compute_module, "CHUNK_PROGRAMS", 2)
    compute = compute_module.featurise

    def interrupted(chunks: Any, spec: Any, **_: Any) -> Any:
        yield next(iter(compute(chunks, spec)))
        raise KeyboardInterrupt

    monkeypatch.setattr(compute_module, "featurise", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compute_missing(folder, cache, "cpu0", keys_of(folder))

    assert sum(count != NOT_COMPUTED for count in counts(folder, cache)) == 2


def test_parts_of_one_computation_are_put_together(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = FeatureCache("cpu0", SPEC)
    monkeypatch.setattr(compute_module, "_PART_PROGRAMS", 1)
    monkeypatch.setattr(compute_module, "CHUNK_PROGRAMS", 1)

    compute_missing(folder, cache, "cpu0", keys_of(folder))

    assert len(list(cache.folder.glob("part-*"))) == 1
    assert sorted(counts(folder, cache)) == [NOT_COMPUTED, NOT_COMPUTED, FAILED, 1, 1, 1, 1, 1]


def test_there_are_features_or_none_for_each_program(tiny_matmul: Any) -> None:
    traces = (tiny_matmul.traces[0], tiny_matmul.bad_trace, tiny_matmul.traces[1])

    found = extract_features("per_store@1", tiny_matmul.module_json, tiny_matmul.target, traces)

    assert [None if rows is None else rows.shape for rows in found] == [(1, 172), None, (1, 172)]
    [rows] = extract_features("relation@1", tiny_matmul.module_json, tiny_matmul.target, traces[:1])
    assert rows is not None
    assert rows.shape == (3, 123)
    assert extract_features("per_store@1", tiny_matmul.module_json, tiny_matmul.target, ()) == []


@pytest.mark.parametrize("broken", [{"module_json": "{}"}, {"target": "{}"}])
def test_a_bad_module_or_target_gives_no_features(tiny_matmul: Any, broken: dict[str, str]) -> None:
    call = {"module_json": tiny_matmul.module_json, "target": tiny_matmul.target} | broken

    assert extract_features("per_store@1", **call, traces=tiny_matmul.traces[:2]) == [None, None]


PER_STORE = find_spec("per_store@1")


def chunk(tiny: Any, *traces: str, name: str = "c") -> Chunk:
    keys = tuple(f"{name}{number}".encode() for number in range(len(traces)))
    return Chunk(tiny.module_json, tiny.target, keys, traces)


def test_every_chunk_comes_back_with_the_features_of_its_programs(tiny_matmul: Any) -> None:
    chunks = [chunk(tiny_matmul, trace, name=str(i)) for i, trace in enumerate(tiny_matmul.traces)]
    no_module = Chunk("{}", tiny_matmul.target, (b"bad",), tiny_matmul.traces[:1])
    expected = PER_STORE.extract(module_from_json(tiny_matmul.module_json), tiny_matmul.traces, tiny_matmul.target)

    found = {c.keys[0].decode(): features[0] for c, features in featurise([*chunks, no_module], PER_STORE, workers=2)}

    assert sorted(found) == ["00", "10", "20", "30", "bad"]
    assert found["bad"] is None
    for i, rows in enumerate(expected):
        assert np.array_equal(found[f"{i}0"], rows)


FAILING = """
import numpy as np
from costhub.dataset.features.spec import spec_of_modules

def rows(mod):
    raise KeyError("of the function")

SPEC = spec_of_modules("failing_here@1", ("a",), rows)
"""


@pytest.mark.slow
def test_what_a_users_function_raises_in_a_child_is_told_here(
    tiny_matmul: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "costhub_failing.py").write_text(FAILING)
    metadata = tmp_path / "failing-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: failing\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[costhub.features]\nfailing_here@1 = costhub_failing:SPEC\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)  # of the child
    vars(SPECS).pop("_added", None)
    try:
        spec = find_spec("failing_here@1")
        chunks = [chunk(tiny_matmul, trace, name=str(i)) for i, trace in enumerate(tiny_matmul.traces)]
        found = [features for _, features in featurise(chunks, spec, workers=2)]
    finally:
        vars(SPECS).pop("_added", None)

    assert found == [[None]] * len(chunks)
    (record,) = caplog.records
    assert "The function of the feature spec failing_here@1 failed on a program (KeyError: " in record.getMessage()
    assert "of the function" in record.getMessage()


# JSON of the right form; TVM 0.27 reads its null as a pointer.
CRASHING = '[[["GetSBlock",[],["C","main"],["b0"]]],[[0,null]]]'


def test_a_program_that_brings_tvm_down_costs_only_itself(tiny_matmul: Any) -> None:
    good = tiny_matmul.traces
    crowd = chunk(tiny_matmul, good[0], CRASHING, good[1])

    [(_, found)] = featurise([crowd], PER_STORE, workers=1)

    assert [rows is not None for rows in found] == [True, False, True]


def test_programs_for_which_the_machine_was_too_busy_are_computed_next_time(
    tiny_matmul: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    crowd = chunk(tiny_matmul, *tiny_matmul.traces[:2])
    tried = ChildPool._try

    def starved(pool: ChildPool, child: Any, function: Any, args: Any, timeout_s: float) -> Any:
        if args[-1] in (crowd.traces, crowd.traces[1:]):
            return LostCall(STARVED)
        return tried(pool, child, function, args, timeout_s)

    monkeypatch.setattr(ChildPool, "_try", starved)

    [(left, found)] = featurise([crowd], PER_STORE, workers=1)

    assert left == replace(crowd, keys=crowd.keys[:1], traces=crowd.traces[:1])
    assert [rows is not None for rows in found] == [True]
    assert "1 program will be left out: other programs kept this machine too busy" in caplog.text


@pytest.mark.parametrize("count", [1, 3])
def test_rows_of_other_programs_than_were_asked_for_are_not_kept(
    count: int, tiny_matmul: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [np.ones((1, PER_STORE.width), np.float32)] * count
    monkeypatch.setattr(ChildPool, "_try", lambda *_: (rows, {}))

    with pytest.raises(DataError, match=rf"gave rows of {count} programs for 2 programs: `extract` returns one array"):
        list(featurise([chunk(tiny_matmul, *tiny_matmul.traces[:2])], PER_STORE, workers=1))
    of_traces = FeatureSpec("short@1", ("a",), lambda *_: rows, lambda *_: rows, needs_tvm=False)
    with pytest.raises(DataError, match="The feature spec short@1 gave rows of"):
        list(featurise([chunk(tiny_matmul, *tiny_matmul.traces[:2])], of_traces))


def test_what_tvm_cannot_take_costs_itself_and_what_a_users_code_raises_is_a_sentence(
    tiny_matmul: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("of the code")

    monkeypatch.setattr(compute_module, "find_spec", lambda name: SimpleNamespace(extract=fail))
    asked = (tiny_matmul.module_json, tiny_matmul.target, tiny_matmul.traces)

    assert extract_features("tiles@1", *asked) == [None] * len(tiny_matmul.traces)
    with pytest.raises(DataError, match=r"The code of the feature spec mine@1 failed \(KeyError: 'of the code'\)"):
        extract_features("mine@1", *asked)


def test_children_that_had_programs_of_one_origin_get_none_of_another(
    tiny_matmul: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = []

    def pool(*_: Any, limits: Any, environment: Any, **__: Any) -> Any:
        keys.append(key_of(limits, environment))
        raise MeasureError("enough")

    monkeypatch.setattr(compute_module, "ChildPool", pool)
    for origin in ("one", "another", "one"):
        with pytest.raises(MeasureError):
            next(featurise([chunk(tiny_matmul, tiny_matmul.traces[0])], PER_STORE, origin=origin))

    assert keys[0] == keys[2] != keys[1]


def test_no_chunks_need_no_children() -> None:
    assert list(featurise([], PER_STORE)) == []


def test_chunks_are_taken_as_they_are_needed_and_leaving_ends_the_children(
    tiny_matmul: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0

    def endless() -> Iterator[Chunk]:
        nonlocal taken
        while True:
            taken += 1
            yield chunk(tiny_matmul, tiny_matmul.traces[0])

    pools: list[Any] = []
    made = compute_module.ChildPool
    monkeypatch.setattr(compute_module, "ChildPool", lambda *a, **k: pools.append(made(*a, **k)) or pools[-1])
    generator = featurise(endless(), PER_STORE, workers=1)
    next(generator)
    generator.close()

    assert taken <= 4
    (pool,) = pools
    with pytest.raises(RuntimeError):
        pool.submit(print)


@pytest.mark.parametrize(
    "name", ["relation@1", pytest.param("loop_context@1", marks=pytest.mark.slow), "trace_tokens@1"]
)
def test_other_specs_are_computed_as_well(name: str, tiny_matmul: Any) -> None:
    spec = find_spec(name)
    crowd = chunk(tiny_matmul, *tiny_matmul.traces, tiny_matmul.bad_trace[:-1])

    [(_, found)] = featurise([crowd], spec, workers=1)

    expected = spec.extract(module_from_json(tiny_matmul.module_json), tiny_matmul.traces, tiny_matmul.target)
    assert found[-1] is None
    for rows, wanted in zip(found[:-1], expected, strict=True):
        assert rows is not None
        assert np.array_equal(rows, wanted)


def test_what_needs_no_tvm_needs_no_children(tiny_matmul: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_module, "ChildPool", None)

    [(_, found)] = featurise([chunk(tiny_matmul, CRASHING)], find_spec("trace_tokens@1"))

    assert found[0] is not None


def test_what_a_users_spec_of_traces_raises_is_a_sentence(tiny_matmul: Any) -> None:
    def extract(mod: Any, traces: Any, target: str) -> Any:
        raise KeyError("of the function")

    spec = FeatureSpec("own@1", ("a",), extract, lambda context, candidates: [], needs_tvm=False)
    with pytest.raises(DataError, match=r"The code of the feature spec own@1 failed \(KeyError"):
        list(
            featurise(
                [Chunk(tiny_matmul.module_json, tiny_matmul.target, (b"a",), tuple(tiny_matmul.traces[:1]))], spec
            )
        )
