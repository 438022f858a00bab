"""The tables of a hub's page."""

from __future__ import annotations

import re
import runpy
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.site.facts import Site
from costhub.cards.site.site_tables import (
    MOST_SHADE,
    SiteCell,
    SiteRow,
    coverage_table,
    datasets_table,
    devices_table,
    family,
    filter_table,
    leaderboard_tables,
    models_table,
    number_cell,
    operators_table,
    origin_text,
    replay_tables,
)

make_site: Any = runpy.run_path(str(Path(__file__).with_name("site_of_strangers.py")))["make_site"]


def lines(table: str) -> list[list[str]]:
    """The text of every cell."""
    rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
    return [
        [unescape(re.sub(r"<[^>]*>", " ", cell)).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]
        for row in rows
    ]


def test_models_stand_with_their_figures_and_command_and_devices_without_one_too() -> None:
    head, gbt, mlp, bare = lines(models_table(make_site()))

    assert head == ["device", "kind", "model", "top_1", "top_5", "pairwise", "size (MB)", "fetch it"]
    assert gbt[:7] == ["acme-one ACME boom", "cpu", "gbt", "0.900", "0.950", "0.850", "1.5"]
    assert gbt[7].split("  ")[0].strip() == "costhub pull lab/acme-one-gbt"
    assert mlp[3] == "0.750"
    assert bare == ["blit-gpu", "cuda", "no model yet", "-", "-", "-", "-", "-"]


def test_a_command_is_one_word_for_a_shell_whatever_the_model_is_called() -> None:
    table = models_table(make_site(text="; rm -rf ~"))

    assert "costhub pull 'lab/acme-one-gbt; rm -rf ~'" in unescape(table)


def test_a_model_links_to_its_card_where_it_has_one() -> None:
    assert '<a href="#card-0">gbt</a>' in models_table(make_site())
    assert "<a " not in models_table(make_site(card=None))


def test_devices_show_what_was_probed_and_how_much_there_is() -> None:
    _, acme, blit = lines(devices_table(make_site()))

    assert acme == ["acme-one ACME boom; rocket", "ACME One", "4", "-", "512", "-", "2", "1,016"]
    assert blit == ["blit-gpu", "-", "-", "-", "-", "-", "0", "0"]


def test_datasets_show_licences_and_rows_without_one() -> None:
    _, row = lines(datasets_table(make_site().datasets, 2))

    assert row == ["lab/boards", "CC-BY-4.0, none", "0.27.0", "1", "1,016", "1,000", "13"]


def test_coverage_counts_by_device_and_operator_the_most_measured_first() -> None:
    head, row = lines(coverage_table(make_site().datasets))

    assert head == ["device", "conv", "matmul"]
    assert row == ["acme-one lab/boards", "1,000 12", "16 1"]


def test_figures_by_operator_are_shaded_from_the_lowest_to_the_highest() -> None:
    table = operators_table(make_site().models)

    assert [row[1:] for row in lines(table)] == [["conv", "matmul"], ["0.900", "0.600"], ["0.750", "0.600"]]
    assert re.findall(r"--shade: (\d+)%", table) == ["45", "0", "22", "0"]


def test_an_empty_hub_has_empty_tables() -> None:
    empty = Site((), (), ())

    assert [len(lines(table)) for table in (models_table(empty), devices_table(empty))] == [1, 1]
    assert len(lines(coverage_table([]))) == len(lines(operators_table([]))) == 1


def test_a_family_of_strange_values_is_text() -> None:
    assert family({"vendor": 3, "aliases": [None, 4]}) == "3; None, 4"
    assert family({}) == ""


def test_rows_and_columns_are_headed_and_numbers_keep_their_value() -> None:
    row = SiteRow((SiteCell("acme-one", "rocket"), number_cell(1234.5, ",.0f")), "boom")
    table = filter_table("devices", ("device", "peak"), [row], numeric=range(1, 2))

    assert '<th scope="col">device</th><th scope="col" class="right">peak</th>' in table
    assert '<tr data-terms="boom"><th scope="row">acme-one<span class="note under">rocket</span></th>' in table
    assert '<td class="right" data-value="1234.5">1,234</td>' in table
    assert 'role="region" aria-label="devices" tabindex="0"' in table


@pytest.mark.parametrize(("shade", "percent"), [(0.0, 0), (1.0, MOST_SHADE), (-1.0, 0), (9.0, MOST_SHADE)])
def test_shades_stay_within_what_can_be_read(shade: float, percent: int) -> None:
    table = filter_table(
        "t", ("a", "b"), [SiteRow((SiteCell("x"), SiteCell("y", value=1, shade=shade)))], numeric=range(2)
    )

    assert f'style="--shade: {percent}%"' in table


@pytest.mark.parametrize("text", ["<script>", '" onload="x', "</table>x", "a&b"])
def test_texts_are_only_text(text: str) -> None:
    table = filter_table(
        text, (text, "b"), [SiteRow((SiteCell(text, text, link=text), SiteCell(command=text)), text)], numeric=range(0)
    )

    assert text not in table


def test_a_gap_is_a_dash() -> None:
    table = filter_table("t", ("a", "b"), [SiteRow((SiteCell(""), number_cell(None)))], numeric=range(1))

    assert '<th scope="row">-</th><td>-</td>' in table


def entries(table: str) -> list[str]:
    return re.findall(r"<tr data-terms.*?</tr>", table, re.DOTALL)


def test_the_best_come_first_and_the_best_below_the_ceiling_is_bold() -> None:
    (table,) = leaderboard_tables(make_site().leaderboard)

    names = [unescape(re.findall(r"<th[^>]*>\s*(.*?)\s*</th>", row, re.DOTALL)[0]) for row in entries(table)]
    assert names == ["ceiling", "gbt", "old (baseline)", "mlp"]
    ceiling, gbt, old, mlp = entries(table)
    assert 'class="right best" data-value="0.9"' in gbt
    assert "best" not in ceiling
    assert ['class="muted"' in row for row in (ceiling, gbt, old, mlp)] == [True, False, True, False]


def test_figures_have_their_errors_and_a_bar_and_gaps_are_dashes() -> None:
    (table,) = leaderboard_tables(make_site().leaderboard)

    gbt = entries(table)[1]
    assert "0.900 ± 0.020" in gbt
    assert 'style="--part: 0.900"' in gbt
    assert gbt.count("--part") == 1
    assert re.search(r"<td class=\"right\">\s*-\s*</td>", gbt)  # no pairwise


def test_replayed_searches_stand_by_score_and_only_a_score_above_0_has_a_bar() -> None:
    (table,) = replay_tables(make_site().leaderboard.replay)

    head, model, random, genetic = lines(table)
    assert head == ["strategy", "model", "score", "trials to within 5 %", "seeds"]
    assert model == ["model", "auto, frozen lab/acme-one-gbt", "0.88 ± 0.03", "2.5", "5"]
    assert random == ["random (baseline)", "-", "0.00 ± 0.03", "14", "5"]
    assert genetic == ["genetic", "-", "-0.25", "12", "5"]
    assert re.findall(r"--part: ([\d.-]+)", table) == ["0.875", "0.000", "0.000"]
    best, baseline, other = entries(table)
    assert re.findall(r'best" data-value="([\d.]+)"', best) == ["0.875", "2.5"]
    assert "best" not in baseline + other
    assert ['class="muted"' in row for row in (best, baseline, other)] == [False, True, False]


def test_the_origin_is_one_line() -> None:
    assert origin_text(make_site().leaderboard) == "a.json, 2026-01-02"
    assert origin_text(make_site().leaderboard.replay) == "b.json, 2026-01-03"
