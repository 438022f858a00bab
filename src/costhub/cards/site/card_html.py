"""Provides card_html: a card as HTML with only text, tables and its own pictures, whatever its Markdown contains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from costhub.cards.html import render_part

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from markupsafe import Markup

_RULES = ("backticks", "code", "emphasis", "escape", "fence", "heading", "image", "list", "newline", "table")
"""Allowed elements of a card, by markdown-it's names; HTML, links and references stay plain text."""
_HEADINGS_ABOVE = 3
"""Number of heading levels on the page above those of a card."""


def card_html(text: str, pictures: Mapping[str, str]) -> Markup:
    r"""Renders headings, tables, lists, code and paragraphs; HTML and links in the card stay plain text.

    Args:
        text: A card without its block of YAML.
        pictures: File in the card's folder -> address in the page; other pictures are not shown.

    Example:
        >>> print(card_html("# Title\n\nOf `a` and <b>.", {}), end="")
        <h4>Title</h4>
        <p>Of <code>a</code> and &lt;b&gt;.</p>
    """
    from markupsafe import Markup

    parser = _parser()
    tokens = list(_without_empty_heads(parser.parse(text)))
    for place, token in enumerate(tokens):
        _adjust(token)
        if token.type == "inline" and _is_picture(token):
            # A figure must not be inside a paragraph.
            tokens[place - 1].hidden = tokens[place + 1].hidden = True
    html = parser.renderer.render(tokens, parser.options, {"pictures": pictures})
    return Markup(html)  # noqa: S704 - markdown-it has escaped the texts, and knows no HTML here


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("zero", {"html": False, "linkify": False}).enable(list(_RULES))
    parser.add_render_rule("fence", _code)
    parser.add_render_rule("code_block", _code)
    parser.add_render_rule("image", _image)
    parser.add_render_rule("table_open", lambda *_: '<div class="scroll"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


def _adjust(token: Token) -> None:
    """Lowers headings below those of the page, and turns column alignment into a class."""
    if token.type in ("heading_open", "heading_close"):
        token.tag = f"h{min(int(token.tag[1]) + _HEADINGS_ABOVE, 6)}"
    elif token.type in ("th_open", "td_open"):
        is_right = token.attrs.pop("style", "") == "text-align:right"
        token.attrs |= {"class": "right"} if is_right else {}


def _without_empty_heads(tokens: Sequence[Token]) -> Iterator[Token]:
    """Removes table heads whose titles are all empty, as in a table of facts."""
    kinds = [token.type for token in tokens]
    end = 0
    for place, token in enumerate(tokens):
        if token.type == "thead_open":
            close = kinds.index("thead_close", place)
            titles = [head.content for head in tokens[place:close] if head.type == "inline"]
            end = end if any(titles) else close + 1
        if place >= end:
            yield token


def _is_picture(token: Token) -> bool:
    return [child.type for child in token.children or ()] == ["image"]


def _code(_renderer: Any, tokens: Sequence[Token], place: int, *_: Any) -> str:
    return f'<pre class="scroll" tabindex="0">{escape(tokens[place].content)}</pre>\n'


def _image(_renderer: Any, tokens: Sequence[Token], place: int, _options: Any, env: Mapping[str, Any]) -> str:
    caption, name = tokens[place].content, str(tokens[place].attrs["src"])
    if len(tokens) == 1 and name in env["pictures"]:
        return str(render_part("picture", env["pictures"][name], caption))
    return f'<span class="note">{escape(f"Picture {name}, not shown: {caption}")}</span>'
