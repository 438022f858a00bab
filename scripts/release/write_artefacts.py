"""Writes one folder of every kind, small and as this version writes it, for tests of later versions to open.

    python -m scripts.release artefacts                 into tests/artefacts/VERSION, once for every release

These folders are never written again: a later version reads them unchanged, or refuses them with a sentence.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow.compute as pc
from packaging.version import Version

from costhub import __version__
from costhub.api.tune_report import TuneReport
from costhub.cards.adaptation import ADAPTATION, ADAPTATION_VERSION
from costhub.dataset.folder import DataFolder
from costhub.dataset.metaschedule.export import export_database
from costhub.dataset.shards.lock import LOCK
from costhub.dataset.splits.split import Split, put_split
from costhub.hub.catalogue.devices import find_device
from costhub.hub.catalogue.hubs import EVALUATION, dataset_folders
from costhub.hub.dataset_documents import write_dataset_documents
from costhub.hub.install import evaluation_text, write_card_from_figures
from costhub.hub.remote.manifest import write_manifest
from costhub.models.architectures import new_model
from costhub.models.compound.conditioned import Conditioned
from costhub.models.compound.residual import Residual
from costhub.models.folder import save_model
from costhub.models.protocol import CostModel
from costhub.models.train import describe_model
from costhub.search.result import TuneResult
from costhub.testing.made_programs import made_programs
from scripts.bench.common.machine import ROOT

PLACE = ROOT / "tests" / "artefacts"
SOURCE, DEVICE = "costhub/amd-epyc-zen5", "amd-epyc-zen5-1c"
"""Of the cache in the data folder: the smallest spec that needs no TVM."""
TREES: dict[str, object] = {"rounds": 4, "depth": 2}
NETWORK: dict[str, object] = {"hidden": 8, "epochs": 1, "bins": 2}
ARCHITECTURES: dict[str, tuple[str, dict[str, object]]] = {
    "gbt": ("demo@1", TREES),
    "mlp": ("demo@1", NETWORK),
    "ensemble": ("demo@1", {"members": 2, "member": "gbt(rounds=3,depth=2)"}),
    "blend": ("demo@1", {"members": "gbt(rounds=3,depth=2) mlp(hidden=4,epochs=1,bins=0)"}),
    "treegru": ("loop_context@1", NETWORK),
    "tokens": ("trace_tokens@1", NETWORK),
}


@click.command()
@click.option("--out", type=click.Path(path_type=Path), help="By default tests/artefacts/VERSION.")
def main(out: Path | None) -> None:
    """Write the artefacts of this version."""
    out = out or PLACE / Version(__version__).base_version
    out.mkdir(parents=True)
    os.chdir(out)  # so that no file contains a path of this machine
    write_data(Path("data"))
    write_models(Path("models"))
    write_tune(Path("tune"), Path("data"))
    # Locks are temporary, and nothing reads the last two again.
    for left in (*Path().rglob(LOCK), Path("data/latencies.png"), Path("tune/report.html")):
        left.unlink()
    total = sum(path.stat().st_size for path in Path().rglob("*") if path.is_file())
    click.echo(f"{out}: {total:,} bytes")


def write_data(place: Path) -> None:
    """A data folder with card, sample, split, and a row that is still in the journal."""
    source = DataFolder.open(dataset_folders()[SOURCE])
    described = sorted(source.workloads().to_pylist(), key=lambda row: len(row["module_json"]))[:2]
    ids = [row["workload_id"] for row in described]
    rows = source.select_measurements([DEVICE], where=pc.field("workload_id").isin(ids)).to_pylist()
    chosen = [row for name in ids for row in rows if row["workload_id"] == name][:9]
    chosen += [row for row in rows if row["workload_id"] == ids[1]][:4]
    folder = DataFolder.create(place)
    folder.put_device(next(r for r in source.devices().to_pylist() if r["device_id"] == DEVICE))
    folder.put_workloads(described)
    with folder.writer(DEVICE) as writer:
        for row in chosen[:-1]:
            writer.append(row)
    put_split(place, Split("one-held-out", (ids[0],), (ids[1],), seed=0))
    write_dataset_documents(
        place,
        (place / "README.md").read_text(encoding="utf-8"),
        name="artefact",
        address="artefact",
        changes=[],
        date="2026-01-01",
        version="v1",
    )
    writer = folder.writer(DEVICE)
    writer.append(chosen[-1])  # and never closed


def write_models(place: Path) -> None:
    """A model folder of each architecture, with its predictions for programs that lie beside it."""
    models: dict[str, CostModel] = {
        arch: new_model(arch, feature_spec=spec, options=options) for arch, (spec, options) in ARCHITECTURES.items()
    }
    base = new_model("gbt", feature_spec="demo@1", options=TREES)
    row = {"device_id": "demo", "kind": "cpu", "cores": 2}
    models["conditioned"] = Conditioned(feature_spec="demo@1", base=base).bind(row)
    base = new_model("gbt", feature_spec="demo@1", options=TREES)
    models["residual"] = Residual(feature_spec="demo@1", base=base)
    for arch, model in models.items():
        train = made_programs(model.feature_spec, workloads=2, each=12)
        asked = made_programs(model.feature_spec, workloads=1, each=6, seed=1)
        model.fit(train, None, seed=0, progress=False)
        info = describe_model(model, train, device_id="demo", seed=0, licence="CC-BY-4.0")
        info = replace(info, created="2026-01-01T00:00:00+00:00")
        save_model(model, place / arch, info, documents=documents() if arch == "gbt" else None)
        if arch == "gbt":
            write_card_from_figures(place / arch, name="artefact-gbt")
            write_manifest(place / arch)
        scores = model.predict(asked.rows, asked.counts)
        np.savez_compressed(place / f"{arch}.npz", rows=asked.rows, counts=asked.counts, scores=scores)


def documents() -> dict[str, str | bytes]:
    """The documents of a model that was evaluated and transferred."""
    figures = {"top_1": 0.5, "top_5": 0.75, "pairwise": 0.625, "spearman": 0.25}
    row = {"workload": "softmax", "operator": "softmax", "programs": 6, **figures}
    evaluation = {"totals": figures, "noise_floor": 0.02, "workloads": [row]}
    adaptation: dict[str, Any] = {"version": ADAPTATION_VERSION, "source": "acme/a-gbt", "method": "residual"}
    adaptation |= {"trials": 64, "chosen": "adapted", "curve": [], "transferable": [], "kept": []}
    return {EVALUATION: evaluation_text(evaluation), ADAPTATION: json.dumps(adaptation) + "\n"}


def write_tune(place: Path, data: Path) -> None:
    """The folder of a search: a TVM database of what was measured, and the reports."""
    export_database(data, place, workers=1, progress=False)
    result = TuneResult("softmax", 2, 0, 1.0, 9.0, 5.0, [(1, 0.1, 7.0), (2, 0.2, 5.0)])
    row = {"device_id": DEVICE, "model_name": "ACME", "cores": 1, "memory_bytes": 1 << 30}
    device = find_device(DEVICE)
    assert device is not None
    about: dict[str, Any] = {"model": "artefact-gbt", "model_reason": "It was named.", "method": "brief"}
    about |= {"command": "costhub tune softmax --out tune", "target": device.target, "cap": 2, "stopped": None}
    about |= {"began": "2026-01-01T00:00:00+00:00", "load_average": 0.0, "cores": 1, "on_board": False}
    TuneReport([result], place, {"softmax": 1.0}, ["softmax"] * 2, row, about).write()
