"""Provides CostModel and tune_kwargs: pretrained models for `ms.tune_tir` and its kin."""

from __future__ import annotations

import atexit
import json
from typing import TYPE_CHECKING, Any

from costhub.errors import WorkloadError

if TYPE_CHECKING:
    from costhub.transfer.search.result import SearchOptions


def CostModel(model: str = "auto", *, method: str = "brief", seed: int = 0) -> Any:  # noqa: N802
    """A pretrained model as a MetaSchedule cost model, made like TVM's own ``XGBModel()``.

    Args:
        model: What `costhub pull` takes, or ``auto``: that of the device most like this machine.
        method: How it learns from what is measured: ``frozen``, or another key of
            `costhub.transfer.methods.registry.METHODS`.
        seed: Of the learning.

    Returns:
        A ``ms.cost_model.PyCostModel``; its `search_model.health` tells how it fared.

    Raises:
        CosthubError: There is no such model or method.
    """
    from costhub.collector.device import identify
    from costhub.hub.auto import choose_model
    from costhub.hub.device_rows import completed
    from costhub.hub.pull import pull_found
    from costhub.models.compound.conditioned import bound_to
    from costhub.models.folder import load_model
    from costhub.transfer.methods.registry import find_method
    from costhub.transfer.search_model import SearchModel
    from costhub.transfer.tvm_cost_model import TvmCostModel
    from costhub.transfer.tvm_errors import register_errors

    here = identify()
    loaded, _ = load_model(pull_found(choose_model(model, here)))
    register_errors()
    return TvmCostModel(SearchModel(bound_to(loaded, completed(here)), method=find_method(method), seed=seed))


def tune_kwargs(
    model: str = "auto",
    *,
    target: Any,
    method: str = "brief",
    strategy: str = "evolutionary",
    options: SearchOptions | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """The arguments with which TVM's own tuning functions search as `costhub tune` does, on this machine.

    Args:
        model: As for `CostModel`.
        target: The ``tvm.target.Target`` that is tuned for, or what makes one.
        method: As for `CostModel`.
        strategy: How programs are proposed: a key of `costhub.transfer.strategies.registry.STRATEGIES`.
        options: Sizes of the search.
        seed: Of the learning.

    Returns:
        `cost_model`, `strategy`, `num_trials_per_iter`, and `builder` and `runner`, whose processes import
        TVM once and end with this one.

    Raises:
        WorkloadError: TVM does not accept the target.
        UnknownNameError: There is no such strategy.
        CosthubError: As `CostModel`.
    """
    from costhub.collector.builder import Builder
    from costhub.collector.runner import Runner
    from costhub.transfer.search.result import SearchOptions
    from costhub.transfer.strategies.evolutionary import Evolutionary
    from costhub.transfer.strategies.registry import find_strategy
    from costhub.transfer.tvm_measure import TvmBuilder, TvmRunner

    sizes, made = options or SearchOptions(), _target(target)
    search = find_strategy(strategy)
    if isinstance(search, Evolutionary):
        search = Evolutionary(sizes.population, sizes.generations)
    as_json = str(made)  # TVM prints a target as JSON
    kind = json.loads(as_json)["kind"]
    builder = Builder(as_json)
    runner = Runner(as_json, device_kind="cpu" if kind == "llvm" else kind)
    for each in (builder, runner):
        atexit.register(each.close)
    return {
        "cost_model": CostModel(model, method=method, seed=seed),
        "strategy": search.to_tvm(),
        "num_trials_per_iter": sizes.trials_per_round,
        "builder": TvmBuilder(builder),
        "runner": TvmRunner(runner),
    }


def _target(target: Any) -> Any:
    import tvm

    try:
        return target if isinstance(target, tvm.target.Target) else tvm.target.Target(target)
    except Exception as error:
        raise WorkloadError(
            f"TVM does not know the target {target!r:.200}; give one such as "
            '{"kind": "llvm", "num-cores": 2}.'
        ) from error
