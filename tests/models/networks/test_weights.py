from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from costhub.errors import ModelError
from costhub.models.networks.weights import draw_weights, read_tensors, write_tensors

EXPECTED = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    write_tensors(path, EXPECTED)
    return path


def test_tensors_come_back_as_they_were(path: Path) -> None:
    form = {"a": torch.empty(2, 3, device="meta"), "b": torch.zeros(2)}

    found = read_tensors(path, form)

    assert {name: t.tolist() for name, t in found.items()} == {name: t.tolist() for name, t in EXPECTED.items()}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"c": torch.ones(1)}, "lacks c: its tensors are not those"),
        ({"a": torch.ones(3, 2)}, r"holds a of shape \(2, 3\), but config.json describes \(3, 2\)"),
        ({"a": torch.ones(2, 3, 1)}, r"holds a of shape \(2, 3\), but"),
        ({"b": torch.ones(2, dtype=torch.float64)}, "holds b as F32, expected F64"),
    ],
)
def test_a_file_of_another_form_is_refused(path: Path, change: dict[str, Tensor], sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        read_tensors(path, {**EXPECTED, **change})


def test_a_tensor_nobody_asked_for_is_refused(path: Path) -> None:
    with pytest.raises(ModelError, match="holds unknown b"):
        read_tensors(path, {"a": EXPECTED["a"]})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, value: float) -> None:
    path = tmp_path / "model.safetensors"
    write_tensors(path, {**EXPECTED, "b": torch.tensor([0.0, value])})

    with pytest.raises(ModelError, match="NaN or infinity in b"):
        read_tensors(path, EXPECTED)


@pytest.mark.parametrize("size", [0, 4, 40, 100])
def test_a_file_cut_short_is_refused(path: Path, size: int) -> None:
    whole = path.read_bytes()
    assert size < len(whole)
    path.write_bytes(whole[:size])

    with pytest.raises(ModelError, match="damaged or cut short"):
        read_tensors(path, EXPECTED)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks model\.safetensors"):
        read_tensors(tmp_path / "model.safetensors", EXPECTED)


def test_a_file_beyond_any_cost_model_is_not_read(path: Path) -> None:
    os.truncate(path, 1 << 40)

    with pytest.raises(ModelError, match=r"has 1,099,511,627,776 bytes\. At most 1,073,741,824 are read"):
        read_tensors(path, EXPECTED)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("b", 3e38, r"holds 3e\+38 in b; in a sound model no number there is beyond 1e\+06"),
        ("b", -1.1e6, r"holds 1.1e\+06 in b"),
        ("scaler.mean", 1.1e12, r"holds 1.1e\+12 in scaler.mean; in a sound model no number there is beyond 1e\+12"),
    ],
)
def test_weights_beyond_those_of_a_sound_model_are_refused(
    name: str, value: float, sentence: str, tmp_path: Path
) -> None:
    path, tensors = tmp_path / "model.safetensors", {"b": torch.ones(2), "scaler.mean": torch.ones(2)}
    write_tensors(path, {**tensors, name: torch.tensor([0.0, value])})

    with pytest.raises(ModelError, match=sentence):
        read_tensors(path, tensors)


def test_tensors_at_the_bound_and_empty_ones_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {"b": torch.tensor([1e6, -1e6]), "scaler.mean": torch.tensor([1e12]), "empty": torch.ones(0)}
    write_tensors(path, tensors)

    found = read_tensors(path, {name: torch.empty(t.shape, device="meta") for name, t in tensors.items()})

    assert {name: t.tolist() for name, t in found.items()} == {name: t.tolist() for name, t in tensors.items()}


class Layers(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        with torch.device("meta"):
            self.linear = nn.Linear(9, 4)
            self.cell = nn.GRUCell(4, 4)
            self.table = nn.Embedding(5, 4)
            self.norm = nn.LayerNorm(4)
        draw_weights(self, torch.Generator().manual_seed(seed))


def test_weights_come_from_the_generator_and_nothing_else() -> None:
    before = torch.get_rng_state()

    one, same, other = (Layers(seed).state_dict() for seed in (1, 1, 2))

    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert [name for name in one if torch.equal(one[name], other[name])] == ["norm.weight", "norm.bias"]


def test_weights_lie_within_the_bound_of_their_layer() -> None:
    layers = Layers(0)

    for layer, inputs in ((layers.linear, 9), (layers.cell, 4), (layers.table, 4)):
        for weight in layer.parameters():
            assert 0.0 < float(weight.detach().abs().max()) <= inputs**-0.5


def test_a_normalisation_begins_by_changing_nothing() -> None:
    norm = Layers(0).norm

    assert norm.weight.tolist() == [1.0] * 4
    assert norm.bias.tolist() == [0.0] * 4
