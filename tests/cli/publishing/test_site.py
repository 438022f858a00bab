"""`costhub site`: a hub as a folder for a static host."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.hub.catalogue import hubs
from costhub.hub.catalogue.hubs import EMBEDDED


def test_the_embedded_hub_becomes_a_page(small_hub: Path, costhub: Any, tmp_path: Path) -> None:
    done = costhub("site", "--out", str(tmp_path / "site"))

    assert (done.code, done.err) == (0, "")
    assert done.out == f"{tmp_path / 'site/index.html'}: models: 2, devices: 2, datasets: 0, pictures: 0.\n"
    page = (tmp_path / "site/index.html").read_text()
    assert "costhub pull costhub/acme-one-gbt" in page


def test_the_commands_it_shows_work(small_hub: Path, costhub: Any, tmp_path: Path) -> None:
    costhub("site", "--out", str(tmp_path / "site"))
    page = (tmp_path / "site/index.html").read_text()
    command = page.split('data-copy="costhub ')[1].split('"')[0]

    assert costhub(*command.split()).err.startswith("costhub/acme-one-gbt: the gbt model for acme-one")


def test_other_hubs_take_its_place(
    small_hub: Path, costhub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "EMBEDDED", tmp_path / "nothing")

    done = costhub("site", "--hub", str(small_hub), "--hub", str(small_hub), "--out", str(tmp_path / "site"))

    assert done.out.endswith("models: 2, devices: 2, datasets: 0, pictures: 0.\n")
    assert str(tmp_path) not in (tmp_path / "site/index.html").read_text()


def test_a_damaged_model_is_named_and_left_out(small_hub: Path, costhub: Any, tmp_path: Path) -> None:
    (small_hub / "models/costhub/acme-one-gbt/config.json").write_text("{}")

    done = costhub("site", "--out", str(tmp_path / "site"))

    assert done.code == 0
    assert done.err.startswith("Left out: ")
    assert "acme-one-gbt" in done.err
    assert "models: 1," in done.out
    told = json.loads(costhub("site", "--json", "--out", str(tmp_path / "site")).out)
    assert (told["models"], len(told["left_out"]), Path(told["page"]).name) == (1, 1, "index.html")


def test_a_folder_that_is_no_hub_and_a_folder_in_use_are_refused(small_hub: Path, costhub: Any, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used/thesis.tex").write_text("x")

    refused = costhub("site", "--out", str(tmp_path / "used"))
    no_hub = costhub("site", "--hub", str(tmp_path / "used"), "--out", str(tmp_path / "site"))

    assert (refused.code, refused.out) == (2, "")
    assert "holds thesis.tex, which costhub did not build" in refused.err
    assert no_hub.code == 2
    assert "is not the folder of a hub" in no_hub.err
    assert not (tmp_path / "site").exists()


def test_a_hub_of_the_shipped_layout_becomes_a_page_with_data(
    costhub: Any, measured: Callable[..., Path], tmp_path: Path
) -> None:
    hub = tmp_path / "hub"
    name = "models/costhub/amd-epyc-zen5-2c-gbt"
    shutil.copytree(EMBEDDED / name, hub / name)
    measured(hub / "datasets/lab/boards")

    done = costhub("site", "--hub", str(hub), "--out", str(tmp_path / "site"))

    assert (done.code, done.err) == (0, "")
    page = (tmp_path / "site/index.html").read_text()
    for text in ("lab/boards", 'aria-label="measurements by device and operator class"', "A cost model ("):
        assert text in page


def test_a_result_of_replayed_searches_is_added_to_the_page(small_hub: Path, costhub: Any, tmp_path: Path) -> None:
    device = {"device": "acme-one", "workloads": 1, "programs": 9, "trials": 8}
    track = {**device, "workload_ids": ["0123456789ab"], "rows": []}
    (small_hub / "benchmark.json").write_text(json.dumps({"tracks": [], "replay": {"tracks": [track]}}))
    result = {
        **{"costhub": "replay", "version": 1, "strategy": "Mine", "model": "", "method": "", "batch": 16, "seeds": 5},
        "devices": [{**device, "score": 0.625, "error": None, "near": 3.5}],
        "rows": [{"device": "acme-one", "workload_id": "0123456789abcdef", "score": 0.625}],
    }
    files = [tmp_path / name for name in ("mine.json", "theirs.json")]
    for file, strategy in zip(files, ("Mine", "Theirs"), strict=True):
        file.write_text(json.dumps({**result, "strategy": strategy}))
    words = [word for file in files for word in ("--searches", str(file))]

    done = costhub("site", *words, "--out", str(tmp_path / "site"))

    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("models: 2, devices: 2, datasets: 0, pictures: 0, searches: 2.\n")
    page = (tmp_path / "site/index.html").read_text()
    for text in ("Mine", "mine.json", "Theirs", "theirs.json", "0.62", "3.5"):
        assert text in page
    assert (tmp_path / "site/benchmark.json").read_bytes() == (small_hub / "benchmark.json").read_bytes()


def test_a_result_that_cannot_be_added_leaves_no_page(small_hub: Path, costhub: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"costhub": "replay", "batch": 8, "seeds": 5}')

    done = costhub("site", "--searches", str(tmp_path / "mine.json"), "--out", str(tmp_path / "site"))

    assert (done.code, done.out) == (2, "")
    assert "was played with batches of 8" in done.err
    assert not (tmp_path / "site").exists()
