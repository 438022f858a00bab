"""Folders that earlier versions wrote, opened by this one; `python -m scripts.release artefacts` writes them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from costhub.api.tune_report import read_report
from costhub.cards import dataset_card, model_card
from costhub.cards.adaptation import ADAPTATION, transfer_facts
from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.compute import compute_missing
from costhub.dataset.features.program_key import key_array, keys_of_records
from costhub.dataset.features.specs import find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.shard import read_shard
from costhub.dataset.splits.split import list_splits, load_split
from costhub.hub.data import load_measurements
from costhub.hub.remote.manifest import verify
from costhub.models.architectures import ARCHITECTURES
from costhub.models.folder import load_model

PLACE = Path(__file__).parent / "artefacts"
VERSIONS = sorted(path.name for path in PLACE.iterdir())
DEVICE, FEATURES = "amd-epyc-zen5-1c", "trace_decisions@1"
MOST_BYTES = 300_000
"""Of one version; they stay for ever."""


@pytest.fixture(params=VERSIONS)
def artefacts(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of what a version wrote: opening a folder may repair it."""
    return Path(shutil.copytree(PLACE / request.param, tmp_path / "artefacts"))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_artefacts_are_small_and_name_no_place(version: str) -> None:
    files = [path for path in (PLACE / version).rglob("*") if path.is_file()]

    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    texts = b"".join(path.read_bytes() for path in files if path.suffix in (".json", ".jsonl", ".md"))
    assert [place for place in (b"/home/", b"/root/", b"/usr/", b"/mnt/") if place in texts] == []


@pytest.mark.parametrize(
    ("version", "arch"),
    [(version, path.stem) for version in VERSIONS for path in sorted(PLACE.glob(f"{version}/models/*.npz"))],
)
def test_a_model_predicts_what_it_predicted_when_it_was_written(version: str, arch: str) -> None:
    model, info = load_model(PLACE / version / "models" / arch)

    with np.load(PLACE / version / "models" / f"{arch}.npz") as golden:
        scores = model.predict(golden["rows"], golden["counts"])
        expected = golden["scores"]
    assert info.arch == arch
    assert np.ptp(expected) > 0
    # Another BLAS adds in another order; the ranks must not change.
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-5)


def test_every_architecture_of_the_first_version_is_there() -> None:
    assert {path.stem for path in (PLACE / "0.1.0/models").glob("*.npz")} == set(ARCHITECTURES)


def test_a_card_and_what_lies_beside_it_is_read(artefacts: Path) -> None:
    folder = artefacts / "models/gbt"
    text = (folder / "README.md").read_text(encoding="utf-8")

    verify(folder)
    card = model_card.parse(text)
    assert model_card.is_as_rendered(text)
    assert (card.device_id, card.totals["pairwise"], card.transfer["trials"]) == ("demo", 0.625, 64)
    told = json.loads((folder / ADAPTATION).read_text())
    assert transfer_facts(told, [])["source"] == "acme/a-gbt"


def test_measurements_are_read_from_shards_and_journal(artefacts: Path) -> None:
    folder = DataFolder.open(artefacts / "data")
    table = load_measurements(artefacts / "data")

    assert table.num_rows == 13
    assert table["run_s"].null_count == 0
    assert folder.workloads().num_rows == 2
    assert folder.devices()["device_id"].to_pylist() == [DEVICE]
    with folder.writer(DEVICE):
        pass
    assert folder.measurements().num_rows == 13


def test_the_card_of_the_data_and_its_sample_are_read(artefacts: Path) -> None:
    card = dataset_card.parse((artefacts / "data/README.md").read_text(encoding="utf-8"))

    assert (card.rows, card.changes[0]["version"]) == (12, "v1")
    assert read_shard(artefacts / "data/sample/train-00000-of-00001.parquet").num_rows == card.sample_rows


def test_a_split_is_read(artefacts: Path) -> None:
    assert list_splits(artefacts / "data") == ["one-held-out"]
    split = load_split(artefacts / "data", "one-held-out")

    known = DataFolder.open(artefacts / "data").workloads(["workload_id"])["workload_id"].to_pylist()
    assert sorted([*split.train, *split.test]) == sorted(known)


@pytest.mark.parametrize("version", [version for version in VERSIONS if (PLACE / version / "data/features").is_dir()])
def test_features_are_those_that_an_earlier_version_kept_beside_the_data(version: str) -> None:
    (part,) = (PLACE / version / "data/features" / FEATURES / DEVICE).glob("part-*.parquet")
    kept = pq.read_table(part)
    folder = DataFolder.open(PLACE / version / "data")
    keys = keys_of_records(folder, DEVICE)
    own = key_array([keys[record_id] for record_id in kept["record_id"].to_pylist()])
    cache = FeatureCache(DEVICE, find_spec(FEATURES))

    compute_missing(folder, cache, DEVICE, own.unique())

    lookup = cache.find(own)
    assert lookup.counts.tolist() == kept["n_rows"].to_pylist()
    assert cache.read(lookup).tobytes() == b"".join(kept["rows"].to_pylist())


def test_stock_tvm_opens_the_database_of_a_search_and_its_report_is_known(artefacts: Path) -> None:
    from tvm.s_tir import meta_schedule as ms

    report = read_report(artefacts / "tune")
    assert report is not None
    database = ms.database.JSONDatabase(work_dir=str(artefacts / "tune"))

    assert [row["workload"] for row in report["workloads"]] == ["softmax"]
    assert len(database.get_all_tuning_records()) > 0
