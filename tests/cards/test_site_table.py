"""A table to search and sort: what a reader and a script find in it."""

from __future__ import annotations

import pytest

from costhub.cards.site.site_tables import MOST_SHADE, SiteCell, SiteRow, filter_table, number_cell, text_cell


def test_rows_and_columns_are_headed_and_numbers_keep_their_value() -> None:
    row = SiteRow((text_cell("acme-one", "rocket"), number_cell(1234.5, ",.0f")), "boom")
    table = filter_table("devices", ("device", "peak"), [row], numeric=range(1, 2))

    assert '<th scope="col">device</th><th scope="col" class="right">peak</th>' in table
    assert '<tr data-terms="boom"><th scope="row">acme-one<span class="note under">rocket</span></th>' in table
    assert '<td class="right" data-value="1234.5">1,234</td>' in table
    assert 'role="region" aria-label="devices" tabindex="0"' in table


@pytest.mark.parametrize(("shade", "percent"), [(0.0, 0), (1.0, MOST_SHADE), (-1.0, 0), (9.0, MOST_SHADE)])
def test_shades_stay_within_what_can_be_read(shade: float, percent: int) -> None:
    table = filter_table("t", ("a", "b"), [SiteRow((SiteCell("x"), SiteCell("y", 1, shade)))], numeric=range(2))

    assert f'style="--shade: {percent}%"' in table


@pytest.mark.parametrize("text", ["<script>", '" onload="x', "</table>x", "a&b"])
def test_texts_are_only_text(text: str) -> None:
    table = filter_table(text, (text, "b"), [SiteRow((text_cell(text, text), SiteCell("-")), text)], numeric=range(0))

    assert text not in table


def test_a_gap_is_a_dash() -> None:
    assert text_cell("").html == number_cell(None).html == "-"
