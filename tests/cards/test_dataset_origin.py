"""What a card says of imported rows: who measured them, where they are from, what was changed, and what is unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from costhub.cards.dataset_card import DatasetCard, bibtex, dataset_card_body, parse, recorded_importers, render
from costhub.cards.dataset_origin import measurers, origin_text
from costhub.cards.markdown import join, split
from costhub.errors import DataError

PLACE = {"repository": "https://example.org/ada/logs", "revision": "a" * 40, "folders": ["x", "y"], "changed": ""}
KNOWN: dict[str, Any] = {
    "contributor": "ada/logs",
    "licence": "MIT",
    "tvm_version": "0.16.dev0",
    "transplanted_from": "",
    "rows": 9,
    "places": [PLACE],
}
UNKNOWN = {**KNOWN, "contributor": "bob", "tvm_version": "0.27.0.post1", "places": [], "only_imported": True}
CARD = DatasetCard(
    name="acme/data",
    address="acme/data",
    licences=["MIT"],
    devices=[],
    rows=9,
    ok=9,
    workloads=1,
    operators={},
    tvm_versions=[],
    contributors=["ada/logs"],
    schema_version=3,
    revision="0123456789ab",
    splits=[],
    origins=[KNOWN],
)


def test_known_rows_name_who_measured_licence_place_and_changes() -> None:
    text = origin_text([{**KNOWN, "places": [{**PLACE, "changed": "Two were lost."}]}])

    assert text == (
        "9 rows, imported under the licence MIT. ada/logs measured them. They are from https://example.org/ada/logs, "
        f"revision `{'a' * 40}`, `x`, `y`. The import rewrote workloads, schedules and targets of TVM 0.16.dev0 in the "
        "form of TVM 0.27, and left out records that do not replay. Two were lost. Run times and failures are as they "
        "were recorded; names and operator families were added."
    )


def test_what_is_not_known_is_said() -> None:
    text = origin_text([UNKNOWN])

    assert "Who measured them is not known: the imported records do not say." in text
    assert "`contributor`, bob, is who imported them: do not cite it as their author." in text
    assert "do not record which repository they are from" in text
    assert "replayed the schedules with TVM 0.27.0.post1" in text
    assert "`contributor`" not in origin_text([{**UNKNOWN, "contributor": "", "tvm_version": ""}])


def test_replayed_logs_say_so() -> None:
    text = origin_text([{**KNOWN, "tvm_version": "0.7", "transplanted_from": "ansor"}])

    assert "traces of MetaSchedule of the schedules in logs of Ansor (TVM 0.7)" in text


def test_who_imports_is_no_author_where_all_rows_are_imported() -> None:
    assert measurers(["ada/logs", "bob"], [KNOWN, UNKNOWN], 18) == ["ada/logs"]
    assert measurers(["bob"], [UNKNOWN], 10) == ["bob"]  # he measured one
    card = replace(CARD, contributors=["bob"], origins=[UNKNOWN])

    assert "author = {{unknown}}" in bibtex(card)
    assert "Measured by" not in dataset_card_body(card)
    assert "author = {ada/logs}" in bibtex(CARD)


def test_a_citation_names_each_place_of_the_rows_once() -> None:
    other = {**PLACE, "repository": "https://example.org/bob/logs", "revision": "b" * 40}
    card = replace(CARD, origins=[KNOWN, {**KNOWN, "licence": "Apache-2.0", "places": [PLACE, other]}, UNKNOWN])

    assert (
        f"note = {{data revision 0123456789ab, from https://example.org/ada/logs, revision {'a' * 12}, "
        f"from https://example.org/bob/logs, revision {'b' * 12}}}"
    ) in bibtex(card)
    assert "note = {data revision 0123456789ab}" in bibtex(replace(CARD, origins=[UNKNOWN]))


def test_the_paper_that_rows_were_made_for_is_cited_too() -> None:
    card = replace(CARD, origins=[{**KNOWN, "places": [{**PLACE, "paper": "On Loops (CC 2026)"}, PLACE]}])

    assert "They were made for On Loops (CC 2026): cite that too." in origin_text(card.origins)
    assert f"revision {'a' * 12}, made for On Loops (CC 2026)}}" in bibtex(card)
    assert "made for" not in origin_text([KNOWN])
    assert parse(render(card)) == card


def test_a_card_says_who_only_imported_rows() -> None:
    assert recorded_importers(render(replace(CARD, origins=[KNOWN, UNKNOWN]))) == {"bob"}
    assert recorded_importers(render(CARD)) == frozenset()


def test_whoever_imported_rows_measured_them_unless_the_card_says_otherwise() -> None:
    origin = {**UNKNOWN, "only_imported": False}

    assert "bob measured them" in origin_text([origin])
    assert measurers(["bob"], [origin], 9) == ["bob"]


def test_a_card_has_the_section_only_for_imported_rows_and_is_read_back() -> None:
    assert "## Where the imported rows are from\n\n9 rows, imported" in dataset_card_body(CARD)
    assert "Where the imported rows" not in dataset_card_body(replace(CARD, origins=[]))
    assert parse(render(CARD)) == CARD


@pytest.mark.parametrize(
    "changed",
    [
        {"places": None},
        {"places": ["x"]},
        {"places": [{**PLACE, "revision": 1}]},
        {"places": [{**PLACE, "folders": [1]}]},
        {"licence": None},
        {"rows": "9"},
        {"only_imported": "yes"},
        {"places": [{**PLACE, "paper": None}]},
    ],
)
def test_another_form_is_refused(changed: dict[str, Any]) -> None:
    block, body = split(render(CARD))
    block["costhub"]["origins"] = [{**KNOWN, **changed}]

    with pytest.raises(DataError, match=r"values of the wrong kind \(origins\)"):
        parse(join(block, body))
