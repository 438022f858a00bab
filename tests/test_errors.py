from __future__ import annotations

import inspect
import pickle

import pytest

from costhub import errors
from costhub.errors import AmbiguousNameError, CosthubError, DataError, UnknownNameError, class_and_end, last_line

ERRORS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_is_one_of_ours_and_ends_the_command_with_1_or_2(kind: type[CosthubError]) -> None:
    assert issubclass(kind, CosthubError)
    assert kind.exit_code in {1, 2}


def test_what_cannot_be_read_ends_differently_from_what_went_wrong() -> None:
    assert DataError("The folder is empty.").exit_code != CosthubError("It did not work.").exit_code


def test_an_unknown_name_is_answered_with_the_close_ones_and_where_to_look() -> None:
    error = UnknownNameError("device", "nvidia-h20", ["nvidia-h200", "nvidia-h100"], "`costhub devices`")

    assert str(error) == (
        "There is no device named 'nvidia-h20'. Did you mean nvidia-h200 or nvidia-h100? "
        "`costhub devices` lists what there is."
    )
    assert (error.name, error.close) == ("nvidia-h20", ("nvidia-h200", "nvidia-h100"))


def test_an_unknown_name_like_no_other_says_so() -> None:
    error = UnknownNameError("device", "zzz", [], "`costhub devices`")

    assert "Nothing is close to it." in str(error)


def test_an_unknown_name_among_few_is_answered_with_all_of_them() -> None:
    few = UnknownNameError("method", "foo", [], "`costhub adapt --help`", ["frozen", "brief", "lottery"])
    close = UnknownNameError("method", "frosen", ["frozen"], "`costhub adapt --help`", ["frozen", "brief"])

    assert str(few) == "There is no method named 'foo'. There are frozen, brief and lottery."
    assert "Did you mean frozen? `costhub adapt --help` lists" in str(close)


def test_an_ambiguous_name_lists_all_it_may_mean() -> None:
    error = AmbiguousNameError("device", "h200", ["nvidia-h200", "nvidia-h200-nvl"])

    assert "nvidia-h200, nvidia-h200-nvl" in str(error)
    assert error.candidates == ("nvidia-h200", "nvidia-h200-nvl")


def test_the_last_line_of_a_message_is_cut_and_never_empty() -> None:
    assert last_line(RuntimeError("  a\nb \n\n")) == "b"
    assert last_line(RuntimeError(" \n")) == "RuntimeError"
    assert len(last_line(RuntimeError("x" * 1000))) == 300


def test_the_end_of_a_long_message_is_kept_behind_the_class() -> None:
    assert class_and_end(ValueError("x" * 2000 + "y")) == "ValueError: " + "x" * 999 + "y"
    assert class_and_end(ValueError("  ")) == "ValueError: ValueError"


@pytest.mark.parametrize(
    "error",
    [DataError("The folder is empty."), UnknownNameError("device", "h20", ["h200"], "`costhub devices`")],
)
def test_an_error_of_a_child_process_arrives_whole(error: CosthubError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - just pickled

    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
