from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pytest

from costhub.errors import ModelError, UnknownNameError
from costhub.models.networks.losses import OBJECTIVES as LOSSES
from costhub.models.options import (
    NETWORK_OBJECTIVES,
    TREE_OBJECTIVES,
    added_option,
    changed_options,
    check_choice,
    check_ranges,
    describe_options,
    parse_options,
)
from costhub.models.trees.gbt import OBJECTIVES as TREES


@dataclass(frozen=True)
class Options:
    size: int = 4
    rate: float = 0.5
    kind: str = "a"

    def __post_init__(self) -> None:
        check_ranges({"size": (self.size, 1, 10), "rate": (self.rate, 0.0, 1.0)})


def test_options_come_back_as_they_were() -> None:
    options = Options(size=3, rate=0.25, kind="b")

    assert parse_options(Options, asdict(options), arch="demo") == options


def test_a_whole_number_passes_for_a_fraction() -> None:
    assert parse_options(Options, {"size": 1, "rate": 1, "kind": "a"}, arch="demo").rate == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"size": "4"}, "size of this demo model must be int, got '4'"),
        ({"size": True}, "size of this demo model must be int, got True"),
        ({"size": 4.0}, "size of this demo model must be int"),
        ({"size": 11}, "size must be between 1 and 10, got 11"),
        ({"rate": float("nan")}, "rate must be between 0 and 1, got nan"),
        ({"extra": 1}, "missing or unknown: extra"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        parse_options(Options, {**asdict(Options()), **change}, arch="demo")


def test_a_missing_option_is_named() -> None:
    with pytest.raises(ModelError, match="missing or unknown: kind, rate"):
        parse_options(Options, {"size": 4}, arch="demo")


@dataclass(frozen=True)
class Later(Options):
    objective: str = added_option("new", before="old")
    layers: int = added_option(2)
    deep: bool = False


def test_an_option_that_was_added_means_what_was_done_before_it() -> None:
    folder = {**asdict(Options()), "deep": True}

    assert Later().objective == "new"
    assert parse_options(Later, folder, arch="demo") == Later(objective="old", layers=2, deep=True)
    assert parse_options(Later, {**folder, "layers": 3}, arch="demo").layers == 3
    with pytest.raises(ModelError, match="missing or unknown: deep"):
        parse_options(Later, asdict(Options()), arch="demo")


def test_changes_may_be_values_or_the_text_of_values() -> None:
    changed = changed_options(Later(), {"size": "7", "rate": 1, "kind": "b", "deep": "True"}, owner="demo")

    assert changed == Later(size=7, rate=1.0, kind="b", deep=True)
    assert type(changed.rate) is float


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"size": "4.5"}, "size must be a whole number, got '4.5'"),
        ({"size": True}, "size must be a whole number, got True"),
        ({"rate": "fast"}, "rate must be a number, got 'fast'"),
        ({"deep": "yes"}, "deep must be true or false, got 'yes'"),
        ({"kind": 3}, "kind must be a string, got 3"),
        ({"size": "11"}, "size must be between 1 and 10, got 11"),
    ],
)
def test_changes_that_make_no_sense_are_refused(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(ModelError, match=f"These options of demo cannot be used: {sentence}"):
        changed_options(Later(), change, owner="demo")


def test_an_unknown_option_is_refused_with_the_close_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"no option of demo named 'sizes'\. Did you mean size"):
        changed_options(Later(), {"sizes": 1}, owner="demo")


def test_a_choice_is_one_of_those_there_are() -> None:
    check_choice("kind", "a", ("a", "b"))
    with pytest.raises(ValueError, match="kind must be one of a, b, got 'c'"):
        check_choice("kind", "c", ("a", "b"))


def test_the_objectives_are_those_that_the_losses_know() -> None:
    assert set(NETWORK_OBJECTIVES) == set(LOSSES)
    assert set(TREE_OBJECTIVES) == set(TREES)


def test_options_are_described_with_the_texts_of_their_source() -> None:
    @dataclass(frozen=True)
    class Wide:
        """Whatever."""

        width: int = 3
        """How wide
        it is."""
        depth: float = added_option(0.5)
        """How deep."""
        name: str = "a"

    @dataclass(frozen=True)
    class Wider(Wide):
        width: int = 30
        more: bool = False
        """Whether more."""

    described = {each.name: (each.default, each.meaning) for each in describe_options(Wider)}

    assert described == {
        "width": (30, "How wide it is."),
        "depth": (0.5, "How deep."),
        "name": ("a", ""),
        "more": (False, "Whether more."),
    }
    made = type("Made", (Wide,), {})
    assert [each.name for each in describe_options(made)] == ["width", "depth", "name"]
