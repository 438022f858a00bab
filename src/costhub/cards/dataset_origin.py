"""Provides origin_text, cited_places and measurers: who measured the imported rows of a dataset, and their origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.card_parts import inline
from costhub.terminal_text import counted

IMPORTER = "costhub"
"""The contributor of imported rows whose measurer is not recorded."""
_TODAY = "0.27"


def is_sound_origin(origin: Any) -> bool:
    """Whether an entry of `DatasetCard.origins` has the fields that are read: cards are untrusted."""
    texts = ("contributor", "licence", "tvm_version", "transplanted_from")
    places = origin.get("places") if isinstance(origin, dict) else None
    if not isinstance(places, list) or not all(isinstance(origin.get(name), str) for name in texts):
        return False
    return all(
        isinstance(place, dict)
        and all(isinstance(place.get(name), str) for name in ("repository", "revision", "changed"))
        and isinstance(place.get("folders"), list)
        and all(isinstance(folder, str) for folder in place["folders"])
        for place in places
    )


def is_measurer_known(origin: Mapping[str, Any]) -> bool:
    """Whether the contributor of imported rows measured them, rather than just importing them."""
    return origin["contributor"] not in ("", IMPORTER)


def measurers(contributors: Sequence[str], origins: Sequence[Mapping[str, Any]], rows: int) -> list[str]:
    """Returns the contributors who measured.

    Args:
        contributors: Contributors of all rows.
        origins: The imported rows, see `DatasetCard.origins`.
        rows: Number of rows in the dataset.

    Example:
        >>> measurers(["costhub"], [{"contributor": "costhub", "rows": 9}], 9)
        []
        >>> measurers(["costhub"], [], 9)
        ['costhub']
    """
    is_imported = bool(origins) and sum(origin["rows"] for origin in origins) >= rows
    is_only_importer = is_imported and any(origin["contributor"] == IMPORTER for origin in origins)
    return [name for name in contributors if not (is_only_importer and name == IMPORTER)]


def cited_places(origins: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the imported rows are from, for a citation: each repository with the first digits of its revision, once.

    Args:
        origins: See `DatasetCard.origins`.

    Example:
        >>> place = {"repository": "https://example.org/ada/logs", "revision": "0123456789abcdef"}
        >>> cited_places([{"places": [place]}, {"places": [place]}])
        ['from https://example.org/ada/logs, revision 0123456789ab']
    """
    places = [place for origin in origins for place in origin["places"]]
    texts = (f"from {inline(place['repository'])}, revision {inline(place['revision'][:12])}" for place in places)
    return list(dict.fromkeys(texts))


def origin_text(origins: Sequence[Mapping[str, Any]]) -> str:
    """A paragraph for the imported rows of each origin, in Markdown.

    Args:
        origins: See `DatasetCard.origins`.
    """
    return "\n\n".join(f"{_who(origin)} {_where(origin)} {_changes(origin)}" for origin in origins)


def _who(origin: Mapping[str, Any]) -> str:
    rows = f"{counted(origin['rows'], 'row')}, imported under the licence {inline(origin['licence'])}"
    name = inline(origin["contributor"])
    if is_measurer_known(origin):
        return f"{rows}. {name} measured them."
    importer = f" Their `contributor`, {name}, is who imported them: do not cite it as their author." if name else ""
    return f"{rows}. Who measured them is not known: the imported records do not say.{importer}"


def _where(origin: Mapping[str, Any]) -> str:
    places = origin["places"]
    if not places:
        return "The rows do not record which repository they are from."
    listed = [
        f"{inline(place['repository'])}, revision `{inline(place['revision'])}`, "
        f"{', '.join(f'`{inline(folder)}`' for folder in place['folders'])}"
        for place in places
    ]
    return f"They are from {'; '.join(listed)}."


def _changes(origin: Mapping[str, Any]) -> str:
    version = origin["tvm_version"]
    of_tvm = f"TVM {inline(version)}" if version else "an unknown version of TVM"
    if origin["transplanted_from"]:
        compiler = inline(origin["transplanted_from"]).capitalize()
        done = (
            f"The import made traces of MetaSchedule of the schedules in logs of {compiler} "
            f"({of_tvm}), and rebuilt the workloads from their keys. Records that these cannot express were left out."
        )
    elif version.startswith(_TODAY):
        done = f"The import replayed the schedules with {of_tvm}, which wrote them, and left out what does not replay."
    else:
        done = (
            f"The import rewrote workloads, schedules and targets of {of_tvm} in the form of TVM {_TODAY}, and left "
            "out records that do not replay."
        )
    before = [f" {inline(text)}" for text in dict.fromkeys(p["changed"] for p in origin["places"]) if text]
    kept = "Run times and failures are as they were recorded; names and operator families were added."
    return f"{done}{''.join(before)} {kept}"
