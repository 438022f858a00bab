"""Provides Conditioned: one cost model for many devices, by what each can do; it scores for unseen devices too."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import ModelError
from costhub.models.architectures import new_model
from costhub.models.compound.blend import BlendOptions
from costhub.models.compound.device_vector import (
    DEVICE_1,
    LAYOUTS,
    DeviceLayout,
    DeviceScaler,
    Vector,
    device_vector,
    relation_columns,
    relation_places,
)
from costhub.models.compound.members import update_members
from costhub.models.inputs import check_training, checked_rows, not_fitted_error
from costhub.models.options import added_option, check_choice, check_width, parse_options
from costhub.models.protocol import CostModel, Scores

BASES = ("gbt", "mlp", "blend")
"""Architectures that can be conditioned: those for which a feature row is just a list of numbers, and a blend of
these."""


@dataclass(frozen=True)
class ConditionedOptions:
    """How a Conditioned is built."""

    base: str = "gbt"
    """The architecture that learns."""
    relations: bool = True
    """Whether rows also get the columns of `device_relations`; otherwise the device's own numbers only."""
    objective: str = ""
    """Objective of the base; empty for the base's default."""
    members: str = added_option("", before="")
    """Members of the base if it is a `blend`, as in `BlendOptions`; empty for the blend's default."""
    device_layout: str = added_option(DEVICE_1.name)
    """The numbers of a device that it is told: `device@1`, or `device@2` with those of a GPU's target as well."""

    def __post_init__(self) -> None:
        if self.base not in BASES:
            raise ValueError(f"base must be one of {', '.join(BASES)}, got {self.base!r}.")
        if self.members and self.base != "blend":
            raise ValueError(f"members belong to the base blend, and base is {self.base!r}; leave them out.")
        if self.members:
            BlendOptions(members=self.members)
        check_choice("device_layout", self.device_layout, tuple(LAYOUTS))


class Conditioned(CostModel):
    """A base model on wider rows: each holds the numbers of the program's device, and relations to them.

    Pairs and normalisation stay within a workload and device, so the device alone distinguishes nothing; what
    the base learns is which programs gain on which devices.

    Args:
        feature_spec: Name and version of the feature layout it reads, which cannot be composite.
        options: How it is built.
        devices: Rows of the `devices` table by id, for the devices that `fit` will encounter.
        base: The model to condition, not yet fitted; by default a new one of `options.base`.

    Example:
        >>> cpu = {"device_id": "a", "kind": "cpu", "cores": 2}
        >>> rows = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
        >>> ones, latency_s = np.ones(64, np.int64), np.exp(rows[:, 0]).astype(float)
        >>> programs = Programs(rows, ones, 0 * ones, ("w",), latency_s, device_ids=("a",))
        >>> model = Conditioned(feature_spec="demo@1", devices={"a": cpu})
        >>> model.fit(programs, None, seed=0, progress=False)
        >>> model.bind({**cpu, "device_id": "b", "cores": 4}).predict(rows, ones).shape
        (64,)
    """

    arch = "conditioned"

    def __init__(
        self,
        *,
        feature_spec: str,
        options: ConditionedOptions | None = None,
        devices: Mapping[str, Mapping[str, Any]] | None = None,
        base: CostModel | None = None,
    ) -> None:
        if "+" in feature_spec:
            raise ModelError(f"A conditioned model reads one feature spec, got {feature_spec}; name one of its parts.")
        options = options or ConditionedOptions()
        self.feature_spec = feature_spec
        self.options = options if base is None else replace(options, base=base.arch)
        self.devices = dict(devices or {})
        """Not saved: a loaded model is bound to the device it is used for."""
        self.base = _new_base(options, feature_spec) if base is None else base
        self.columns: int | None = None
        """Width of a program's row; None before fitting or loading."""
        self.scaler: DeviceScaler | None = None
        self.device: Vector | None = None
        """The device that it is bound to."""

    def add_devices(self, devices: Mapping[str, Mapping[str, Any]]) -> None:
        """Adds rows of the `devices` table, by id, for devices whose programs the model will encounter."""
        self.devices.update(devices)

    def bind(self, device: Mapping[str, Any]) -> Conditioned:
        """This model for one device, for which it fits, scores and learns like any other model.

        Args:
            device: A row of the `devices` table; numbers that it lacks are taken as the mean over the devices
                learned from.

        Returns:
            A copy; this model does not change.

        Raises:
            ModelError: The row gives no kind, or the model has not learned from any device of that kind.
        """
        vector = self._vector(device)
        bound = copy.deepcopy(self)
        bound.device = vector
        bound.estimator = None  # that of another device
        return bound

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None:
        """Learns from scratch; `valid`, of other workloads, decides when to stop.

        Raises:
            DataError: No workload has two programs with different latencies.
            ModelError: A program is of a device that is not among `devices`.
        """
        check_training(train)
        self.scaler = None  # What an earlier fit has seen does not count.
        self.scaler = DeviceScaler.fit(self._vectors(train)[0], self._layout)
        self.columns = train.rows.shape[1]
        held_out = None if valid is None else self._widened(valid)
        self.base.checkpoint = self.checkpoint
        self.base.fit(self._widened(train), held_out, seed=seed, progress=progress)

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) scores, see `CostModel.predict`.

        Raises:
            ModelError: Also if it is not bound to a device.
        """
        columns, _ = self._fitted()
        rows = checked_rows(rows, counts, columns=columns)
        if self.device is None:
            raise ModelError(
                "This model scores for many devices and is bound to none; call its `bind` with a "
                "row of the devices table first."
            )
        which = np.zeros(len(rows), np.int64)
        return self.base.predict(self._wide(rows, self.device[None], which), counts)

    def predict_programs(self, programs: Programs) -> Scores:
        """(n,) scores of programs of several devices, each for its own device; comparable only within a group.

        Raises:
            ModelError: A program is of a device that is not among `devices`.
        """
        columns, _ = self._fitted()
        checked_rows(programs.rows, programs.counts, columns=columns)
        return self.base.predict(self._widened(programs).rows, programs.counts)

    def update(self, programs: Programs, *, seed: int) -> None:
        """Learns a little more, as the base does."""
        self._fitted()
        if programs.n:
            update_members(self, programs, seed=seed)

    def sub_models(self, programs: Programs) -> list[tuple[CostModel, Programs]]:
        """The sub-models of the base, see `CostModel.sub_models`."""
        columns, _ = self._fitted()
        checked_rows(programs.rows, programs.counts, columns=columns)
        return self.base.sub_models(self._widened(programs))

    def config(self) -> dict[str, Any]:
        """The width of the rows, the options, the scaler, the bound device, and the config of the base."""
        scaler = self.scaler
        return {
            "columns": self.columns or 0,
            **asdict(self.options),
            "device_mean": scaler.mean.tolist() if scaler else [],
            "device_inverse_std": scaler.inverse_std.tolist() if scaler else [],
            "device": None if self.device is None else self.device.tolist(),
            "base_options": self.base.config(),
        }

    def save_weights(self, folder: Path) -> None:
        """Writes the weights of the base; the rest is in `config`."""
        self._fitted()
        self.base.save_weights(folder)

    def load_weights(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Reads what `save_weights` wrote.

        Raises:
            ModelError: `config` or a file is not what the code expects.
        """
        rest = dict(config)
        columns = check_width("columns", rest.pop("columns", None), arch=self.arch)
        held = {key: rest.pop(key, None) for key in (*_SCALER_KEYS, "device")}
        inner = rest.pop("base_options", None)
        options = parse_options(ConditionedOptions, rest, arch=self.arch)
        layout = LAYOUTS[options.device_layout]
        mean, inverse_std = (_checked_vector(key, held[key], layout) for key in _SCALER_KEYS)
        if (inverse_std < 0).any():
            raise ModelError("device_inverse_std of this conditioned model is below 0; fetch it again.")
        bound = None if held["device"] is None else _checked_vector("device", held["device"], layout)
        width = columns + self._extra(options)
        base_columns = inner.get("columns") if isinstance(inner, Mapping) else None
        if base_columns != width:
            raise ModelError(
                f"{folder} holds a base that reads {base_columns} columns, but its config.json describes {width}. "
                "Fetch it again."
            )
        base = _new_base(options, self.feature_spec)
        base.load_weights(folder, inner)
        self.options, self.columns, self.base = options, columns, base
        self.scaler, self.device = DeviceScaler(mean, inverse_std, layout), bound

    def _fitted(self) -> tuple[int, DeviceScaler]:
        if self.columns is None or self.scaler is None:
            raise not_fitted_error()
        return self.columns, self.scaler

    def _extra(self, options: ConditionedOptions) -> int:
        layout = LAYOUTS[options.device_layout]
        return len(layout.names) + (len(relation_places(self.feature_spec, layout)) if options.relations else 0)

    @property
    def _layout(self) -> DeviceLayout:
        return LAYOUTS[self.options.device_layout]

    def _vector(self, row: Mapping[str, Any]) -> Vector:
        """(v,) the vector of a device that this model can score for."""
        vector = device_vector(row, self._layout)
        if self.scaler is not None and not self.scaler.knows_kind(vector):
            raise ModelError(
                f"None of the devices that this model has learned from is of the kind {row['kind']!r}, so it "
                f"cannot score for {row.get('device_id')!r}; train one with measurements of that kind."
            )
        return vector

    def _vectors(self, programs: Programs) -> tuple[Vector, IntArray]:
        """(k, v) vectors of the devices of these programs, and (n,) the index of each program's vector."""
        if self.device is not None:
            return self.device[None], np.zeros(programs.n, np.int64)
        used, which = np.unique(programs.device, return_inverse=True)
        names = [programs.device_ids[number] for number in used]
        unknown = [name for name in names if name not in self.devices]
        if unknown:
            raise ModelError(
                f"There are programs of the device {unknown[0]!r}, which the model does not know; give its row "
                "of the devices table, or bind the model to it."
            )
        return np.stack([self._vector(self.devices[name]) for name in names]), which

    def _widened(self, programs: Programs) -> Programs:
        vectors, which = self._vectors(programs)
        wide = self._wide(programs.rows, vectors, np.repeat(which, programs.counts))
        return replace(programs, rows=wide, spec="")

    def _wide(self, rows: FloatArray, vectors: Vector, which: IntArray) -> FloatArray:
        """(r, d) rows, widened by what is known about their devices: (k, v) vectors, and (r,) each row's index."""
        _, scaler = self._fitted()
        numbers = scaler(vectors).astype(np.float32)[which]
        if not self.options.relations:
            return np.concatenate([rows, numbers], axis=1)
        places = relation_places(self.feature_spec, self._layout)
        relations = relation_columns(rows, scaler.filled(vectors)[which], places)
        return np.concatenate([rows, numbers, relations], axis=1)


_SCALER_KEYS = ("device_mean", "device_inverse_std")
_MOST = 1e9  # A logarithm, or 1 / its standard deviation; NaN and infinity are not below it.


def _new_base(options: ConditionedOptions, feature_spec: str) -> CostModel:
    given = {"objective": options.objective, "members": options.members}
    return new_model(options.base, feature_spec=feature_spec, options={name: v for name, v in given.items() if v})


def _checked_vector(name: str, values: object, layout: DeviceLayout) -> Vector:
    """(v,) numbers from untrusted JSON."""
    if (
        not isinstance(values, list)
        or len(values) != len(layout.names)
        or not all(type(value) in (int, float) and abs(value) < _MOST for value in values)
    ):
        raise ModelError(
            f"{name} of this conditioned model must be {len(layout.names)} numbers; it is damaged or of another "
            "version of costhub: fetch or train it again."
        )
    return np.array(values, np.float64)
