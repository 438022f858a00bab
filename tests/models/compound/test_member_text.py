from __future__ import annotations

import pytest

from costhub.errors import ModelError
from costhub.models.architectures import new_model
from costhub.models.compound.member_text import COMPOUND, Member


@pytest.mark.parametrize(
    ("word", "member"),
    [
        ("gbt", Member("gbt")),
        ("gbt:per_store@1", Member("gbt", (), "per_store@1")),
        ("mlp(hidden=8,learning_rate=1e-3)", Member("mlp", (("hidden", "8"), ("learning_rate", "1e-3")))),
        ("gbt(objective=rank):a@1+b@2", Member("gbt", (("objective", "rank"),), "a@1+b@2")),
    ],
)
def test_a_word_is_read(word: str, member: Member) -> None:
    assert Member.parse(word) == member
    assert str(member) == word


@pytest.mark.parametrize(
    "word",
    [
        "", " gbt", "gbt ", "gbt:", "gbt()", "gbt(rounds)", "gbt(rounds=)", "gbt(=3)", "gbt(rounds=3",
        "gbt(rounds=3,)", "gbt(a=b=c)", "gbt:per_store", "gbt:a@1+", "gbt:a@1 b@1", "GBT",
        "gbt(rounds=3)(depth=2)", "gbt:a@1(rounds=3)", "gbt\n", "gbt(a=../x)", "gbt:a@1/b", "gbt(ä=1)",
    ],
)  # fmt: skip
def test_a_word_of_another_form_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="a member must be"):
        Member.parse(word)


@pytest.mark.parametrize("arch", ["perceiver", *COMPOUND])
def test_what_cannot_be_a_member_is_refused_with_all_that_can(arch: str) -> None:
    with pytest.raises(ValueError, match=rf"one of mlp, gbt.*, got '{arch}'"):
        Member.parse(arch)


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="gives an option twice"):
        Member.parse("gbt(rounds=3,rounds=4)")


def test_a_new_member_has_its_options_and_reads_its_own_spec_or_that_of_the_whole() -> None:
    own = Member.parse("gbt(rounds=3,subsample=0.5):a@1").new(feature_spec="a@1+b@1")

    assert (own.arch, own.feature_spec) == ("gbt", "a@1")
    assert (own.config()["rounds"], own.config()["subsample"]) == (3, 0.5)
    assert Member.parse("gbt").new(feature_spec="a@1+b@1").feature_spec == "a@1+b@1"


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
        Member.parse(word).new(feature_spec="a@1")


def test_a_model_as_a_member_makes_its_like() -> None:
    model = new_model("mlp", feature_spec="a@1", options={"hidden": 8, "learning_rate": 1e-5})

    word = str(Member.of(model, whole="a@1+b@1"))

    assert word == "mlp(learning_rate=1e-05,hidden=8):a@1"
    assert Member.parse(word).new(feature_spec="a@1+b@1").config() == model.config()
    assert str(Member.of(model, whole="a@1")) == "mlp(learning_rate=1e-05,hidden=8)"
