from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pytest

from costhub.errors import ModelError
from costhub.models.options import check_ranges, parse_options


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
