"""The benchmark of feature specs: every workload is held out once, and a model is compared with itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from costhub.testing import made_programs
from scripts.bench.common.data import DATASETS
from scripts.bench.common.rows import RowFile
from scripts.bench.models.tasks import DeviceData
from scripts.bench.validated import feature_specs
from scripts.bench.validated.feature_specs import FOLDS, MODELS, main, measure, summary, titled
from scripts.bench.validated.validation import KEY

ENTRIES = [replace(MODELS["gbt"], spec=spec) for spec in ("tiles@1", "per_store@1")]


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> DeviceData:
    """Real workloads with made programs; models score by how fast a program is, with the second spec by how slow."""
    found = DeviceData(DATASETS / "amd-epyc-zen3", "amd-epyc-zen3-1c")
    ids = [row["workload_id"] for row in found.about]

    def load(*_: object, spec: str, per_workload: int, **__: object) -> Any:
        return replace(made_programs(spec, workloads=len(ids), each=per_workload), workload_ids=tuple(ids))

    def scores(entry: Any, train: Any, test: Any, seed: int) -> Any:
        learned, tested = ({side.workload_ids[place] for place in side.workload} for side in (train, test))
        assert not learned & tested
        sign = 1.0 if entry.spec == ENTRIES[0].spec else -1.0
        return sign / train.latency_s, sign / test.latency_s, 0.5

    monkeypatch.setattr(feature_specs, "load_programs", load)
    monkeypatch.setattr(feature_specs, "scores_of", scores)
    return found


@pytest.fixture
def rows(source: DeviceData) -> list[dict[str, Any]]:
    kept = RowFile(None, KEY)
    measure(source, kept, ENTRIES, 4, FOLDS)
    measure(source, kept, ENTRIES, 4, FOLDS)  # what is there is not measured again
    tested = [name for row in kept.all if row["model"] == titled(ENTRIES[0]) for name in row["workload_ids"]]
    assert sorted(tested) == sorted(row["workload_id"][:12] for row in source.about)
    return kept.all


def test_a_quick_run_says_what_it_did_and_leaves_a_whole_one_alone(source: DeviceData, tmp_path: Path) -> None:
    kept, result = tmp_path / "rows.jsonl", tmp_path / "result.json"
    arguments = ["--device", source.device, "--data", str(source.data), "--rows", str(kept), "--json", str(result)]
    arguments += ["--spec", "tiles@1", "--arch", "gbt", "--arch", "mlp"]

    assert CliRunner().invoke(main, [*arguments, "--quick"]).exit_code == 0
    quick = json.loads(result.read_text())
    assert CliRunner().invoke(main, [*arguments, "--each", "6"]).exit_code == 0
    whole = json.loads(result.read_text())

    assert (quick["each"], quick["folds"], [row["model"] for row in quick["summary"]]) == (4, 1, ["gbt tiles@1"])
    assert (whole["each"], whole["folds"]) == (6, FOLDS)
    assert [row["workloads"] for row in whole["summary"]] == [len(source.about)] * 2


def test_every_workload_is_held_out_once_and_the_first_spec_is_the_base(rows: list[dict[str, Any]]) -> None:
    assert len(rows) == 2 * FOLDS

    right, wrong = summary(rows, ENTRIES)

    assert (right["model"], right["base"]) == ("gbt tiles@1", "gbt tiles@1")
    assert (right["top_1"], right["top_1_gain"]) == (1.0, 0.0)
    assert (wrong["model"], wrong["base"], wrong["pairwise"]) == ("gbt per_store@1", "gbt tiles@1", 0.0)
    assert wrong["pairwise_gain"] == pytest.approx(-1.0)
    assert np.isfinite(wrong["pairwise_gain_se"])
