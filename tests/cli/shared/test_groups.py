"""Names of commands and options that there are not."""

from __future__ import annotations

import click
import pytest

from costhub.cli.shared.groups import NamingGroup, no_such_option


@click.group(cls=NamingGroup)
def shop() -> None:
    """Sell things."""


@shop.command()
def bread() -> None:
    """Sell bread."""


@shop.command()
@click.option("--slices-per-cheese")
@click.option("--slices", hidden=True)
@click.option("--ripe/--young")
def cheese(slices_per_cheese: str, slices: str, ripe: bool) -> None:
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


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--slice", " Did you mean --slices-per-cheese?"),
        ("--slices-per-chese", " Did you mean --slices-per-cheese?"),
        ("--yung", " Did you mean --young?"),
        ("--qqq", ""),
        ("-x", ""),
    ],
)
def test_an_unknown_option_is_answered_with_the_close_ones_that_the_help_shows(option: str, hint: str) -> None:
    with pytest.raises(click.NoSuchOption) as caught:
        shop.main(["cheese", option], standalone_mode=False)

    assert no_such_option(caught.value) == f"No such option '{option}'.{hint}"
