from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.architectures import new_model
from costhub.models.compound.members import COMPOUND, MemberSpec, load_members, save_members
from costhub.models.trees.gbt import Gbt, GbtOptions


@pytest.mark.parametrize(
    ("word", "member"),
    [
        ("gbt", MemberSpec("gbt")),
        ("gbt:per_store@1", MemberSpec("gbt", (), "per_store@1")),
        ("mlp(hidden=8,learning_rate=1e-3)", MemberSpec("mlp", (("hidden", "8"), ("learning_rate", "1e-3")))),
        ("gbt(objective=rank):a@1+b@2", MemberSpec("gbt", (("objective", "rank"),), "a@1+b@2")),
    ],
)
def test_a_word_is_read(word: str, member: MemberSpec) -> None:
    assert MemberSpec.parse(word) == member
    assert str(member) == word


@pytest.mark.parametrize(
    "word",
    [
        "",
        " gbt",
        "gbt ",
        "gbt:",
        "gbt()",
        "gbt(rounds)",
        "gbt(rounds=)",
        "gbt(=3)",
        "gbt(rounds=3",
        "gbt(rounds=3,)",
        "gbt(a=b=c)",
        "gbt:per_store",
        "gbt:a@1+",
        "gbt:a@1 b@1",
        "GBT",
        "gbt(rounds=3)(depth=2)",
        "gbt:a@1(rounds=3)",
        "gbt\n",
        "gbt(a=../x)",
        "gbt:a@1/b",
        "gbt(ä=1)",
    ],
)
def test_a_word_of_another_form_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="a member must be"):
        MemberSpec.parse(word)


@pytest.mark.parametrize("arch", ["perceiver", *COMPOUND])
def test_what_cannot_be_a_member_is_refused_with_all_that_can(arch: str) -> None:
    with pytest.raises(ValueError, match=rf"one of mlp, gbt.*, got '{arch}'"):
        MemberSpec.parse(arch)


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="gives an option twice"):
        MemberSpec.parse("gbt(rounds=3,rounds=4)")


def test_a_new_member_has_its_options_and_reads_its_own_spec_or_that_of_the_whole() -> None:
    own = MemberSpec.parse("gbt(rounds=3,subsample=0.5):a@1").new(feature_spec="a@1+b@1")

    assert (own.arch, own.feature_spec) == ("gbt", "a@1")
    assert (own.config()["rounds"], own.config()["subsample"]) == (3, 0.5)
    assert MemberSpec.parse("gbt").new(feature_spec="a@1+b@1").feature_spec == "a@1+b@1"


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("gbt(round=3)", "no option of gbt named 'round'"),
        ("gbt(rounds=x)", "rounds must be a whole number"),
        ("gbt(rounds=0)", "rounds must be between 1"),
    ],
)
def test_options_that_cannot_be_are_refused(word: str, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        MemberSpec.parse(word).new(feature_spec="a@1")


def test_a_model_as_a_member_makes_its_like() -> None:
    model = new_model("mlp", feature_spec="a@1", options={"hidden": 8, "learning_rate": 1e-5})

    word = str(MemberSpec.of(model, whole="a@1+b@1"))

    assert word == "mlp(learning_rate=1e-05,hidden=8):a@1"
    assert MemberSpec.parse(word).new(feature_spec="a@1+b@1").config() == model.config()
    assert str(MemberSpec.of(model, whole="a@1")) == "mlp(learning_rate=1e-05,hidden=8)"


def new(number: int = 2) -> list[Gbt]:
    return [Gbt(feature_spec="demo@1", options=GbtOptions(rounds=2)) for _ in range(number)]


@pytest.fixture
def members(train: Programs) -> list[Gbt]:
    members = new()
    for seed, member in enumerate(members):
        member.fit(train, None, seed=seed, progress=False)
    return members


def test_each_member_comes_back_from_its_own_sub_folder(members: list[Gbt], unseen: Programs, tmp_path: Path) -> None:
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
def test_configurations_of_another_form_are_refused(configs: object, members: list[Gbt], tmp_path: Path) -> None:
    save_members(members, tmp_path)

    with pytest.raises(ModelError, match=r"needs fitted, a list with an object for each of the 2 members|columns of"):
        load_members(new(), tmp_path, configs, columns=[6, 6])


def test_a_member_of_another_width_than_the_whole_says_is_refused(members: list[Gbt], tmp_path: Path) -> None:
    save_members(members, tmp_path)

    with pytest.raises(ModelError, match=r"Member 1 in .* 6 columns, but config\.json describes 7"):
        load_members(new(), tmp_path, [member.config() for member in members], columns=[6, 7])


def test_a_missing_sub_folder_is_named(members: list[Gbt], tmp_path: Path) -> None:
    save_members(members[:1], tmp_path)

    with pytest.raises(ModelError, match=r"member_1 lacks model\.ubj"):
        load_members(new(), tmp_path, [member.config() for member in members], columns=[6, 6])
