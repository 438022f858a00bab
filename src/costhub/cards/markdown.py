"""Reads and writes the Markdown files of cards: the YAML block at the top, and the text below it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from costhub.errors import DataError, first_line

CARD = "README.md"
"""The file name of a card, beside the data or model it describes."""
MAX_CARD_CHARACTERS = 256 << 10
"""Cards may be untrusted; a longer one is rejected before it is parsed."""


_TEXT = "tag:yaml.org,2002:str"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class _Loader(yaml.SafeLoader):
    """Plain values only. With an alias, a card of a few bytes could stand for gigabytes."""

    def compose_node(self, parent: yaml.nodes.Node | None, index: int) -> yaml.nodes.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.composer.ComposerError(problem="it holds an alias, which cards of costhub never do")
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) not in (None, "!"):
            raise yaml.composer.ComposerError(problem="it holds a tag, which cards of costhub never do")
        return super().compose_node(parent, index)

    def resolve(self, kind: type[yaml.nodes.Node], value: Any, implicit: Any) -> str:
        """Reads 1:30:00 as text: as a base-60 number, a long one takes hours to parse."""
        tag = str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        return _TEXT if tag in _NUMBERS and ":" in value else tag


class _Dumper(yaml.SafeDumper):
    """Writes repeated values in full, since an alias would not be read back."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class OnOneLine(dict[str, Any]):
    """A mapping that `join` puts on one line, with all its contents."""


def _represent_on_one_line(dumper: yaml.SafeDumper, mapping: OnOneLine) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", mapping.items(), flow_style=True)


_Dumper.add_representer(OnOneLine, _represent_on_one_line)
_BLOCK = re.compile(r"\A---\n(.*?\n)---\n(.*)\Z", re.DOTALL)


def join(metadata: Mapping[str, Any], body: str, *, width: int | None = None) -> str:
    """Makes a Markdown text with its metadata in front, keys in the given order.

    Args:
        metadata: Plain values.
        body: The text.
        width: Put innermost lists and mappings on one line each, of at most this many characters.

    Example:
        >>> print(join({"license": "apache-2.0"}, "# Title"))
        ---
        license: apache-2.0
        ---
        <BLANKLINE>
        # Title
    """
    # Non-ASCII is escaped: a few line separators would otherwise be read back as blanks.
    style = {"default_flow_style": None, "width": width} if width else {"width": 110}
    block = yaml.dump(dict(metadata), Dumper=_Dumper, sort_keys=False, allow_unicode=False, **style)
    return f"---\n{block}---\n\n{body}"


def split(text: str) -> tuple[dict[str, Any], str]:
    """Splits a card into its metadata and its text.

    Raises:
        DataError: There is no block of YAML at the top, or it is not a mapping.
    """
    if len(text) > MAX_CARD_CHARACTERS:
        raise DataError(f"The card is longer than {MAX_CARD_CHARACTERS} characters: costhub did not write it.")
    match = _BLOCK.match(text)
    if match is None:
        raise DataError("The card does not begin with a block of YAML between two lines of ---.")
    try:
        metadata = yaml.load(match[1], Loader=_Loader)  # noqa: S506 - a SafeLoader that accepts even less
    except (
        *(yaml.YAMLError, RecursionError, ValueError),
        *(LookupError, AttributeError, ArithmeticError, TypeError),  # invalid dates and the like
    ) as error:
        raise DataError(f"The block at the top of the card is not YAML: {first_line(error)}.") from error
    if not isinstance(metadata, dict):
        raise DataError("The block at the top of the card is not a mapping of keys to values.")
    return metadata, match[2].lstrip("\n")
