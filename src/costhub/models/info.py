"""Provides ModelInfo: what a model folder says about where its model comes from, checked on reading."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from costhub.errors import ModelError


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """Where a model comes from and how good it is; the fields are those of `config.json`."""

    arch: str
    feature_spec: str
    """Name and version of the feature layout the model reads."""
    device_id: str
    """What it is for: the device measured, the ids of several joined by `+`, or another name."""
    data_hash: str
    """sha256 of the programs it learned from, see `train.data_hash`."""
    data_rows: int
    """Number of programs it learned from."""
    seed: int
    versions: dict[str, str] = field(default_factory=dict)
    """Package -> version at training."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Metric -> mean over the held-out workloads; empty if it was not evaluated."""
    created: str
    """ISO 8601, UTC."""
    licence: str
    """An SPDX name."""
    base: str | None = None
    """The model that its training was continued from."""
    method: str | None = None
    """How it was adapted from `base`, for people to read; None also in folders of early versions."""
    data_credit: str | None = None
    """Who measured what it learned from, see `dataset.credit`; None also in folders of early versions."""
    train_workloads: tuple[str, ...] = ()
    """Ids of the workloads it learned from, including those that decided when to stop."""
    test_workloads: tuple[str, ...] = ()
    """Ids of the workloads held out for `metrics`."""
    train_devices: tuple[str, ...] = ()
    """Ids of the devices it learned from; empty if `device_id` names them, as in folders of early versions."""
    datasets: tuple[str, ...] = ()
    """ORG/NAME@REVISION of the datasets it learned from; empty if they are in no hub, and in early folders."""
    test_datasets: tuple[str, ...] = ()
    """The same for the datasets that the held-out workloads come from."""
    base_devices: tuple[str, ...] = ()
    """Ids of the devices that `base` has learned from, if it was adapted; empty in early folders, as the next."""
    base_workloads: tuple[str, ...] = ()
    """Ids of the workloads that `base` has learned from, on any of them."""

    @property
    def device_ids(self) -> tuple[str, ...]:
        """The devices it learned from."""
        return self.train_devices or tuple(self.device_id.split("+"))

    @property
    def known_devices(self) -> tuple[str, ...]:
        """Ids of the devices that it or its base has learned from."""
        return tuple(dict.fromkeys((*self.device_ids, *self.base_devices)))

    @property
    def known_workloads(self) -> tuple[str, ...]:
        """Ids of the workloads that it or its base has learned from, sorted."""
        return tuple(sorted({*self.train_workloads, *self.base_workloads}))

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, path: str) -> ModelInfo:
        """Builds the info from the content of a `config.json`; unknown keys are ignored.

        Args:
            config: The content.
            path: Path of the file, for messages.

        Raises:
            ModelError: A field is missing or has another type.
        """
        values: dict[str, Any] = {}
        for each in fields(cls):
            name, (kind, fits) = each.name, _KINDS[str(each.type)]
            if name not in config and name in _LATER:
                continue
            if name not in config or not fits(config[name]):
                actual = f"has {config[name]!r:.60}" if name in config else "has none"
                raise ModelError(f"{path} needs {name}, {kind}, but {actual}; fetch or train the model again.")
            values[name] = tuple(config[name]) if isinstance(config[name], list) else config[name]
        return cls(**values)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


def _is_number_map(value: object) -> bool:
    # A whole number of 400 digits is JSON too, but not a double.
    return isinstance(value, dict) and all(
        type(v) in (int, float) and abs(v) < sys.float_info.max for v in value.values()
    )


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


_LATER = frozenset(
    {"method", "data_credit", "train_devices", "datasets", "test_datasets", "base_devices", "base_workloads"}
)
"""Fields that the first model folders lack."""
_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "str": ("a string", _is_text),
    "str | None": ("a string or null", lambda value: value is None or _is_text(value)),
    "int": ("a whole number", _is_count),
    "dict[str, str]": ("an object of strings", _is_text_map),
    "dict[str, float]": ("an object of finite numbers", _is_number_map),
    "tuple[str, ...]": ("a list of strings", _is_text_list),
}
"""Annotation of a field -> what its value must be, for messages, and a check of a value."""
