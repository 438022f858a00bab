"""Provides check_card: checks what an untrusted card may contain, as seen by a CommonMark parser."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from costhub.cards.markdown import MAX_CARD_CHARACTERS, split
from costhub.errors import DataError
from costhub.terminal_text import clean

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

MAX_BODY_CHARACTERS = 128 << 10
MAX_INLINE_CHARACTERS = 64 << 10
"""Size limit of one paragraph or table: parsing takes time quadratic in its length."""
MAX_DEPTH = 12
"""Nesting limit for lists, quotations and emphasis. Some parsers drop deeper content, others show it."""
MAX_TOKENS = 40_000
MAX_ADDRESS_CHARACTERS = 2_000

_JOINERS = "\u200c\u200d"
"""Zero-width (non-)joiners: scripts of India and Iran, and emoji, need them."""
_NAME = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_PATH = rf"(?:\./)?{_NAME}(?:/{_NAME}){{0,7}}"
_PICTURE = re.compile(rf"{_PATH}\.png", re.IGNORECASE | re.ASCII)
_LINK = re.compile(
    rf"(?:{_PATH}/?)?(?:#[^\s\\<>\"`]*)?"  # in the folder of the card, or in the card
    # No user name before the host: https://huggingface.co@example.org points to example.org.
    r"|https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:[/?#][^\s\\<>\"`^{|}]*)?",
    re.IGNORECASE | re.ASCII,
)
_HTML = re.compile(r"<(?:[A-Za-z][A-Za-z0-9-]*(?:[\s/>]|$)|/[A-Za-z]|!|\?)", re.MULTILINE)
"""Text that is not HTML in CommonMark, but is in other parsers, such as <svg/onload=x>."""
_CODE_SCHEME = r"(?:javascript|vbscript|livescript|file|data(?=:\S))\s*:"
_ALMOST_A_LINK = re.compile(
    rf"\]\s*\(\s*<?\s*(?:{_CODE_SCHEME}|(?:https?|ftp):|[/\\]{{2}})|[<{{]\s*{_CODE_SCHEME}"
    r"|^[\s>*+-]*\[[^\]\n]{1,300}\]:\s*<?\s*(?:[a-z][a-z0-9+.-]{1,20}:\S|[/\\]{2})",
    re.IGNORECASE | re.MULTILINE,
)
"""Text that CommonMark treats as plain, but other parsers as a link or link definition."""
_CODE_ADDRESS = re.compile(rf"[\s\W]*{_CODE_SCHEME}", re.IGNORECASE)
_BAR = re.compile(r"(?<!\\)\|")
_NUMBERED = re.compile(r"&#(?:[xX]([0-9a-fA-F]{1,6})|([0-9]{1,7}));?")


def check_card(text: str, where: str) -> None:
    r"""Rejects a card whose YAML or Markdown contains things that no card needs.

    Args:
        text: The card, as for `costhub.cards.markdown.split`.
        where: The file, for the message.

    Raises:
        DataError: It contains characters that hide or reorder text, an address that runs code, or anything that
            `check_card_text` rejects; or it is not a card.

    Example:
        >>> check_card("---\nlicense: mit\n---\n# Title\n", "README.md")
        >>> check_card('---\nauthor: "a\\e[2J"\n---\n# Title\n', "README.md")
        Traceback (most recent call last):
        costhub.errors.DataError: README.md holds the control character U+001B, which a card does not need. Remove it.
    """
    metadata, body = split(text)
    # Comments in the block are not values, but an editor shows them.
    _refuse_hidden(text, where)
    for value in _texts(metadata):
        _refuse_hidden(value, where)
        if _CODE_ADDRESS.match(value):
            _refuse(where, f"an address that runs code ({clean(value, 40)!r})")
    check_card_text(body, where)


def check_card_text(text: str, where: str) -> None:
    """Rejects Markdown with HTML, with links other than to the web or the folder, or with external pictures.

    Links and pictures are checked as a viewer would see them: decoded, with references resolved.

    Args:
        text: The text below the block of YAML.
        where: The file, for the message.

    Raises:
        DataError: It contains one of these, a character that hides or reorders text, or more than the parsing limits.

    Example:
        >>> check_card_text("# Title, with `<code>` and 1 < 2", "README.md")
        >>> check_card_text("[a](java&#115;cript:alert(1))", "README.md")
        Traceback (most recent call last):
        costhub.errors.DataError: README.md holds a link to 'javascript:alert(1)', which a card does not need. ...
    """
    if len(text) > min(MAX_BODY_CHARACTERS, MAX_CARD_CHARACTERS):
        _refuse(where, f"more than {MAX_BODY_CHARACTERS:,} characters of text")
    _refuse_hidden(text, where)
    _refuse_hidden(_decoded(text), where)
    lines = text.replace("\r\n", "\n").split("\n")
    for parser in (_parser(tables=False), _parser(tables=True)):
        found: dict[str, Any] = {}
        try:
            tokens = parser.parse(text, found)
        except RecursionError:
            _refuse(where, "too many brackets in one another")
        except _TooLongError as error:
            _refuse(where, str(error))
        _check_tokens(tokens, lines, where)
        # A definition that is unused now could be used by the next edit.
        for definition in (*found.get("references", {}).values(), *found.get("duplicate_refs", ())):
            _check_link(str(definition["href"]), where)


class _TooLongError(Exception):
    """A part of a card takes too long to parse."""


@cache
def _parser(*, tables: bool) -> MarkdownIt:
    """CommonMark, or with the tables of GitHub, where a cell may end in the middle of code."""
    from markdown_it import MarkdownIt

    # Deep enough to detect `MAX_DEPTH`: at its limit, the parser silently drops deeper content.
    parser = MarkdownIt("commonmark", {"html": True, "maxNesting": 5 * MAX_DEPTH})
    if tables:
        parser.enable(["table", "strikethrough"])
    # Escapes and entities stay apart from letters, so that &lt;b&gt; is not taken for HTML.
    parser.disable("text_join")
    parser.core.ruler.after("block", "limits", _check_lengths)
    # A link that runs code would become text and be missed; addresses are kept as decoded.
    setattr(parser, "validateLink", lambda address: True)  # noqa: B010 - mypy knows them as methods
    setattr(parser, "normalizeLink", lambda address: address)  # noqa: B010
    return parser


def _check_lengths(state: StateCore) -> None:
    if len(state.tokens) > MAX_TOKENS:
        raise _TooLongError(f"more than {MAX_TOKENS:,} parts")
    if any(token.type == "inline" and len(token.content) > MAX_INLINE_CHARACTERS for token in state.tokens):
        raise _TooLongError(f"a paragraph of more than {MAX_INLINE_CHARACTERS:,} characters")


def _check_tokens(tokens: Sequence[Token], lines: Sequence[str], where: str) -> None:
    for token in tokens:
        if token.type == "fence" and not _is_closed(token, lines):
            _refuse(where, "a block of code without an end")
        if token.type == "inline":
            _check_text(token.children or (), where)
        elif token.type == "table_open":
            _check_rows(token, lines, where)
    for token in _walk(tokens, where):
        if token.type in ("html_block", "html_inline"):
            _refuse(where, f"HTML ({clean(token.content.strip(), 40)!r})")
        elif token.type == "link_open":
            _check_link(str(token.attrs.get("href", "")), where)
        elif token.type == "image":
            _check_picture(str(token.attrs.get("src", "")), where)


def _walk(tokens: Sequence[Token], where: str) -> Iterator[Token]:
    """All tokens, including nested ones.

    Raises:
        DataError: They are nested too deeply.
    """
    waiting = [(token, 0) for token in tokens]
    while waiting:
        token, depth = waiting.pop()
        if depth + token.level > MAX_DEPTH:
            _refuse(where, f"lists, quotations or brackets more than {MAX_DEPTH} deep")
        yield token
        waiting += [(child, depth + 1) for child in token.children or ()]


def _check_rows(table: Token, lines: Sequence[str], where: str) -> None:
    """Rejects rows with more cells than the head: some parsers drop them, others show them."""
    first, end = table.map or (0, 0)
    head, *rows = [len(_BAR.findall(line.strip().strip("|"))) for line in lines[first:end]]
    if any(bars > head for bars in rows):
        _refuse(where, "a row with more cells than its table has columns")


def _check_text(children: Sequence[Token], where: str) -> None:
    """Looks for text that parsers other than this one treat as HTML or a link."""
    raw = "".join(_letters(child, decoded=False) for child in children)
    if _HTML.search(raw):
        _refuse(where, "HTML")
    # Browsers skip tabs and line breaks within the scheme of an address.
    decoded = "".join(_letters(child, decoded=True) for child in children)
    for text in (decoded, re.sub(r"[\t\n]", "", decoded)):
        if almost := _ALMOST_A_LINK.search(text):
            _refuse(where, f"what may pass for a link ({clean(text[almost.start() :], 40)!r})")


def _letters(token: Token, *, decoded: bool) -> str:
    """The text of a token; a blank for code, or for an escape that stays one."""
    if token.type == "text" or (decoded and token.type == "text_special"):
        return token.content
    return "\n" if token.type in ("softbreak", "hardbreak") else " "


def _check_link(address: str, where: str) -> None:
    decoded = html.unescape(address)  # those between < and > are taken literally
    if len(decoded) > MAX_ADDRESS_CHARACTERS or not _LINK.fullmatch(decoded) or not decoded.isprintable():
        _refuse(where, f"a link to {clean(decoded, 60)!r}")


def _check_picture(address: str, where: str) -> None:
    # An external one would reveal the readers of the card to another server.
    if not _PICTURE.fullmatch(address):
        _refuse(where, f"a picture from elsewhere ({clean(address, 60)!r}; expected the name of a .png file beside it)")


def _is_closed(fence: Token, lines: Sequence[str]) -> bool:
    """Whether a block of code has a closing line; without one, readers disagree about where it ends."""
    first, end = fence.map or (0, 0)
    last = lines[end - 1].rstrip() if first + 1 < end <= len(lines) else ""
    return last.endswith(fence.markup)


def _refuse_hidden(text: str, where: str) -> None:
    """Rejects control characters, and those that hide or reorder the text around them."""
    for letter in sorted(set(text.replace("\r\n", "\n"))):
        if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and letter not in f"\t\n{_JOINERS}":
            _refuse(where, f"the control character U+{ord(letter):04X}")


def _decoded(text: str) -> str:
    """The text with all references to characters resolved, control characters included, which Python drops."""

    def letter(match: re.Match[str]) -> str:
        code = int(match[1], 16) if match[1] else int(match[2])
        return chr(code) if 0 < code <= 0x10FFFF else "\ufffd"

    return html.unescape(_NUMBERED.sub(letter, text))


def _texts(value: Any) -> Iterator[str]:
    """All texts in a YAML value."""
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, Iterable) and not isinstance(each, bytes):
            waiting += list(each)


def _refuse(where: str, what: str) -> None:
    raise DataError(f"{where} holds {what}, which a card does not need. Remove it.")
