"""The recipes of the shipped models, and what a release adds to what `costhub train` writes."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from costhub.collector.workloads.suites import find_workload
from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import SPLITS_FOLDER, Split, load_split, save_split
from costhub.dataset.workload import workload_row
from costhub.models.compound.blend import BlendOptions
from costhub.models.compound.members import MemberSpec
from costhub.models.trees.gbt import GbtOptions
from scripts.bench.common.data import BLOCKED
from scripts.release.train import MANY, RELEASES, ModelRelease, add, put_credit


def credit_of(place: Path, device: str) -> str:
    (release,) = [each for each in RELEASES if (each.device, each.arch) in ((device, "blend"), (device, "conditioned"))]
    config = {"arch": release.arch, "device_id": device, "data_credit": "whoever", "seed": 0}
    (place / "config.json").write_text(json.dumps(config))

    put_credit(place, release)

    written = json.loads((place / "config.json").read_text())
    assert written == {**config, "data_credit": written["data_credit"]}
    return str(written["data_credit"])


def test_a_model_of_several_datasets_credits_those_of_each_as_its_card_says(tmp_path: Path) -> None:
    replayed = "microsoft/nnfusion (MIT; replayed from logs of Ansor)"

    assert credit_of(tmp_path, "nvidia-h200") == "measurer not recorded (Apache-2.0), lac-dcc/bennu (MIT)"
    assert credit_of(tmp_path, "any-gpu") == f"lac-dcc/bennu (MIT), measurer not recorded (Apache-2.0), {replayed}"
    assert credit_of(tmp_path, "nvidia-k80") == replayed


def tree_objectives(release: ModelRelease) -> list[str]:
    """The objectives that the trees of a model are trained with."""
    options = dict(option.split("=", 1) for option in release.options)
    if release.arch in ("gbt", "mlp", "treegru"):
        trees = [options] if release.arch == "gbt" else []
    else:
        members = map(MemberSpec.parse, options.get("members", BlendOptions().members).split())
        trees = [dict(member.options) for member in members if member.arch == "gbt"]
    return [own.get("objective", GbtOptions().objective) for own in trees]


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: f"{release.device}-{release.arch}")
def test_the_trees_of_every_recipe_can_be_corrected(release: ModelRelease) -> None:
    # `costhub adapt` corrects trees of logarithms; of others, it would only grow more.
    assert tree_objectives(release) == ([] if release.arch in ("mlp", "treegru") else ["log"])


def split_of(place: Path, name: str, train: tuple[str, ...], test: tuple[str, ...]) -> None:
    (place / SPLITS_FOLDER).mkdir(exist_ok=True)
    save_split(Split(name, train, test, seed=0), place / SPLITS_FOLDER / f"{name}.json")


def test_joined_data_also_teach_what_the_benchmark_of_a_chip_leaves_out(tmp_path: Path) -> None:
    names = ("matmul.128x128x128", "matmul.256x256x256", "softmax.64x1000")
    rows = [workload_row(find_workload(name).module(), name=name, operator="any") for name in names]
    known, plain, blocked = (str(row["workload_id"]) for row in rows)
    for place, own in (("data", rows[:1]), ("other", rows)):
        DataFolder.create(tmp_path / place).put_workloads(own)
    split_of(tmp_path / "data", MANY, (known,), ("tested",))
    split_of(tmp_path / "other", MANY, (plain,), ("tested",))
    split_of(tmp_path / "other", BLOCKED, (plain, blocked, "tested"), ("tested too",))

    add(tmp_path / "data", tmp_path / "other")

    learned = load_split(tmp_path / "data", MANY)
    assert {*learned.train} == {known, plain, blocked}
    assert learned.test == ("tested",)


def test_rows_that_are_added_leave_a_device_the_figures_of_its_probe(tmp_path: Path) -> None:
    probed = {
        "device_id": "cpu",
        "kind": "cpu",
        "peak_gflops": 365.0,
        "probed_at": datetime(2026, 11, 29, tzinfo=timezone.utc),
    }
    DataFolder.create(tmp_path / "data").put_device(probed)
    other = DataFolder.create(tmp_path / "other")
    other.put_device({"device_id": "cpu", "kind": "cpu"})
    other.put_device({"device_id": "new", "kind": "cpu"})

    add(tmp_path / "data", tmp_path / "other")

    peaks = {row["device_id"]: row["peak_gflops"] for row in DataFolder.open(tmp_path / "data").devices().to_pylist()}
    assert peaks == {"cpu": 365.0, "new": None}
