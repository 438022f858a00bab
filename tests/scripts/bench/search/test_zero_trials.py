"""Stock's searches, which the benchmark `search` shares."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from scripts.bench.search import search, zero_trials
from scripts.tables.search import LIGHT


def test_stock_searches_a_workload_as_in_the_benchmark_of_searches_and_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, ...]] = []

    def kept(*words: object) -> dict[str, Any]:
        asked.append(words)
        return {"rounds": [[512, 1.0]], "stages": {}, "failures": 0, "before_s": 0.0, "exit_s": 1.0}

    for module in (search, zero_trials):
        monkeypatch.setattr(module, "kept_course", kept)
    monkeypatch.setattr(search, "best_traces", lambda *_: {})
    light = next(method for method in search.METHODS if method.name == LIGHT)
    unseen: Any = SimpleNamespace(without=set())

    search.searched(light, "softmax.512x512", 2, unseen, tmp_path)
    folder = zero_trials.stock_database("workload", "softmax.512x512", light.trials, 2, tmp_path)
    zero_trials.stock_database("network", "resnet18", 64, 0, tmp_path)

    assert asked[0] == asked[1] == (folder, "workload", LIGHT, "softmax.512x512", 512, 2, folder)
    network = tmp_path / "resnet18-stock-0"
    assert asked[2] == (network, "network", "resnet18", 64, 0, network, 0)


def test_the_quick_form_keeps_no_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []
    monkeypatch.setattr(zero_trials, "UnseenModels", lambda *_: None)
    monkeypatch.setattr(zero_trials, "kept_course", lambda folder, *_: folders.append(folder))
    monkeypatch.setattr(zero_trials, "of_workload", lambda *_, **__: [])
    monkeypatch.setattr(zero_trials, "zero_trials_table", lambda _: "")
    kept = tmp_path / "kept"

    for words in (["--quick"], ["--workload", "softmax.512x512"]):
        done = CliRunner().invoke(zero_trials.main, [*words, "--searches", str(kept)])
        assert done.exit_code == 0, done.output

    assert [folder.is_relative_to(kept) for folder in folders] == [False, True]
