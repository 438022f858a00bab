from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from costhub.cards.tables import TableColumn, cell, markdown_table, number, plain_table

COLUMNS = (TableColumn("name", "name"), number("us", "latency (us)", ".1f"))
ROWS = st.lists(st.fixed_dictionaries({"name": st.text(), "us": st.none() | st.floats(0, 1e6)}), max_size=5)


def test_numbers_are_formatted_and_gaps_are_dashes() -> None:
    assert cell({"us": 12.26}, COLUMNS[1]) == "12.3"
    assert cell({"us": None}, COLUMNS[1]) == "-"
    assert cell({}, COLUMNS[1]) == "-"
    assert cell({"us": "timeout"}, COLUMNS[1]) == "timeout"
    assert cell({"us": 0.0}, COLUMNS[1]) == "0.0"


def test_a_bar_in_a_cell_is_no_column() -> None:
    assert markdown_table([{"name": "a|b\\c", "us": 1.0}], COLUMNS).splitlines()[2] == "| a\\|b\\\\c | 1.0 |"


@given(ROWS)
def test_every_markdown_line_has_as_many_cells_as_columns(rows: list[dict[str, object]]) -> None:
    lines = markdown_table(rows, COLUMNS).split("\n")
    bars = [line.replace("\\\\", "").replace("\\|", "").count("|") for line in lines]

    assert bars == [3] * (len(rows) + 2)


@given(ROWS)
def test_plain_numbers_end_in_one_column(rows: list[dict[str, object]]) -> None:
    lines = plain_table(rows, COLUMNS).split("\n")

    assert len(lines) == len(rows) + 1
    assert len({len(line) for line in lines}) == 1


def test_plain_lines_carry_no_blanks_at_their_ends() -> None:
    columns = (TableColumn("a", "a"), TableColumn("note", ""))

    assert plain_table([{"a": "x", "note": ""}, {"a": "long", "note": "here"}], columns) == "a\nx\nlong  here"


def test_an_escape_sequence_does_not_reach_the_terminal() -> None:
    assert plain_table([{"name": "a\x1b[2Jb\nc"}], COLUMNS[:1]).splitlines()[1] == "a?[2Jb c"
