"""Provides the rules on provenance: a licence, and versions that this costhub can judge."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from costhub.dataset.check.rows import Rows
from costhub.dataset.check.rule import Mask, RowRule
from costhub.versions import costhub_version

_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:[.+-]?[a-z0-9][a-z0-9.+-]*)?", re.IGNORECASE)


def missing_licence(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds rows that nobody may use, as they do not say on which terms."""
    named = rows.where(pc.match_substring_regex(rows.column("licence"), r"\S"))
    yield "there is no licence; an SPDX name such as CC-BY-4.0 was expected.", ~named


def strange_versions(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds rows of a newer costhub, or of something that is no version."""
    here = _release(costhub_version())
    released = {
        text: _release(text) for text in pc.unique(rows.column("costhub_version")).to_pylist() if text
    }
    newer = {text for text, release in released.items() if release and here and release > here}
    unknown = {text for text, release in released.items() if release is None}
    texts = rows.texts("costhub_version")
    yield (
        "costhub_version is newer than the costhub that checks.",
        np.array([t in newer for t in texts], bool),
    )
    yield "costhub_version is no version.", np.array([t in unknown for t in texts], bool)


def _release(text: str) -> tuple[int, ...] | None:
    match = _VERSION.fullmatch(text)
    return tuple(int(part or 0) for part in match.groups()) if match else None


RULES = (
    RowRule(
        id="CH048",
        title="every row has a licence",
        severity="warning",
        fix="Ask who measured it, and write the SPDX name of the licence.",
        find=missing_licence,
    ),
    RowRule(
        id="CH049",
        title="the version of costhub that wrote a row is known",
        severity="warning",
        fix="Upgrade costhub and check again: newer rows may keep other rules.",
        find=strange_versions,
    ),
)
