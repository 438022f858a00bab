"""What both kinds of cards share."""

from __future__ import annotations

import pytest

from costhub.cards.card_parts import bibtex_entry, device_facts, facts_table, inline, licence_entry


@pytest.mark.parametrize(
    ("licences", "entry"),
    [
        (["MIT"], {"license": "mit"}),
        (["CC-BY-4.0", " mit "], {"license": ["cc-by-4.0", "mit"]}),
        (["Beerware"], {"license": "other", "license_name": "beerware"}),
        (["MIT", "Beerware"], {"license": "other", "license_name": "beerware-and-mit"}),
    ],
)
def test_a_licence_is_announced_as_the_hugging_face_hub_knows_it(licences: list[str], entry: object) -> None:
    assert licence_entry(licences) == entry


def test_facts_have_units_and_gaps_are_left_out() -> None:
    row = {"memory_bytes": 3 << 30, "l1d_bytes": 49152, "isa_features": ["avx2", "fma"], "driver": None, "x": 1}

    facts = device_facts({**row, "dram_gbs": 61.23456})

    assert facts == {
        "L1 data cache per core (KiB)": "48",
        "memory (GiB)": "3.0",
        "instruction sets": "avx2, fma",
        "measured memory bandwidth (GB/s)": "61.23",
    }
    assert facts_table({}) == ""
    assert "| memory (GiB) | 3.0 |" in facts_table(facts)


def test_a_citation_leaves_out_what_is_missing() -> None:
    assert "year" not in bibtex_entry("a", title="A", author="B", year="soon")
    assert "author" not in bibtex_entry("a", title="A", year="2026")
    full = bibtex_entry("a", title="A", author="B", year="2026", note="C")
    assert full.splitlines()[3:5] == ["  year = {2026},", "  note = {C},"]


def test_a_text_from_elsewhere_stays_in_its_line() -> None:
    assert inline("a\n# b ```c") == "a # b '''c"
