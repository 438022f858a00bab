"""Provides bench_search: plays a strategy and a model against densely measured workloads; no device is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from costhub.api.measuring import options_given
from costhub.api.models import load_model
from costhub.api.replay.result import ReplayResult, write_t4
from costhub.dataset.features.specs import DEFAULT_SPEC
from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import find_split
from costhub.errors import ArgumentError
from costhub.hub.catalogue.devices import device_rows
from costhub.hub.catalogue.find import AUTO
from costhub.hub.data import find_data
from costhub.models.own_code import imported, learned_from, name_of, refuse_file_alone, scorer_given
from costhub.names import refuse_text
from costhub.progress import bar
from costhub.search.replay.judge import ReplaySettings, replay
from costhub.search.replay.strategies import REPLAY_STRATEGIES, WITHOUT_MODEL, ReplayFactory
from costhub.search.replay.workloads import WORKLOADS, ReplayWorkload, densest_workloads, load_replay
from costhub.transfer.methods.by_name import METHODS

if TYPE_CHECKING:
    from costhub.models.protocol import CostModel
    from costhub.search.search_model import SearchModel

SUITE = {
    "nvidia-v100": "workload-12-seed0",
    "nvidia-k80": "workload-12-seed0",
    "amd-mi50": "workload-12-seed0",
    "nvidia-a100": "workload-18-seed0",
    "intel-xeon-emeraldrapids-2c-avx2": "workload-40-seed0",
    "amd-epyc-zen5-1c": "workload-40-seed0",
}
"""Device -> the split whose test side provides its workloads; the device's models have not learned from these."""
FROZEN = "frozen"


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What `bench_search` plays a strategy against, and how."""

    devices: Sequence[str] = ()
    """Devices whose workloads are searched; by default all of the suite."""
    data: str | Path | None = None
    """Measurements of your own instead of the suite's: a data folder or the name of a dataset, with one device."""
    split: str | None = None
    """With `data`: use the workloads of its test side only."""
    workloads: int = WORKLOADS
    """How many of each device: those with the most programs."""
    method: str = "frozen"
    """How the model learns from what is measured, as for `costhub.tune`, whose default is `brief`. With `frozen` it
    does not learn, and neither does a model that can only predict."""
    settings: ReplaySettings = field(default_factory=ReplaySettings)
    every: bool = False
    """Include workloads that the model has learned from."""
    t4: str | Path | None = None
    """Folder to which to write the searches in the T4 format."""


def bench_search(
    strategy: str | ReplayFactory = "model",
    model: str | Path | CostModel | Any | None = "auto",
    *,
    options: BenchOptions | None = None,
    progress: bool = True,
) -> ReplayResult:
    """Replays searches among programs that have all been measured already, and scores them.

    Args:
        strategy: A name in `REPLAY_STRATEGIES`, FILE.py:CLASS, MODULE:CLASS, or the class itself; see `ReplayStrategy`.
        model: A name or folder as for `costhub.load_model`, which is bound to each device; FILE.py:NAME, MODULE:NAME or
            an object with ``predict(rows, counts)``; or None for a strategy that needs no model. ``auto`` takes the
            best model for each device.
        options: What is searched, and how.
        progress: Show a progress bar on a terminal.

    Returns:
        The scores; `print` shows them by device.

    Raises:
        ArgumentError: The model has learned from workloads of the benchmark, the strategy needs a model or uses none,
            or the options contradict each other.
        CosthubError: There is no such strategy, model, device, data or split; a file cannot be imported.

    Example:
        >>> options = BenchOptions(devices=["amd-epyc-zen5-1c"], workloads=2, settings=ReplaySettings(seeds=1))
        >>> result = bench_search("random", None, options=options, progress=False)
        >>> len(result.scores)
        2
    """
    options = options_given(options, BenchOptions)
    name, factory = _strategy(strategy)
    # costhub's other strategies read decisions only, and features take minutes.
    needs_features = getattr(factory, "needs_features", not (isinstance(strategy, str) and strategy in WITHOUT_MODEL))
    _check_use(name, model, needs_features=needs_features)
    model = model if needs_features else None
    METHODS.check(options.method)
    played: list[ReplayWorkload] = []
    scores, names, method, devices = [], set(), "", _devices(options)
    scorers = _scorers(model, devices, options)
    with bar(len(devices) * options.workloads, desc=name, unit="workload", enabled=progress) as shown:
        for device in devices:
            scorer = scorers[device]
            workloads = _workloads(device, scorer, options, has_features=needs_features, progress=progress)
            new_model, method = _models(scorer, options.method)
            names.add("" if scorer is None else name_of(scorer))
            for workload in workloads:
                scores.append(replay(workload, factory, new_model, options.settings))
                shown.update(1)
            played += workloads
    # `auto` may stand for a different model on each device.
    model_name = names.pop() if len(names) == 1 else str(model)
    result = ReplayResult(name, model_name, method, options.settings, tuple(scores))
    if options.t4 is not None:
        write_t4(result, played, options.t4)
    return result


def _check_use(strategy: str, model: Any, *, needs_features: bool) -> None:
    """Refuses a model that the strategy would not use, and none for the one that needs one."""
    if not needs_features and model not in (None, AUTO):
        raise ArgumentError(
            f"The strategy {strategy} reads only the decisions of programs, so a model would have no effect: leave "
            "--model (model=...) out."
        )
    if strategy == "model" and model is None:
        raise ArgumentError("The strategy model needs a model; name one, or choose another strategy.")


def _scorers(model: Any, devices: Sequence[str], options: BenchOptions) -> dict[str, Any]:
    """The model for each device, or None; all at once, so that a wrong one for the last costs no scores."""
    own = scorer_given(model)
    named = own is None and model
    scorers = {each: _named_model(cast("str", model), each, options) if named else own for each in devices}
    for device in () if options.every else devices:
        _check_unknown(scorers[device], device, options)
    return scorers


def _devices(options: BenchOptions) -> tuple[str, ...]:
    refuse_text(options.devices, "The devices are")
    if options.workloads < 1:
        raise ArgumentError(f"The benchmark needs at least one workload of each device, got {options.workloads}.")
    if options.split is not None and options.data is None:
        raise ArgumentError("--split (split=...) divides measurements of your own; name them with --data (data=...).")
    if options.data is not None and len(options.devices) > 1:
        raise ArgumentError("With --data (data=...), name one device: programs of several devices are not comparable.")
    if options.data is None:
        unknown = [device for device in options.devices if device not in SUITE]
        if unknown:
            raise ArgumentError(
                f"The replay benchmark has no workloads of {unknown[0]}; it has those of {', '.join(SUITE)}. Or name "
                "measurements of your own with --data (data=...)."
            )
        return tuple(options.devices) or tuple(SUITE)
    place = find_data(options.data)
    return tuple(options.devices) or (place.device_id or DataFolder.open(place.path).only_device("."),)


def _place(device: str, options: BenchOptions) -> tuple[Path, set[str] | None]:
    """The data folder, and the ids of the workloads to choose from; None for all."""
    place = find_data(device if options.data is None else options.data)
    split = SUITE[device] if options.data is None else options.split
    return Path(place.path), set(find_split(place.path, split).test) if split else None


def _workloads(
    device: str, scorer: Any, options: BenchOptions, *, has_features: bool, progress: bool
) -> list[ReplayWorkload]:
    path, wanted = _place(device, options)
    spec = getattr(scorer, "feature_spec", DEFAULT_SPEC) if has_features else None
    return load_replay(path, device, workloads=wanted, spec=spec, count=options.workloads, progress=progress)


def _check_unknown(scorer: Any, device: str, options: BenchOptions) -> None:
    """Refuses a model that has learned from the workloads, on whichever device: two threads are like one."""
    devices, learned = learned_from(scorer, [device])
    if not learned:
        return
    path, wanted = _place(device, options)
    chosen = densest_workloads(path, device, workloads=wanted, count=options.workloads)
    known = chosen & learned
    if known:
        raise ArgumentError(
            f"{getattr(scorer, 'name', '') or 'The model'} has learned from {len(known)} of these {len(chosen)} "
            f"workloads (on {', '.join(devices)}), so its score would say little. --all (every=True) runs it "
            "anyway."
        )


def _named_model(name: str, device: str, options: BenchOptions) -> CostModel:
    """The model, bound to the device as far as the index or the data know it."""
    if options.data is None:
        return load_model(name, device=device)
    row = device_rows(find_data(options.data).path, [device])[device]
    return load_model(name, device=row if row.get("kind") else AUTO)


def _models(scorer: Any, method: str) -> tuple[Callable[[int], SearchModel | None], str]:
    """Seed -> the model of a search, and how it learns."""
    if scorer is None:
        return lambda seed: None, ""
    from costhub.models.protocol import CostModel
    from costhub.search.search_model import SearchModel
    from costhub.transfer.methods.by_name import find_method

    # A model that can only predict cannot be carried over to a task.
    chosen = method if isinstance(scorer, CostModel) else FROZEN
    how = find_method(chosen)
    return lambda seed: SearchModel(scorer, method=how, seed=seed), chosen


def _strategy(strategy: str | ReplayFactory) -> tuple[str, ReplayFactory]:
    if not isinstance(strategy, str):
        return getattr(strategy, "__name__", type(strategy).__name__), strategy
    if ":" in strategy:
        return strategy.rpartition(":")[2], cast("ReplayFactory", imported(strategy))
    refuse_file_alone(strategy)
    return strategy, REPLAY_STRATEGIES.find(strategy)
