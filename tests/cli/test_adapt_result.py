from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from costhub.cli.adapt_result import Result
from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.folder import load_model
from costhub.transfer.adapt import adapt


@pytest.fixture(scope="module")
def result() -> Result:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(96, 3)).astype(np.float32)
    workload, ids = np.arange(96) // 16, tuple("abcdef")
    here = Programs(rows, np.ones(96, np.int64), workload, ids, np.exp(rows[:, 0]).astype(float))
    source = new_model("gbt", feature_spec="demo@1", options={"objective": "log", "rounds": 10})
    source.fit(here, None, seed=0, progress=False)
    done = adapt(source, here, trials=64, batch=32, progress=False)
    return Result("acme/theirs", "acme-two", done, {"before": None, "after": None}, [])


def test_without_figures_there_is_a_model_and_no_card(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "model", licence="Apache-2.0", seed=3)

    model, info = load_model(tmp_path / "model")
    assert (model.arch, info.device_id, info.base, info.seed) == ("gbt", "acme-two", "acme/theirs", 3)
    assert not (tmp_path / "model/README.md").exists()
    assert json.loads((tmp_path / "model/adaptation.json").read_text())["trials"] == 64


def test_people_and_machines_are_told_the_same(result: Result, tmp_path: Path) -> None:
    told, text = json.loads(result.as_json(tmp_path)), result.report(tmp_path, explain=False)

    assert (told["trials"], told["before"], len(told["curve"])) == (64, None, 2)
    assert f"{told['curve'][1]['pairwise']['source']:.3f}" in text
    assert "No workload was held out" in text
    assert text.endswith(f"Wrote {tmp_path}: gbt for acme-two, from acme/theirs and 64 trials.")
