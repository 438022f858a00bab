"""A hook of mkdocs that turns links out of docs/ into plain text, since the site lacks those files."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)[^)\s]*)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Unlinks what does not lead to a page; mkdocs calls it before it reads the links of a page.

    Args:
        markdown: The text of the page.
        page: The page; its `file.src_uri` is its path in docs/.
    """
    here = posixpath.dirname(page.file.src_uri)

    def kept(match: re.Match[str]) -> str:
        leads_out = posixpath.normpath(posixpath.join(here, match[2])).startswith("..")
        return match[1] if leads_out else match[0]

    return _LINK.sub(kept, markdown)
