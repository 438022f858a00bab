from __future__ import annotations

from costhub.cards.dataset_card import DatasetCard
from costhub.cards.dataset_sections import body

EMPTY = DatasetCard(
    name="data",
    address="data",
    licences=["MIT"],
    devices=[],
    rows=0,
    ok=0,
    workloads=0,
    operators={},
    tvm_versions=[],
    contributors=[],
    schema_version=2,
    revision="e3b0c44298fc",
    splits=[],
)


def test_what_is_not_known_leaves_no_gap() -> None:
    text = body(EMPTY)

    assert "None." in text
    assert "## Changes" not in text
    assert "`sample`" not in text
    assert "![" not in text
    assert "year" not in text
    assert "`costhub split` divides it." in text
    assert "the costhub contributors" in text


def test_an_address_is_a_text_of_python() -> None:
    text = body(DatasetCard(**{**EMPTY.__dict__, "address": 'a"b\\c'}))

    assert 'costhub.load_measurements("a\\"b\\\\c", format="pandas")' in text
