"""Results tables: what a page shows is what the files hold, and the README is up to date."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from costhub.errors import DataError
from scripts.bench.__main__ import commands as benchmarks
from scripts.release.__main__ import commands as steps
from scripts.tables.results import fill, provenance, todays_command

ROOT = Path(__file__).resolve().parents[3]
ABOUT: dict[str, Any] = {
    "command": "python x.py",
    "machine": "m",
    "device": "d",
    "date": "2026-01-02T03:04:05",
    "versions": {"tvm": "1", "costhub": "2"},
}


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_a_page_shows_what_the_files_hold(page: Path) -> None:
    text = page.read_text()
    assert page.name != "README.md" or text.count("<!-- results:") >= 3
    assert fill(text, ROOT / "docs" / "results") == text, "run `python -m scripts.tables`"


def test_the_command_of_a_result_names_no_folder_of_a_machine() -> None:
    found = {path.name: json.loads(path.read_text()) for path in (ROOT / "docs" / "results").glob("*.json")}
    commands = {name: str(each.get("command", "")) for name, each in found.items() if isinstance(each, dict)}

    assert len(commands) > 50
    assert [name for name, command in commands.items() if re.search(r"(^|\s|=)/", command)] == []


def test_a_place_is_filled_and_filling_again_changes_nothing(tmp_path: Path) -> None:
    point = {"trials": 64, "seconds": 1.0, "best_us": 2.0}
    row = {"workload": "w", "method": "costhub", "seed": 0, "curve": [point], "trials": 64, "stages": {}}
    (tmp_path / "search.json").write_text(json.dumps({**ABOUT, "summary": [], "rows": [row]}))
    page = "before\n<!-- results: search -->\nold\n<!-- end of results -->\nafter\n"
    filled = fill(page, tmp_path)
    assert "costhub" in filled
    assert "old" not in filled
    assert "`python x.py`" in filled
    assert fill(filled, tmp_path) == filled


@pytest.mark.parametrize(("name", "words"), [("search", "json is missing"), ("nonsense", "no results table")])
def test_what_cannot_be_rendered_is_a_sentence(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        fill(f"<!-- results: {name} -->\n<!-- end of results -->", tmp_path)


def test_a_file_without_its_figures_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "search.json").write_text("{}")
    with pytest.raises(DataError, match="lacks"):
        fill("<!-- results: search -->\n<!-- end of results -->", tmp_path)


@pytest.mark.parametrize(
    ("old", "today"),
    [
        ("python scripts/bench_live_transfer.py --seeds 2", "python -m scripts.bench live-transfer --seeds 2"),
        ("python scripts/model_report.py pairs", "python -m scripts.bench model-report pairs"),
        ("python -m scripts.bench rows --quick", "python -m scripts.bench rows --quick"),
        ("costhub tune resnet18", "costhub tune resnet18"),
    ],
)
def test_an_old_script_is_shown_as_the_command_of_today(old: str, today: str) -> None:
    assert todays_command(old) == today


def test_the_line_under_every_table_names_a_command_that_exists() -> None:
    groups = {"bench": benchmarks.modules, "release": steps.modules}
    shown = [line for page in PAGES for line in re.findall(r"^`python .*", page.read_text(), re.MULTILINE)]

    assert len(shown) > 30
    for line in shown:
        named = re.match(r"`python -m scripts\.(bench|release) ([\w-]+)", line)
        assert named is not None, line
        assert named[2] in groups[named[1]], line


def test_a_report_was_only_put_together_on_its_machine() -> None:
    about = {**ABOUT, "command": "python scripts/model_report.py pairs"}

    assert provenance(about).startswith("`python -m scripts.bench model-report pairs`, rows put together on m (d),")
    assert provenance(ABOUT).startswith("`python x.py`, m (d), 2026-01-02, ")


def test_a_check_of_one_model_keeps_the_rows_of_others() -> None:
    about = {**ABOUT, "command": "python -m scripts.release check --model a/b --json release.json"}

    assert ", rows of one or more runs, the last on m (d)," in provenance(about)


def test_a_summary_of_earlier_rows_was_only_put_together_on_its_machine() -> None:
    about = {**ABOUT, "command": "python -m scripts.bench moses --rows r.jsonl --summarise --json m.json"}

    assert ", rows put together on m (d)," in provenance(about)


def test_rows_that_earlier_runs_left_are_not_all_of_the_date_shown() -> None:
    about = {**ABOUT, "command": "python -m scripts.bench search --rows docs/results/s.jsonl --json s.json"}
    own = {**ABOUT, "command": "python -m scripts.bench search --rows s.jsonl --json s.json"}

    assert "`, rows of one or more runs, the last on m (d), 2026-01-02, " in provenance(about)
    assert "`, m (d), 2026-01-02, " in provenance(own)


@pytest.mark.parametrize(
    ("version", "date", "shown"),
    [
        ("0.1.0.dev0", "2026-11-23T03:07:36+00:00", "0.1.0.dev0"),
        ("0.1.0", "2026-11-23T14:55:09+00:00", "0.1.0"),
        ("0.1.0", "2026-11-23T22:26:57+00:00", "0.1.0 and later commits"),
        ("0.2.0", "2026-11-29T00:00:00+00:00", "0.2.0"),
    ],
)
def test_what_was_measured_after_a_release_does_not_pass_for_it(version: str, date: str, shown: str) -> None:
    about = {**ABOUT, "date": date, "versions": {"tvm": "1", "costhub": version}}

    assert provenance(about).endswith(f", TVM 1, costhub {shown}.")
