"""Provides CostModel and tune_kwargs: pretrained models for `ms.tune_tir` and similar functions."""

from __future__ import annotations

import atexit
import json
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from costhub.errors import ArgumentError, WorkloadError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from costhub.collector.measurer import Measurer
    from costhub.search.strategies.strategy import Strategy

log = logging.getLogger("costhub")


def CostModel(  # noqa: N802
    model: str = "auto",
    *,
    device: Mapping[str, Any] | None = None,
    method: str = "brief",
    seed: int = 0,
    pressure: float = 1.0,
    allow_other_kind: bool = False,
) -> Any:
    """A pretrained model as a MetaSchedule cost model, created like TVM's own ``XGBModel()``.

    Args:
        model: A name that `costhub pull` takes, or ``auto`` for the best model for the device tuned for: its
            own, or else ``any-cpu``.
        device: Row of the `devices` table for the device tuned for; by default that of this machine's CPU.
        method: How the model learns from measurements: a key of
            `costhub.transfer.methods.by_name.METHODS`, such as ``frozen``.
        seed: Seeds the learning.
        pressure: How strongly TVM's evolution prefers parents with high scores, see
            `costhub.search.search_model.PositiveScores`.
        allow_other_kind: Accept a GPU model for a CPU, or the reverse, though it ranks about as well as chance.

    Returns:
        A ``ms.cost_model.PyCostModel``; its `search_model.health` counts updates, diverged updates, and
        rounds of constant scores.

    Raises:
        CosthubError: No model or method has this name, or the model is for another kind of device.
    """
    from costhub.collector.device.identity import identify
    from costhub.hub.catalogue.devices import complete_device_row
    from costhub.hub.catalogue.find import check_kind, choose_model
    from costhub.hub.pull import pull_resolved
    from costhub.models.folder import load_model
    from costhub.search.search_model import SearchModel
    from costhub.search.tvm_seam import TvmCostModel, register_errors
    from costhub.transfer.methods.by_name import find_method

    row = device or identify()
    found = choose_model(model, row)
    check_kind(found.entry, str(row.get("kind")), device=str(row["device_id"]), allow=allow_other_kind)
    loaded, _ = load_model(pull_resolved(found))
    log.info("Model %s (%s) for %s.", found.entry.name, loaded.arch, row["device_id"])
    register_errors()
    bound = loaded.bind(complete_device_row(row))
    return TvmCostModel(SearchModel(bound, method=find_method(method), seed=seed, pressure=pressure))


def tune_kwargs(
    model: str = "auto",
    *,
    target: Any,
    method: str = "brief",
    tracker: str | None = None,
    key: str | None = None,
    strategy: str | Strategy = "evolutionary",
    trials_per_round: int = 16,
    seed: int = 0,
    allow_other_kind: bool = False,
) -> dict[str, Any]:
    """The arguments that make TVM's own tuning functions search with costhub's model, strategy, builder and runner.

    Call it once for each target, and use what it returns again: its processes end with yours.

    Args:
        model: As for `CostModel`.
        target: The ``tvm.target.Target`` to tune for, or anything that its constructor takes. The target of a device
            of this machine, such as its CPU limited to AVX2 or to one thread, selects that device.
        method: As for `CostModel`.
        tracker: ``HOST:PORT`` of a TVM RPC tracker whose boards measure; by default this machine does.
        key: The key under which the boards are registered at the tracker.
        strategy: How programs are proposed: a key of `costhub.search.strategies.by_name.STRATEGIES`, or a strategy
            object with its own sizes.
        trials_per_round: Programs measured before the model learns.
        seed: Seeds the learning.
        allow_other_kind: As for `CostModel`.

    Returns:
        The keyword arguments `cost_model`, `strategy`, `num_trials_per_iter`, `builder` and `runner`. The
        processes of the last two import TVM once and end with this process.

    Raises:
        ArgumentError: Only one of tracker and key is given, nothing here runs programs for that target, or it is a
            CPU target without `num-cores`.
        MeasureError: No tracker answers, or it has no such board.
        DeviceError: This machine has no such device, or the boards cannot be identified.
        WorkloadError: TVM does not accept the target.
        UnknownNameError: No strategy has this name.
        CosthubError: As for `CostModel`.
    """
    from costhub.collector.propose.spaces import DEFAULT
    from costhub.search.strategies.by_name import find_strategy
    from costhub.search.strategies.strategy import pressure_of
    from costhub.search.tvm_seam import TvmBuilder, TvmRunner

    search = find_strategy(strategy) if isinstance(strategy, str) else strategy
    as_json = str(_target(target))  # TVM prints a target as JSON
    processes = ExitStack()
    measurer = processes.enter_context(_measurer(as_json, tracker, key))
    atexit.register(processes.close)
    learning: dict[str, Any] = {"method": method, "seed": seed, "pressure": pressure_of(search, DEFAULT)}
    return {
        "cost_model": CostModel(model, device=measurer.device, allow_other_kind=allow_other_kind, **learning),
        "strategy": search.to_tvm(),
        "num_trials_per_iter": trials_per_round,
        "builder": TvmBuilder(measurer.builder),
        "runner": TvmRunner(measurer),
    }


def _measurer(target: str, tracker: str | None, key: str | None) -> AbstractContextManager[Measurer]:
    """Builds for a target and measures on boards, or on this machine."""
    from costhub.collector.device.identity import NO_ROCM, identify
    from costhub.collector.device.local import LocalDevice, find_by_target
    from costhub.collector.measurer import board_measurer, local_measurer

    as_dict = json.loads(target)
    if as_dict["kind"] == "llvm" and "num-cores" not in as_dict:
        raise ArgumentError(
            "The target has no num-cores, without which TVM's rules for CPUs fail. Add it, as in "
            '{"kind": "llvm", "mcpu": "znver4", "num-cores": 2}; '
            "costhub.collector.device.local.local_target() is the target of this machine."
        )
    if tracker is not None and key is not None:
        return board_measurer(tracker, key, target=as_dict)
    if tracker is not None or key is not None:
        raise ArgumentError("tracker and key belong together: give both or neither.")
    kind = as_dict["kind"]
    if kind not in ("llvm", "cuda"):
        raise ArgumentError(
            f"Programs for {kind} cannot be measured on this machine, only those for its CPU (llvm) and for "
            f"a CUDA GPU. {NO_ROCM if kind == 'rocm' else 'Give the tracker and key of boards of this kind.'}"
        )
    device = find_by_target(as_dict) if kind == "llvm" else None
    return local_measurer([device or LocalDevice(identify("cpu" if kind == "llvm" else kind), as_dict, None)])


def _target(target: Any) -> Any:
    import tvm

    try:
        return target if isinstance(target, tvm.target.Target) else tvm.target.Target(target)
    except Exception as error:
        raise WorkloadError(
            f'TVM does not know the target {target!r:.200}; give one such as {{"kind": "llvm", "num-cores": 2}}.'
        ) from error
