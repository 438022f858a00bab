"""Measured tensor programs and pretrained cost models for TVM MetaSchedule."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from costhub import errors
from costhub.errors import CosthubError
from costhub.versions import __version__

if TYPE_CHECKING:
    from costhub.api.check import check
    from costhub.api.cluster.collect import collect_on_cluster
    from costhub.api.collect import CollectOptions, collect
    from costhub.api.compile import CompileOptions, compile
    from costhub.api.data_tools import (
        export_metaschedule,
        import_ansor,
        import_metaschedule,
        import_source,
        make_splits,
        stats,
    )
    from costhub.api.devices import devices
    from costhub.api.doctor import doctor, merge
    from costhub.api.estimating.estimate import estimate
    from costhub.api.evaluation import evaluate
    from costhub.api.hidden import hide_latencies, score_submissions, submit_scores
    from costhub.api.learning import adapt, train
    from costhub.api.measuring import BoardsAt
    from costhub.api.models import load_model, pull, save_model
    from costhub.api.probe import probe
    from costhub.api.publishing.card import card
    from costhub.api.publishing.site import site
    from costhub.api.replay.bench import BenchOptions, bench_search
    from costhub.api.tune import TuneOptions, tune
    from costhub.hub.contribute import contribute
    from costhub.hub.data import (
        iter_measurements,
        iter_programs,
        list_splits,
        load_measurements,
        load_programs,
        load_split,
        open_programs,
    )
    from costhub.hub.lock import check_lock, lock, pull_locked, pull_locked_data
    from costhub.hub.publish import publish
    from costhub.hub.review.review import review
    from costhub.models.evaluate import evaluate_scores
    from costhub.search.replay.judge import ReplaySettings
    from costhub.search.whole_network.tuned_network import load_network

# Resolved on first use (PEP 562): each of these modules imports tvm, torch or pyarrow, which takes seconds
# that neither `costhub --help` nor a script that needs only one of them should have to wait.
_LAZY = {
    "BenchOptions": "costhub.api.replay.bench:BenchOptions",
    "BoardsAt": "costhub.api.measuring:BoardsAt",
    "CollectOptions": "costhub.api.collect:CollectOptions",
    "CompileOptions": "costhub.api.compile:CompileOptions",
    "ReplaySettings": "costhub.search.replay.judge:ReplaySettings",
    "TuneOptions": "costhub.api.tune:TuneOptions",
    "adapt": "costhub.api.learning:adapt",
    "bench_search": "costhub.api.replay.bench:bench_search",
    "card": "costhub.api.publishing.card:card",
    "check": "costhub.api.check:check",
    "check_lock": "costhub.hub.lock:check_lock",
    "collect": "costhub.api.collect:collect",
    "collect_on_cluster": "costhub.api.cluster.collect:collect_on_cluster",
    "compile": "costhub.api.compile:compile",
    "contribute": "costhub.hub.contribute:contribute",
    "devices": "costhub.api.devices:devices",
    "doctor": "costhub.api.doctor:doctor",
    "estimate": "costhub.api.estimating.estimate:estimate",
    "evaluate": "costhub.api.evaluation:evaluate",
    "evaluate_scores": "costhub.models.evaluate:evaluate_scores",
    "export_metaschedule": "costhub.api.data_tools:export_metaschedule",
    "hide_latencies": "costhub.api.hidden:hide_latencies",
    "import_ansor": "costhub.api.data_tools:import_ansor",
    "import_metaschedule": "costhub.api.data_tools:import_metaschedule",
    "import_source": "costhub.api.data_tools:import_source",
    "iter_measurements": "costhub.hub.data:iter_measurements",
    "iter_programs": "costhub.hub.data:iter_programs",
    "list_splits": "costhub.hub.data:list_splits",
    "load_measurements": "costhub.hub.data:load_measurements",
    "load_model": "costhub.api.models:load_model",
    "load_network": "costhub.search.whole_network.tuned_network:load_network",
    "load_programs": "costhub.hub.data:load_programs",
    "load_split": "costhub.hub.data:load_split",
    "lock": "costhub.hub.lock:lock",
    "make_splits": "costhub.api.data_tools:make_splits",
    "merge": "costhub.api.doctor:merge",
    "open_programs": "costhub.hub.data:open_programs",
    "probe": "costhub.api.probe:probe",
    "publish": "costhub.hub.publish:publish",
    "pull": "costhub.api.models:pull",
    "pull_locked": "costhub.hub.lock:pull_locked",
    "pull_locked_data": "costhub.hub.lock:pull_locked_data",
    "review": "costhub.hub.review.review:review",
    "save_model": "costhub.api.models:save_model",
    "score_submissions": "costhub.api.hidden:score_submissions",
    "site": "costhub.api.publishing.site:site",
    "stats": "costhub.api.data_tools:stats",
    "submit_scores": "costhub.api.hidden:submit_scores",
    "train": "costhub.api.learning:train",
    "tune": "costhub.api.tune:tune",
}

__all__ = [
    "BenchOptions",
    "BoardsAt",
    "CollectOptions",
    "CompileOptions",
    "CosthubError",
    "ReplaySettings",
    "TuneOptions",
    "__version__",
    "adapt",
    "bench_search",
    "card",
    "check",
    "check_lock",
    "collect",
    "collect_on_cluster",
    "compile",
    "contribute",
    "devices",
    "doctor",
    "errors",
    "estimate",
    "evaluate",
    "evaluate_scores",
    "export_metaschedule",
    "hide_latencies",
    "import_ansor",
    "import_metaschedule",
    "import_source",
    "iter_measurements",
    "iter_programs",
    "list_splits",
    "load_measurements",
    "load_model",
    "load_network",
    "load_programs",
    "load_split",
    "lock",
    "make_splits",
    "merge",
    "open_programs",
    "probe",
    "publish",
    "pull",
    "pull_locked",
    "pull_locked_data",
    "review",
    "save_model",
    "score_submissions",
    "site",
    "stats",
    "submit_scores",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'costhub' has no attribute {name!r}; it offers {', '.join(__all__)}.")
    module, attribute = _LAZY[name].split(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value  # the next access is a plain lookup
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
