from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.compute import Chunk, featurise
from costhub.dataset.features.specs import find_spec
from costhub.dataset.workload import module_from_json
from costhub.isolation import pool

SPEC = find_spec("per_store@1")


def chunk(tiny: Any, *traces: str, name: str = "c") -> Chunk:
    ids = tuple(f"{name}{number}" for number in range(len(traces)))
    return Chunk(tiny.module_json, tiny.target, ids, traces)


def test_every_chunk_comes_back_with_the_features_of_its_programs(tiny_matmul: Any) -> None:
    chunks = [chunk(tiny_matmul, trace, name=str(i)) for i, trace in enumerate(tiny_matmul.traces)]
    no_module = Chunk("{}", tiny_matmul.target, ("bad",), tiny_matmul.traces[:1])
    expected = SPEC.extract(module_from_json(tiny_matmul.module_json), tiny_matmul.traces, tiny_matmul.target)

    found = {c.record_ids[0]: features[0] for c, features in featurise([*chunks, no_module], SPEC, workers=2)}

    assert sorted(found) == ["00", "10", "20", "30", "bad"]
    assert found["bad"] is None
    for i, rows in enumerate(expected):
        assert np.array_equal(found[f"{i}0"], rows)


# JSON of the right form; TVM 0.27 reads its null as a pointer.
CRASHING = '[[["GetSBlock",[],["C","main"],["b0"]]],[[0,null]]]'


def test_a_program_that_brings_tvm_down_costs_only_itself(tiny_matmul: Any) -> None:
    good = tiny_matmul.traces
    crowd = chunk(tiny_matmul, good[0], CRASHING, good[1])

    [(_, found)] = featurise([crowd], SPEC, workers=1)

    assert [rows is not None for rows in found] == [True, False, True]


def test_leaving_early_ends_the_children(tiny_matmul: Any) -> None:
    chunks = [chunk(tiny_matmul, tiny_matmul.traces[0], name=str(i)) for i in range(6)]

    generator = featurise(iter(chunks), SPEC, workers=1)
    next(generator)
    generator.close()

    assert list(generator) == []


def test_no_chunks_need_no_children() -> None:
    assert list(featurise([], SPEC)) == []


def test_chunks_are_taken_as_they_are_needed(tiny_matmul: Any) -> None:
    taken = 0

    def endless() -> Iterator[Chunk]:
        nonlocal taken
        while True:
            taken += 1
            yield chunk(tiny_matmul, tiny_matmul.traces[0])

    generator = featurise(endless(), SPEC, workers=1)
    next(generator)
    generator.close()

    assert taken <= 4


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
    monkeypatch.setattr(pool, "worker_pool", None)

    [(_, found)] = featurise([chunk(tiny_matmul, CRASHING)], find_spec("trace_tokens@1"))

    assert found[0] is not None
