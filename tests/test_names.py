"""What a mistyped name may have meant."""

from costhub.names import close_names, close_or_all


def test_the_closest_comes_first_whatever_its_case() -> None:
    assert close_names("RESNET8", ["matmul", "resnet18", "resnet50"])[0] == "resnet18"


def test_nothing_is_close_to_nonsense() -> None:
    assert close_names("qqqq", ["matmul", "resnet18"]) == []


def test_where_nothing_is_close_a_short_list_is_given_whole() -> None:
    assert close_or_all("qqqq", ("matmul", "resnet18")) == ["matmul", "resnet18"]
    assert close_or_all("matmull", ("matmul", "resnet18")) == ["matmul"]
