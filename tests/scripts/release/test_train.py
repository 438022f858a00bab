"""The recipes of the shipped models, and what a release adds to what `costhub train` writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costhub.models.compound.blend import BlendOptions
from costhub.models.compound.members import MemberSpec
from costhub.models.trees.gbt import GbtOptions
from scripts.release.train import RELEASES, ModelRelease, put_credit


def credit_of(place: Path, device: str) -> str:
    (release,) = [each for each in RELEASES if (each.device, each.arch) in ((device, "blend"), (device, "conditioned"))]
    config = {"arch": release.arch, "device_id": device, "data_credit": "whoever", "seed": 0}
    (place / "config.json").write_text(json.dumps(config))

    put_credit(place, release)

    written = json.loads((place / "config.json").read_text())
    assert written == {**config, "data_credit": written["data_credit"]}
    return str(written["data_credit"])


def test_a_model_of_several_datasets_credits_those_of_each_as_its_card_says(tmp_path: Path) -> None:
    replayed = "microsoft/nnfusion (MIT; replayed from logs of Ansor)"

    assert credit_of(tmp_path, "nvidia-h200") == "measurer not recorded (Apache-2.0), lac-dcc/bennu (MIT)"
    assert credit_of(tmp_path, "any-gpu") == f"lac-dcc/bennu (MIT), measurer not recorded (Apache-2.0), {replayed}"
    assert credit_of(tmp_path, "nvidia-k80") == replayed


def tree_objectives(release: ModelRelease) -> list[str]:
    """The objectives that the trees of a model are trained with."""
    options = dict(option.split("=", 1) for option in release.options)
    if release.arch in ("gbt", "mlp", "treegru"):
        trees = [options] if release.arch == "gbt" else []
    else:
        members = map(MemberSpec.parse, options.get("members", BlendOptions().members).split())
        trees = [dict(member.options) for member in members if member.arch == "gbt"]
    return [own.get("objective", GbtOptions().objective) for own in trees]


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: f"{release.device}-{release.arch}")
def test_the_trees_of_every_recipe_can_be_corrected(release: ModelRelease) -> None:
    # `costhub adapt` corrects trees of logarithms; of others, it would only grow more.
    assert tree_objectives(release) == ([] if release.arch in ("mlp", "treegru") else ["log"])
