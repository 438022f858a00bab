"""`costhub.evaluate`: models and data by name or as objects."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.api.evaluation import evaluate
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import Split, save_split
from costhub.errors import DataError, ModelError
from costhub.hub.data import load_programs
from costhub.models.compound.conditioned import Conditioned
from costhub.models.evaluate import evaluate_scores
from costhub.models.folder import load_model
from costhub.testing import made_programs


class Ranking:
    """A model of somebody else, which knows nothing of costhub."""

    def predict(self, rows: Any, counts: Any) -> Any:
        return np.add.reduceat(rows[:, 0], np.cumsum(counts) - counts)


def test_names_of_a_model_and_of_data_are_enough(model: Path, data: Path) -> None:
    found = evaluate(str(model), data)

    assert [found.uses[row.workload_id].name for row in found.workloads] == ["conv2d0", "matmul0"]
    whole, _ = load_model(model)
    programs = load_programs(data, workloads={"id-conv2d0", "id-matmul0"})
    assert found.learned == 4
    assert "4 left out since the model has learned from them" in str(found)
    assert replace(found, learned=0) == evaluate(whole, programs)
    assert len(evaluate(model, data, every=True).workloads) == 6


def test_a_split_chooses_the_workloads(model: Path, data: Path, tmp_path: Path) -> None:
    one = Split("one", (), ("id-matmul0", "id-matmul1"), 0)

    save_split(one, tmp_path / "one.json")

    found = evaluate(model, data, split=str(tmp_path / "one.json"))
    # matmul1 is in the split too, but the model has learned from it.
    assert [row.workload_id for row in found.workloads] == ["id-matmul0"]
    assert [row.workload_id for row in evaluate(Ranking(), data, split=one).workloads] == list(one.test)
    given = load_programs(data)
    assert evaluate(Ranking(), given, split=one).workloads == evaluate(Ranking(), data, split=one).workloads
    with pytest.raises(DataError, match=r"no split named 'one'; load it with costhub.load_split"):
        evaluate(Ranking(), given, split="one")
    with pytest.raises(DataError, match="has learned from all of these workloads"):
        evaluate(model, data, split=Split("seen", (), ("id-matmul1",), 0))


def test_what_a_name_stands_for_is_logged_once_the_data_are_found(
    model: Path, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="costhub"):
        with pytest.raises(DataError, match="acme-none"):
            evaluate(model, data, device="acme-none")
        assert caplog.messages == []
        evaluate(model, data)
        evaluate(Ranking(), data)

    assert caplog.messages == ["Model local/model (gbt)."]


def test_any_object_with_predict_will_do(data: Path) -> None:
    programs = load_programs(data)

    found = evaluate(Ranking(), programs)
    # Made so: a program is faster, the larger the sum of the first column.
    assert (found.top_1, found.pairwise) == (1.0, 1.0)
    assert found == evaluate_scores(Ranking().predict(programs.rows, programs.counts), programs)
    assert evaluate(Ranking(), [programs.of_workloads({name}) for name in programs.workload_ids]) == found

    class Wrong:
        def predict(self, rows: Any, counts: Any) -> Any:
            return rows[:, 0]

    with pytest.raises(ModelError, match=r"shape \(216,\) for 72 programs; it must be \(72,\)"):
        evaluate(Wrong(), programs)


def test_blocks_are_read_one_at_a_time(data: Path) -> None:
    programs, events = load_programs(data), []

    class Noting(Ranking):
        def predict(self, rows: Any, counts: Any) -> Any:
            events.append("scored")
            return super().predict(rows, counts)

    def blocks() -> Iterator[Programs]:
        for name in programs.workload_ids:
            events.append("read")
            yield programs.of_workloads({name})

    evaluate(Noting(), blocks())

    assert events == ["read", "scored"] * len(programs.workload_ids)


def test_a_model_for_many_devices_scores_each_program_for_its_own(
    train: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = {name: {"device_id": name, "kind": "cpu", "cores": cores} for name, cores in (("a", 2), ("b", 64))}
    programs = replace(train, device=np.arange(train.n) % 2, device_ids=("a", "b"))
    model = Conditioned(feature_spec="demo@1", devices=devices)
    model.fit(programs, None, seed=0, progress=False)
    monkeypatch.setattr("costhub.api.evaluation.complete_device_row", lambda row: devices[row["device_id"]])

    expected = evaluate_scores(model.predict_programs(programs), programs)
    assert evaluate(model, programs) == expected
    assert evaluate(model.bind(devices["a"]), programs) == expected
    only_b = evaluate(model.bind(devices["a"]), programs, device="b")
    assert only_b.workloads == tuple(row for row in expected.workloads if row.device_id == "b")


def test_no_programs_are_a_sentence(data: Path) -> None:
    with pytest.raises(DataError, match="no program to evaluate on"):
        evaluate(Ranking(), [])


def test_an_object_that_reads_other_features_is_refused() -> None:
    class Other:
        feature_spec = "trace_decisions@1"

        def predict(self, rows: Any, counts: Any) -> Any:
            return -counts

    programs = made_programs("tiles@1")
    with pytest.raises(ModelError, match="reads features of trace_decisions@1, and the programs hold those of tiles@1"):
        evaluate(Other(), programs)
    assert evaluate(Other(), replace(programs, spec="trace_decisions@1")).workloads


def test_a_split_by_device_tests_on_its_devices_only_in_memory_too() -> None:
    given = made_programs("tiles@1")
    both = replace(given, device=np.arange(given.n) % 2, device_ids=("acme-a", "acme-b"))
    ids = both.workload_ids
    split = Split("device-acme-b", ids, ids, kind="device", train_devices=("acme-a",), test_devices=("acme-b",))

    assert {row.device_id for row in evaluate(Ranking(), both, split=split).workloads} == {"acme-b"}
    with pytest.raises(DataError, match="has acme-b to test on"):
        evaluate(Ranking(), both, split=split, device="acme-a")
