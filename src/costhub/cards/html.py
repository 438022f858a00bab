"""Provides html_page and the pieces of pages: one HTML file with nothing to fetch, light or dark.

The HTML, style sheets and scripts are files of `templates/`; Jinja2 escapes all texts in them.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from costhub.cards.plots import PALETTE
from costhub.cards.tables import cell, one_line

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def html_page(title: str, content: Iterable[str], *, style: str = "", script: str = "", pictures: bool = False) -> str:
    r"""Makes a page that loads nothing but the given parts; equal data give equal text.

    Args:
        title: Title of the page.
        content: Parts of the page; everything that is not Markup is escaped.
        style: A file in `templates/` with additional style rules.
        script: A file in `templates/`, the only script that may run: the browser identifies it by its sha256.
        pictures: Whether it shows picture files stored beside it.

    Example:
        >>> html_page("a<b", ["<p>"]).endswith("<h1>a&lt;b</h1>\n&lt;p&gt;\n</body></html>\n")
        True
    """
    code = template_text(script) if script else ""
    values = {
        "title": title,
        "content": content,
        "palette": PALETTE,
        "policy": _policy(code, pictures=pictures),
        "style": template_text("page.css") + (template_text(style) if style else ""),
        "script": code,
    }
    return str(render_template("page.html", values))


def _policy(script: str, *, pictures: bool) -> str:
    """The content security policy: what the browser may load and run.

    Example:
        >>> _policy("", pictures=True)
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'"
    """
    rules = ["default-src 'none'", "style-src 'unsafe-inline'"]
    if pictures:
        rules.append("img-src 'self'")
    if script:
        digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
        rules.append(f"script-src 'sha256-{digest}'")
    return "; ".join(rules)


def render_part(name: str, *arguments: Any) -> Markup:
    """Renders the macro `name` of `templates/parts.html` with its arguments."""
    part: Markup = getattr(_templates().get_template("parts.html").module, name)(*arguments)
    return part.strip()


def render_template(name: str, values: Mapping[str, Any]) -> Markup:
    """Renders a file in `templates/` with named values; texts among them are escaped, Markup is not."""
    from markupsafe import Markup

    return Markup(_templates().get_template(name).render(values))  # noqa: S704 - Jinja2 has escaped the texts


def template_text(name: str) -> str:
    """The content of a file in `templates/`, unchanged."""
    return files("costhub.cards").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("costhub.cards"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["one_line"] = one_line
    made.filters["capital"] = lambda text: text[:1].upper() + text[1:]
    made.filters["breaks"] = lambda text: re.findall(r"[^._]*[._]|[^._]+$", text) or [text]
    made.globals["largest"] = lambda rows, key: max((row.get(key) or 0.0 for row in rows), default=0.0) or 1.0
    made.globals["cell"] = cell
    return made
