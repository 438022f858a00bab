from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.compound.member_folders import load_members, save_members
from costhub.models.trees.gbt import Gbt, GbtOptions


def new(number: int = 2) -> list[Gbt]:
    return [Gbt(feature_spec="demo@1", options=GbtOptions(rounds=2)) for _ in range(number)]


@pytest.fixture
def members(train: Programs) -> list[Gbt]:
    members = new()
    for seed, member in enumerate(members):
        member.fit(train, None, seed=seed, progress=False)
    return members


def test_each_member_comes_back_from_its_own_sub_folder(
    members: list[Gbt], unseen: Programs, tmp_path: Path
) -> None:
    save_members(members, tmp_path)
    loaded = new()

    load_members(loaded, tmp_path, [member.config() for member in members], columns=[6, 6])

    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.ubj")) == [
        "member_0/model.ubj",
        "member_1/model.ubj",
    ]
    for one, other in zip(loaded, members, strict=True):
        np.testing.assert_array_equal(
            one.predict(unseen.rows, unseen.counts), other.predict(unseen.rows, unseen.counts)
        )


@pytest.mark.parametrize("configs", [None, {}, "xx", [], [{}], [None, None], [{}, {}, {}]])
def test_configurations_of_another_form_are_refused(
    configs: object, members: list[Gbt], tmp_path: Path
) -> None:
    save_members(members, tmp_path)

    with pytest.raises(
        ModelError, match=r"needs fitted, a list with an object for each of the 2 members|columns of"
    ):
        load_members(new(), tmp_path, configs, columns=[6, 6])


def test_a_member_of_another_width_than_the_whole_says_is_refused(members: list[Gbt], tmp_path: Path) -> None:
    save_members(members, tmp_path)

    with pytest.raises(ModelError, match=r"Member 1 in .* 6 columns, but config\.json describes 7"):
        load_members(new(), tmp_path, [member.config() for member in members], columns=[6, 7])


def test_a_missing_sub_folder_is_named(members: list[Gbt], tmp_path: Path) -> None:
    save_members(members[:1], tmp_path)

    with pytest.raises(ModelError, match=r"member_1 lacks model\.ubj"):
        load_members(new(), tmp_path, [member.config() for member in members], columns=[6, 6])
