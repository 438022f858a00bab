"""What a mistyped name may have meant, and which names can be those of files."""

import pytest

from costhub.names import close_names, is_plain_name


def test_the_closest_comes_first_whatever_its_case() -> None:
    assert close_names("RESNET8", ["matmul", "resnet18", "resnet50"])[0] == "resnet18"


def test_names_that_contain_the_word_come_before_similar_ones() -> None:
    known = ["zen3", "zen4", "zen5", "intel-xeon-sapphirerapids", "intel-xeon-icelake", "xenon"]

    assert close_names("Xeon", known) == ["intel-xeon-icelake", "intel-xeon-sapphirerapids", "xenon"]
    assert close_names("xeon", known, most=1) == ["intel-xeon-icelake"]
    assert close_names("en", known) == ["zen5", "zen4", "zen3"], "two letters are in too many names"


def test_nothing_is_close_to_nonsense() -> None:
    assert close_names("qqqq", ["matmul", "resnet18"]) == []


@pytest.mark.parametrize("name", ["a", "Zen5-2c", "sse4.2", "any_cpu+1", "0"])
def test_letters_digits_and_a_few_signs_make_a_plain_name(name: str) -> None:
    assert is_plain_name(name)


@pytest.mark.parametrize("name", ["", ".hidden", "-x", "a/b", "..", "a b", "zen\n", "ä", None, 5])
def test_what_no_file_should_be_called_is_no_plain_name(name: object) -> None:
    assert not is_plain_name(name)


def test_a_plain_name_may_be_limited_in_length() -> None:
    assert is_plain_name("a" * 120, most=120)
    assert not is_plain_name("a" * 121, most=120)
