"""The page of a hub in a browser: it filters, sorts, and runs nothing of strangers."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.html import template_text
from costhub.cards.site.site_page import TITLE, site_page

strangers: Any = runpy.run_path(str(Path(__file__).with_name("site_of_strangers.py")))
make_site = strangers["make_site"]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="neither chromium nor google-chrome is installed")


@dataclass(frozen=True)
class Shown:
    """What a browser made of a page."""

    dom: str
    console: list[str]

    @property
    def title(self) -> str:
        return re.findall(r"<title>(.*?)</title>", self.dom)[0]

    def rows(self, section: str) -> list[str]:
        """The first cell of each row in view."""
        part = self.dom.split(f'<section id="{section}"')[1].split("</section>")[0]
        rows = re.findall(r"<tr data-terms[^>]*>.*?</tr>", part, re.DOTALL)
        seen = [row for row in rows if not re.match(r'<tr[^>]* hidden=""', row)]
        return [re.sub(r"<[^>]*>", " ", row).split()[0] for row in seen]


Show = Callable[..., Shown]


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Show:
    def run(site: Any, query: str = "", then: str = "") -> Shown:
        # What a reader would do is done by more lines of the one script that may run.
        def with_more(name: str) -> str:
            return template_text(name) + (then if name == "site.js" else "")

        monkeypatch.setattr("costhub.cards.html.template_text", with_more)
        page = tmp_path / "index.html"
        page.write_text(site_page(site), encoding="utf-8")
        assert BROWSER is not None
        done = subprocess.run(
            [
                BROWSER,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--enable-logging=stderr",
                f"--user-data-dir={tmp_path / 'profile'}",
                "--virtual-time-budget=2000",
                "--dump-dom",
                f"{page.as_uri()}{query}",
            ],
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        return Shown(done.stdout, console)

    return run


def picture(path: Path) -> None:
    from matplotlib.figure import Figure

    path.parent.mkdir()
    Figure((1, 1)).savefig(path)


@needs_browser
def test_the_address_filters_rows_and_nothing_is_complained_about(show: Show, tmp_path: Path) -> None:
    picture(tmp_path / "pictures/0a.png")
    shown = show(make_site(pictures={"masks.png": "pictures/0a.png"}), "?q=ROCKET+mlp")

    assert shown.rows("models") == ["acme-one"]
    assert shown.rows("devices") == []
    assert '<section id="devices" class="empty">' in shown.dom
    assert re.search(r'role="status">\d+ of \d+ entries match<', shown.dom)
    assert shown.console == []


@needs_browser
def test_without_a_query_all_is_shown(show: Show) -> None:
    shown = show(make_site())

    assert shown.rows("models") == ["acme-one", "acme-one", "blit-gpu"]
    assert shown.rows("devices") == ["acme-one", "blit-gpu"]
    assert ' hidden=""' not in shown.dom.split("<main>")[1]
    assert shown.console == []


@needs_browser
def test_typing_filters_and_is_kept_in_the_address(show: Show) -> None:
    type_it = (
        "{ const q = document.getElementById('q'); q.value = ' blit '; q.dispatchEvent(new Event('input'));"
        "document.title = location.search; }"
    )
    shown = show(make_site(), "?q=acme", then=type_it)

    assert shown.rows("models") == ["blit-gpu"]
    assert shown.title == "?q=blit"


@needs_browser
def test_a_column_sorts_by_its_numbers_first_down_then_up_gaps_last(show: Show) -> None:
    click = "document.querySelectorAll('#models th button')[3].click();"

    down, up = show(make_site(), then=click), show(make_site(), then=click + click)
    models = [shown.dom.split('<section id="models"')[1] for shown in (down, up)]
    tops = [re.findall(r'<td class="right" data-value="(0\.9|0\.75)"', text) for text in models]

    assert [tops[0][:2], tops[1][:2]] == [["0.9", "0.75"], ["0.75", "0.9"]]
    assert down.rows("models")[-1] == up.rows("models")[-1] == "blit-gpu"
    assert 'aria-sort="descending"' in down.dom
    assert 'aria-sort="ascending"' in up.dom


@needs_browser
def test_the_leaderboard_sorts_and_filters_like_the_other_tables(show: Show) -> None:
    click = "document.querySelectorAll('#leaderboard th button')[0].click();"

    assert show(make_site()).rows("leaderboard") == ["ceiling", "gbt", "old", "mlp"]
    assert show(make_site(), then=click).rows("leaderboard") == ["ceiling", "gbt", "mlp", "old"]
    assert show(make_site(), "?q=baseline").rows("leaderboard") == ["old"]


@needs_browser
def test_replayed_searches_sort_and_filter_like_the_other_tables(show: Show) -> None:
    fewest = "{ const head = document.querySelectorAll('#searches th button')[3]; head.click(); head.click(); }"

    assert show(make_site()).rows("searches") == ["model", "random", "genetic"]
    assert show(make_site(), then=fewest).rows("searches") == ["model", "genetic", "random"]
    assert show(make_site(), "?q=acme-one+auto").rows("searches") == ["model"]


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_as_wide_as_the_screen(show: Show, width: int) -> None:
    """Tables scroll by themselves; what is wider than the screen would have to be scrolled with the whole page."""
    frame = (
        "{ const [html, script] = ['html', 'script'].map((tag) => document.querySelector(tag).outerHTML);"
        "const frame = document.createElement('iframe'); document.body.append(frame);"
        f"frame.style.width = '{width}px'; frame.srcdoc = html.replace(script, '');"
        "frame.onload = () => { const page = frame.contentDocument.documentElement;"
        "document.title = `${page.scrollWidth} of ${page.clientWidth}`; }; }"
    )
    shown = show(make_site(), then=frame).title

    assert re.fullmatch(r"(\d+) of \1", shown), shown


@needs_browser
def test_nothing_of_a_hostile_hub_runs_or_is_fetched(show: Show) -> None:
    text = "\"'><img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"
    site = make_site(text=text, card=strangers["HOSTILE"] + text)
    shown = show(site, "?q=%22%3E%3Cscript%3Edocument.title=1%3C/script%3E")

    assert shown.title == TITLE
    assert shown.console == []  # not even something that the policy had to stop
    assert not re.search(r'(?:src|href|action)="(?!#|benchmark.json")', shown.dom)


@needs_browser
def test_the_themes_differ(show: Show) -> None:
    ask = (
        "document.getElementById('theme-dark').click();"
        "document.title = getComputedStyle(document.documentElement).getPropertyValue('--paper');"
    )

    assert show(make_site(), then=ask).title.strip() == "#0f1419"
