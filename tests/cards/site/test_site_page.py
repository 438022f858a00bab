"""The page of a hub: what it says, and that texts of strangers stay texts."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.site.facts import Site
from costhub.cards.site.site_page import MARK, MOST_MODELS, figures_svg, site_page

strangers: Any = runpy.run_path(str(Path(__file__).with_name("site_of_strangers.py")))
make_site = strangers["make_site"]
outline: Any = runpy.run_path(str(Path(__file__).parents[1] / "page_outline.py"))["outline"]


def rest_of(page: str) -> Any:
    """The outline without the script and `<input>`, which the parser takes for unclosed."""
    page = re.sub(r"<script>.*?</script>", "", page, count=0, flags=re.DOTALL)
    return outline(re.sub(r"<input[^>]*>", "", page))


def test_all_sections_are_there_and_linked() -> None:
    page = rest_of(site_page(make_site(pictures={"adaptation.png": "pictures/0a.png"})))

    titles = ("Leaderboard", "Searches", "Models", "Figures", "Curves", "Data", "Devices", "Cards")
    ids = {value for name, value in page.attributes if name == "id"}
    links = [value for name, value in page.attributes if name == "href" and value.startswith("#")]
    assert {title.lower() for title in titles} <= ids
    assert {link[1:] for link in links} <= ids
    assert "with 1,016 measurements" in page.text
    assert "lab/acme-one-gbt: Pairs of each new batch that the candidates ranked right" in page.text
    assert page.tags.count("details") == 3


def test_it_fetches_only_its_own_pictures_and_runs_only_its_own_script() -> None:
    text = site_page(make_site(pictures={"masks.png": "pictures/0a.png"}))
    page = rest_of(text)

    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    expected = r"default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; script-src 'sha256-\S{44}'"
    assert re.fullmatch(expected, policy[1])
    assert not {"link", "iframe", "object", "form", "base"} & set(page.tags)
    addresses = {v for name, v in page.attributes if name in ("src", "href", "xlink:href", "action")}
    assert all(value.startswith("#") or value in ("pictures/0a.png", "benchmark.json") for value in addresses)
    assert not [name for name, _ in page.attributes if name.startswith("on")]


def test_the_leaderboard_says_where_its_figures_come_from() -> None:
    page = rest_of(site_page(make_site()))

    assert "New workloads: acme-one, split workload-40, 40 workloads." in page.text
    assert "The figures, as benchmark.json, come from a.json, 2026-01-02." in page.text
    assert "1,600 programs, 39 trials." in page.text
    assert "These figures are part of benchmark.json and come from b.json, 2026-01-03." in page.text
    without = rest_of(site_page(replace(make_site(), leaderboard=None)))
    assert ("id", "leaderboard") not in without.attributes
    assert ("href", "benchmark.json") not in without.attributes


def test_a_leaderboard_without_replayed_searches_has_no_section_of_them() -> None:
    site = make_site()
    page = rest_of(site_page(replace(site, leaderboard=replace(site.leaderboard, replay=None))))

    ids = {value for name, value in page.attributes if name == "id"}
    assert "leaderboard" in ids
    assert "searches" not in ids


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "a&b", '"><b onload="x">', "</main>", "\x1b[2J", "' x='", "k" * 300]
)
def test_names_and_cards_of_strangers_are_only_text(text: str) -> None:
    plain = rest_of(site_page(make_site()))
    page = rest_of(site_page(make_site(text=text, card="# T\n\n" + text)))

    assert page.tags.count("p") >= plain.tags.count("p")
    assert not {"b", "script"} & set(page.tags)
    assert {name for name, _ in page.attributes} == {name for name, _ in plain.attributes}


def test_without_a_script_all_is_shown_but_what_needs_one() -> None:
    text = site_page(make_site())

    assert '<div id="search" role="search" hidden>' in text
    assert len(re.findall(r'<button type="button" class="copy"[^>]* hidden>', text)) == 2
    assert not re.search(r"<(tr|details|section)[^>]* hidden", text)
    assert ":root:has(#theme-dark:checked)" in text


def test_controls_have_labels() -> None:
    text = site_page(make_site())

    assert '<label for="q">Search</label>' in text
    assert text.count('<label><input type="radio" name="theme"') == 3
    assert "<legend>Theme</legend>" in text


def test_an_empty_hub_has_a_page() -> None:
    page = site_page(Site((), (), ()))

    assert MARK in page
    assert "<section" not in page


def test_models_without_figures_have_no_figures_section() -> None:
    site = make_site()
    bare = [type(model)(name=model.name, device_id="d", arch="a", bytes=1) for model in site.models]

    page = site_page(Site(site.devices, tuple(bare), ()))

    assert 'id="figures"' not in page
    assert 'id="models"' in page


def test_equal_hubs_give_equal_pages() -> None:
    assert site_page(make_site()) == site_page(make_site())


def test_every_model_and_metric_is_named() -> None:
    svg = figures_svg(make_site().models)

    for text in ("acme-one gbt", "acme-one mlp", "top_1", "top_5", "pairwise"):
        assert text in svg


def test_a_model_that_lacks_a_figure_and_many_models_are_drawn() -> None:
    model = replace(make_site().models[0], figures={"pairwise": 0.5}, errors={})
    svg = figures_svg([model] * (MOST_MODELS + 5))

    assert svg.count("acme-one gbt") == MOST_MODELS


def test_equal_models_give_equal_pictures() -> None:
    models = make_site().models

    assert figures_svg(models) == figures_svg(models)
