"""A site to render: two devices, models with figures, data, and texts of whoever wrote them."""

from __future__ import annotations

from typing import Any

from costhub.cards.site.facts import (
    Entry,
    Leaderboard,
    ReplayBoard,
    ReplayEntry,
    ReplayTrack,
    Site,
    SiteDataset,
    SiteModel,
    Track,
)
from costhub.dataset.stats.folder_stats import CoverageCell

HOSTILE = (
    "<script>document.title='pwned'</script>\n\n<img src=x onerror=\"document.title='pwned'\">\n\n"
    "[click](javascript:document.title='pwned') ![p](http://example.org/spy.png)\n\n"
    "| <b onmouseover=x> | `</code><script>` |\n|---|---:|\n| </td></table><script>1</script> | & |\n"
)


def make_site(*, text: str = "", card: str | None = "# Card\n\nOf a model.", **more: Any) -> Site:
    devices = (
        {
            "device_id": f"acme-one{text}",
            "kind": f"cpu{text}",
            "aliases": [f"rocket{text}"],
            "vendor": f"ACME{text}",
            "microarchitecture": "boom",
            "model_name": f"ACME One{text}",
            "cores": 4,
            "peak_gflops": 512.5,
        },
        {"device_id": "blit-gpu", "kind": "cuda", "aliases": [], "cores": "<many>"},
    )
    models = tuple(
        SiteModel(
            name=f"lab/acme-one-{arch}{text}",
            device_id=f"acme-one{text}",
            arch=arch,
            bytes=1_500_000,
            figures={"top_1": top_1, "top_5": 0.95, "pairwise": 0.85},
            errors={"top_1": 0.03},
            operators={"conv": top_1, f"matmul{text}": 0.6},
            card=card,
            **more,
        )
        for arch, top_1 in (("gbt", 0.9), ("mlp", 0.75))
    )
    cells = (
        CoverageCell("conv", f"acme-one{text}", 12, 990, 1000),
        CoverageCell(f"matmul{text}", f"acme-one{text}", 1, 10, 16),
    )
    dataset = SiteDataset(
        name=f"lab/boards{text}",
        rows={f"acme-one{text}": 1016},
        ok=1000,
        workloads=13,
        licences=("CC-BY-4.0", ""),
        tvm_versions=("0.27.0",),
        coverage=cells,
        card=card,
    )
    return Site(devices, models, (dataset,), _leaderboard(text))


def _leaderboard(text: str) -> Leaderboard:
    tops = (("mlp", "model", 0.75), ("ceiling", "ceiling", 0.99), ("gbt", "model", 0.9), ("old", "baseline", 0.8))
    entries = tuple(
        Entry(
            name=f"{name}{text}",
            features=f"tiles@1{text}",
            kind=kind,
            seeds=3,
            figures={"top_1": top_1, "top_5": 0.95},
            errors={"top_1": 0.02},
        )
        for name, kind, top_1 in tops
    )
    track = Track(
        title=f"CPU{text}",
        device_id=f"acme-one{text}",
        split=f"workload-40{text}",
        asks=f"new workloads{text}",
        workloads=40,
        entries=entries,
    )
    origin = {"results": f"a.json{text}", "date": "2026-01-02"}
    return Leaderboard(tracks=(track,), origin=origin, replay=_replay(text))


def _replay(text: str) -> ReplayBoard:
    played = (("genetic", "", -0.25, 12.0), ("model", "auto", 0.875, 2.5), ("random", "", 0.0, 14.0))
    entries = tuple(
        ReplayEntry(
            strategy=f"{strategy}{text}",
            model=model and f"{model}{text}",
            model_name=model and f"lab/acme-one-gbt{text}",
            method=model and f"frozen{text}",
            kind="baseline" if strategy == "random" else "model",
            seeds=5,
            score=score,
            error=None if strategy == "genetic" else 0.03,
            near=near,
        )
        for strategy, model, score, near in played
    )
    track = ReplayTrack(device_id=f"acme-one{text}", workloads=10, programs=1600, trials=39, entries=entries)
    return ReplayBoard(tracks=(track,), origin={"results": f"b.json{text}", "date": "2026-01-03"})
