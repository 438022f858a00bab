"""Where the seconds of a search go, with a model alone and behind a draft."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from costhub.collector.build.builder import Builder
from costhub.collector.device.local import local_target
from costhub.collector.run.runner import Runner
from costhub.collector.workloads.suites import find_workload
from costhub.models.protocol import CostModel
from costhub.search.result import SearchOptions
from costhub.search.tune import tune

TVMS = SearchOptions(population=512, generations=4, trials_per_round=64)
"""The sizes of TVM's own search; costhub's has 256 candidates and two generations for 16 trials."""


def search(
    workload: str, name: str, model: CostModel, draft: CostModel | None, trials: int, options: SearchOptions
) -> dict[str, Any]:
    """One search: its seconds by stage, and its result."""
    target, mod = local_target(), find_workload(workload).module()
    with (
        tempfile.TemporaryDirectory() as folder,
        Builder(json.dumps(target)) as builder,
        Runner(json.dumps(target)) as runner,
    ):
        result = tune(
            mod,
            workload,
            model=model,
            draft=draft,
            target=target,
            out=Path(folder),
            trials=trials,
            builder=builder,
            runner=runner,
            options=options,
        )
    sizes = {"population": options.population, "generations": options.generations}
    return {
        "workload": workload,
        "model": name,
        **sizes,
        "trials": result.trials,
        "seconds": result.seconds,
        "best_us": result.best_us,
        "stages": result.stages,
    }


def searches(workload: str, models: dict[str, CostModel], trials: int) -> list[dict[str, Any]]:
    """The MLP alone and behind a draft, with costhub's sizes and with TVM's."""
    drafts = {"mlp": None, "mlp behind a draft": models["draft"]}
    return [
        search(workload, name, models["mlp"], draft, trials, options)
        for options in (SearchOptions(), TVMS)
        for name, draft in drafts.items()
    ]
