"""Moses' searches: summarising their rows searches nothing, and says where they were searched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scripts.bench.common.machine import RESULTS
from scripts.bench.transfer import moses
from scripts.tables.figures import read

SEARCHED = {"machine": "a Xeon", "device": "xeon-2c", "date": "2026-01-02T03:04:05"}


def summarised(folder: Path, earlier: dict[str, Any]) -> dict[str, Any]:
    rows, path = folder / "rows.jsonl", folder / "moses.json"
    about = {"source": "nvidia-h200", "target": "nvidia-a100", "seed": 0, "workload": "w", "pool_best_s": 1e-3}
    search = {"latency_s": [[1e-3, 2e-3]], "scores": [[0.5, 0.1]], "learning_s": [0.1]}
    rows.write_text("".join(json.dumps({**about, **search, "method": name}) + "\n" for name in ("fine-tune", "ticket")))
    path.write_text(json.dumps(earlier))
    before = rows.read_bytes()
    done = CliRunner().invoke(moses.main, ["--rows", str(rows), "--summarise", "--json", str(path)])
    assert done.exit_code == 0, done.output
    assert rows.read_bytes() == before
    return dict(json.loads(path.read_text()))


@pytest.mark.parametrize("earlier", [SEARCHED, {**SEARCHED, "machine": "another", "searched": SEARCHED}])
def test_a_summary_searches_nothing_and_keeps_where_the_searches_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: dict[str, Any]
) -> None:
    monkeypatch.setattr(moses, "opened", lambda *_: pytest.fail("a source was trained"))

    result = summarised(tmp_path, earlier)

    assert result["searched"] == SEARCHED
    assert result["machine"] != "a Xeon"
    (pair,) = result["pairs"]
    assert (pair["trial_s"], pair["otherwise"]) == (moses.ASSUMED_S, "nvidia-v100")


def test_every_target_has_a_cost_of_its_trials_or_an_assumed_one() -> None:
    measured = {row["device"] for row in read(RESULTS, moses.COSTS)["rows"]}

    assert moses.OTHERWISE in measured
    assert {target for _, target in moses.PAIRS} - measured == {"nvidia-a100", "nvidia-h200"}
