"""What a mistyped name may have meant."""

from costhub.names import close_names


def test_the_closest_comes_first_whatever_its_case() -> None:
    assert close_names("RESNET8", ["matmul", "resnet18", "resnet50"])[0] == "resnet18"


def test_nothing_is_close_to_nonsense() -> None:
    assert close_names("qqqq", ["matmul", "resnet18"]) == []
