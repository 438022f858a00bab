"""Provides origin_text, cited_works and measurers: who measured the imported rows of a dataset, and their origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.card_parts import inline
from costhub.terminal_text import counted

ONLY_IMPORTED = "only_imported"
"""The key of an entry of `DatasetCard.origins` that is true where the contributor only imported the rows, and who
measured them is not recorded. It is set by hand: rows have one column for the measurer, and cannot be corrected."""
_TODAY = "0.27"


def is_sound_origin(origin: Any) -> bool:
    """Whether an entry of `DatasetCard.origins` has the fields that are read: cards are untrusted."""
    texts = ("contributor", "licence", "tvm_version", "transplanted_from")
    places = origin.get("places") if isinstance(origin, dict) else None
    if not isinstance(places, list) or not all(isinstance(origin.get(name), str) for name in texts):
        return False
    if not isinstance(origin.get(ONLY_IMPORTED, False), bool):
        return False
    return all(
        isinstance(place, dict)
        and all(isinstance(place.get(name), str) for name in ("repository", "revision", "changed"))
        and isinstance(place.get("paper", ""), str)
        and isinstance(place.get("folders"), list)
        and all(isinstance(folder, str) for folder in place["folders"])
        for place in places
    )


def is_measurer_known(origin: Mapping[str, Any]) -> bool:
    """Whether the contributor of imported rows measured them, rather than just importing them."""
    return bool(origin["contributor"]) and not origin.get(ONLY_IMPORTED)


def importers(origins: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The contributors who only imported the imported rows that name them.

    Args:
        origins: See `DatasetCard.origins`.

    Example:
        >>> sorted(importers([{"contributor": "ada"}, {"contributor": "bob", "only_imported": True}]))
        ['bob']
    """
    return frozenset(origin["contributor"] for origin in origins if origin.get(ONLY_IMPORTED))


def measurers(contributors: Sequence[str], origins: Sequence[Mapping[str, Any]], rows: int) -> list[str]:
    """Returns the contributors who measured.

    Args:
        contributors: Contributors of all rows.
        origins: The imported rows, see `DatasetCard.origins`.
        rows: Number of rows in the dataset.

    Example:
        >>> measurers(["ada"], [{"contributor": "ada", "rows": 9, "only_imported": True}], 9)
        []
        >>> measurers(["ada"], [], 9)
        ['ada']
    """
    is_imported = bool(origins) and sum(origin["rows"] for origin in origins) >= rows
    others = importers(origins) if is_imported else frozenset()
    return [name for name in contributors if name not in others]


def cited_works(origins: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the imported rows are from, for a citation: each repository with the first digits of its revision, once.

    The paper that they were measured for follows, if there is one.

    Args:
        origins: See `DatasetCard.origins`.

    Example:
        >>> place = {"repository": "https://example.org/ada/logs", "revision": "0123456789abcdef", "paper": "On Loops"}
        >>> cited_works([{"places": [place]}, {"places": [place]}])
        ['from https://example.org/ada/logs, revision 0123456789ab', 'made for On Loops']
    """
    places = [place for origin in origins for place in origin["places"]]
    texts = [f"from {inline(place['repository'])}, revision {inline(place['revision'][:12])}" for place in places]
    texts += [f"made for {inline(place['paper'])}" for place in places if place.get("paper")]
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
    papers = dict.fromkeys(inline(place["paper"]) for place in places if place.get("paper"))
    made = f" They were made for {' and '.join(papers)}: cite that too." if papers else ""
    return f"They are from {'; '.join(listed)}.{made}"


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
