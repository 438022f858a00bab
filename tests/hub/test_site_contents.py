"""What goes into the page of a hub: everything that can be read, and a sentence for the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from costhub.hub.manifest import write_manifest
from costhub.hub.roots import Root
from costhub.hub.site_contents import site_contents


def test_models_stand_by_device_the_best_first_and_devices_in_order(hub: Path) -> None:
    found = site_contents([Root(hub, "here")])

    assert [(m.device_id, m.arch) for m in found.site.models] == [
        ("acme-one", "gbt"),
        ("acme-one", "mlp"),
        ("blit-gpu", "mlp"),
    ]
    assert [d["device_id"] for d in found.site.devices] == ["acme-one", "acme-two", "blit-gpu"]
    assert (found.site.datasets, found.pictures, found.left_out) == ((), {}, ())


def test_a_dataset_is_counted_by_device_and_operator(hub: Path, measured: Callable[..., Path]) -> None:
    measured(hub / "datasets/lab/boards")

    (dataset,) = site_contents([Root(hub, "here")]).site.datasets
    assert (dataset.name, dict(dataset.rows)) == ("lab/boards", {"amd-epyc-zen5-1c": 40})
    assert sum(cell.measured for cell in dataset.coverage) == 40
    assert sum(cell.workloads for cell in dataset.coverage) == dataset.workloads


def test_a_device_that_only_data_know_is_listed(hub: Path, measured: Callable[..., Path]) -> None:
    measured(hub / "datasets/lab/boards")

    devices = {row["device_id"]: row for row in site_contents([Root(hub, "here")]).site.devices}
    assert devices["amd-epyc-zen5-1c"] == {"device_id": "amd-epyc-zen5-1c"}


def test_what_is_damaged_is_named_and_the_rest_is_there(hub: Path, make_model: Any) -> None:
    (hub / "models/costhub/acme-one-mlp/model.safetensors").write_bytes(b"cut")
    (hub / "models/costhub/no-model").mkdir()
    make_model(hub / "models/costhub/unsigned", device_id="acme-one", arch="tokens")
    shard = hub / "datasets/lab/bad/measurements/acme-one/train-00000-of-00001.parquet"
    shard.parent.mkdir(parents=True)
    shard.write_bytes(b"PAR1 no PAR1")

    found = site_contents([Root(hub, "here")])

    assert [m.name for m in found.site.models] == ["costhub/acme-one-gbt", "costhub/blit-gpu-mlp"]
    assert found.site.datasets == ()
    assert len(found.left_out) == 4
    for part in ("acme-one-mlp", "no-model", "unsigned", "lab/bad"):
        assert len([sentence for sentence in found.left_out if part in sentence]) == 1, part


def test_a_damaged_index_is_named_and_its_models_are_there(hub: Path) -> None:
    (hub / "devices.json").write_text("[")

    found = site_contents([Root(hub, "here")])

    assert [d["device_id"] for d in found.site.devices] == ["acme-one", "blit-gpu"]
    (sentence,) = found.left_out
    assert "is not a device index" in sentence


def test_of_two_hubs_the_first_one_counts(hub: Path, make_model: Any, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for name, top_1 in (("acme-one-mlp", 0.1), ("acme-one-new", 0.2)):
        folder = make_model(other / "models/costhub" / name, device_id="acme-one", arch="mlp", top_1=top_1)
        write_manifest(folder)
    (other / "devices.json").write_text(json.dumps({"devices": [{"device_id": "acme-one", "kind": "metal"}]}))

    site = site_contents([Root(other, "b"), Root(hub, "a")]).site

    assert {m.name: m.figures["top_1"] for m in site.models}["costhub/acme-one-mlp"] == 0.1
    assert [m.name for m in site.models].count("costhub/acme-one-new") == 1
    assert site.devices[0]["kind"] == "metal"


def test_a_folder_with_a_strange_name_is_named_in_one_printable_line(hub: Path, make_model: Any) -> None:
    write_manifest(make_model(hub / "models/costhub/a\n\x1b[2Jb", device_id="acme-one", arch="mlp"))

    (sentence,) = site_contents([Root(hub, "here")]).left_out
    assert sentence.isprintable()
