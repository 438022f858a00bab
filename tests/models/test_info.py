from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from costhub.errors import ModelError
from costhub.models.info import _LATER, ModelInfo

INFO = ModelInfo(
    arch="mlp",
    feature_spec="demo@1",
    device_id="acme-one",
    data_hash="ab" * 32,
    data_rows=120,
    seed=3,
    versions={"torch": "2.13.0"},
    metrics={"top_1": 0.9},
    created="2026-01-02T03:04:05+00:00",
    licence="Apache-2.0",
    train_workloads=("w0", "w1"),
    test_workloads=("w2",),
)


def as_json(info: ModelInfo) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(asdict(info)))
    return found


@pytest.mark.parametrize("base", [None, "costhub/acme-one-mlp"])
def test_what_was_written_is_read_back(base: str | None) -> None:
    info = ModelInfo(**{**asdict(INFO), "base": base})

    assert ModelInfo.from_config({**as_json(info), "later": "a key of another version"}, path="p") == info


@pytest.mark.parametrize("name", ["method", "data_credit", "train_devices", "datasets", "test_datasets"])
def test_a_field_that_early_versions_lack_may_be_missing(name: str) -> None:
    config = as_json(INFO)
    del config[name]

    assert ModelInfo.from_config(config, path="p") == INFO


@pytest.mark.parametrize("name", sorted(asdict(INFO).keys() - _LATER))
def test_a_missing_field_is_named(name: str) -> None:
    config = as_json(INFO)
    del config[name]

    with pytest.raises(ModelError, match=rf"config\.json needs {name}, .*, but has none"):
        ModelInfo.from_config(config, path="config.json")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("arch", 1),
        ("arch", ""),
        ("device_id", None),
        ("data_rows", -1),
        ("data_rows", 1.5),
        ("seed", True),
        ("versions", {"torch": 2}),
        ("versions", ["torch"]),
        ("metrics", {"top_1": "0.9"}),
        ("metrics", {"top_1": float("nan")}),
        ("metrics", {"top_1": 10**400}),
        ("metrics", None),
        ("base", 3),
        ("train_workloads", "w0"),
        ("test_workloads", [1]),
    ],
)
def test_a_field_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(ModelError, match=rf"config\.json needs {name}, .*, but has "):
        ModelInfo.from_config({**as_json(INFO), name: value}, path="config.json")


def test_several_devices_are_joined_in_one_id() -> None:
    several = ModelInfo(**{**asdict(INFO), "device_id": "acme-one+blit-two"})

    assert INFO.device_ids == ("acme-one",)
    assert several.device_ids == ("acme-one", "blit-two")
