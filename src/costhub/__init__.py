"""Measured tensor programs and pretrained cost models for TVM MetaSchedule."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from costhub import errors
from costhub.errors import CosthubError
from costhub.versions import __version__

if TYPE_CHECKING:
    from costhub.api.tune import tune
    from costhub.dataset.load import iter_programs, load_programs
    from costhub.hub.data import iter_measurements, load_measurements
    from costhub.hub.pull import pull
    from costhub.models.evaluate import evaluate
    from costhub.models.folder import load_model
    from costhub.models.train import train_model as train
    from costhub.transfer.adapt import adapt

# Resolved on first use (PEP 562): each of these modules imports tvm, torch or pyarrow, which takes seconds
# that neither `costhub --help` nor a script that needs only one of them should have to wait.
_LAZY = {
    "adapt": "costhub.transfer.adapt:adapt",
    "evaluate": "costhub.models.evaluate:evaluate",
    "iter_measurements": "costhub.hub.data:iter_measurements",
    "iter_programs": "costhub.dataset.load:iter_programs",
    "load_measurements": "costhub.hub.data:load_measurements",
    "load_model": "costhub.models.folder:load_model",
    "load_programs": "costhub.dataset.load:load_programs",
    "pull": "costhub.hub.pull:pull",
    "train": "costhub.models.train:train_model",
    "tune": "costhub.api.tune:tune",
}

__all__ = [
    "CosthubError",
    "__version__",
    "adapt",
    "errors",
    "evaluate",
    "iter_measurements",
    "iter_programs",
    "load_measurements",
    "load_model",
    "load_programs",
    "pull",
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
