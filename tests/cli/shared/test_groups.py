"""Names of commands that there are not."""

from __future__ import annotations

import click
import pytest

from costhub.cli.shared.groups import NamingGroup


@click.group(cls=NamingGroup)
def shop() -> None:
    """Sell things."""


@shop.command()
def bread() -> None:
    """Sell bread."""


@shop.command()
def cheese() -> None:
    """Sell cheese."""


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("chese", "There is no command named 'chese'. Did you mean cheese?"),
        ("qqq", "There is no command named 'qqq'. The commands are bread, cheese."),
    ],
)
def test_an_unknown_command_is_answered_with_the_close_ones_or_all(word: str, sentence: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        shop.main([word], standalone_mode=False)

    assert caught.value.message == sentence


def test_a_wrong_option_is_the_business_of_click() -> None:
    with pytest.raises(click.NoSuchOption):
        shop.main(["--price"], standalone_mode=False)
