"""Tables about the hub show the figures of their files."""

from __future__ import annotations

from scripts.tables.release import (
    cuts_table,
    licences_table,
    package_table,
    pull_table,
    release_headline,
    release_table,
    reproduced_table,
)


def test_what_was_cut_and_what_became_of_it_is_counted() -> None:
    row = {"command": "pull", "cut": 3, "away": 1, "kill": 2, "first_done": 2, "arrived": 1, "again_done": 6}
    ends = {"identical": 6, "half": 0, "lost": 1, "doubled": 2, "no_sentence": 3, "left": 4}

    shown = cuts_table({"rows": [{**row, **ends}, {**row, **ends, "command": "publish"}]})

    assert "| pull | 3 | 1 | 2 | 2 | 1 | 6 | 6 |" in shown
    assert shown.endswith(
        "0 half files under a final name, 2 versions lost on the server, 4 pull requests opened twice, "
        "6 failures without a sentence, 8 temporary folders left by killed clients."
    )


def test_seconds_to_scores_have_their_stages() -> None:
    line = {"way": "the package", "seconds": 2.5, "range": 3.0, "pull": 0.1, "load": 1.5, "score": 0.05}

    shown = pull_table({"summary": [line], "rows": [line] * 5, "programs": 112, "scored": "gpu"})

    assert "| the package | 2.50 | 3.00 | 0.10 | 1.50 | 0.05 |" in shown
    assert "Medians of 5 new processes with empty caches; 112 programs of gpu" in shown


def test_models_are_shown_with_their_figures_and_the_size_of_all() -> None:
    figures = {"workloads": 4, "top_1": 0.5, "top_5": 0.75, "pairwise": 0.625, "equal": "no"}
    of_many = {"arch": "gbt", "model": "x/many-gbt", **figures, "bytes": 1_500_000}
    of_one = {"device": "a", "arch": "mlp", "model": "x/a-mlp", **figures, "bytes": 500_000}

    shown = release_table({"rows": [{"device": "a", **of_many}, {"device": "b", **of_many}, of_one]})

    assert "| a | gbt | 4 | 0.500 | 0.750 | 0.625 | no | 1.5 |" in shown
    assert shown.endswith("2 models for 2 devices, 2.0 MB in all.")


def test_the_headline_has_one_model_per_device_and_names_the_others() -> None:
    figures = {"workloads": 4, "top_1": 0.5, "top_5": 0.75, "pairwise": 0.625, "bytes": 500_000}
    good = {"arch": "gbt", "model": "x/many-gbt", "default": True, **figures}
    other = {"device": "a", "arch": "mlp", "model": "x/a-mlp", "default": False, **figures}

    shown = release_headline({"rows": [{"device": "a", **good}, {"device": "b", **good}, other]})

    assert "| a | gbt | 4 | 0.500 | 0.750 | 0.625 | mlp |" in shown
    assert "| b | gbt | 4 | 0.500 | 0.750 | 0.625 | - |" in shown
    assert "| a | mlp |" not in shown
    assert shown.endswith("2 models for 2 devices, 1.0 MB in all.")


def test_a_package_that_failed_says_where() -> None:
    row = {"python": "3.12.1", "package": "whl", "install_s": 61.4, "bytes": 2_000_000_000, "devices_s": 1.0}

    shown = package_table({"rows": [{**row, "failed": "pull: no"}], "sizes": {"x.whl": 1_000_000}})

    assert "| 3.12.1 | whl | 61 | 2.00 | 1.0 | - | - | - | pull: no |" in shown
    assert shown.endswith("x.whl 1.0 MB.")


def test_licences_are_listed() -> None:
    shown = licences_table({"licences": [{"name": "n", "version": "1", "licence": "MIT"}]})

    assert shown.endswith("| n | 1 | MIT |")


def test_what_is_outside_the_spread_is_counted() -> None:
    row = {"device": "a", "model": "gbt", "metric": "top_1", "here": 0.5, "mean": 0.6, "within": 0.05}

    shown = reproduced_table({"rows": [{**row, "verdict": "ok"}, {**row, "verdict": "outside"}]})

    assert "| a | gbt | top_1 | 0.500 | 0.600 | 0.050 | outside |" in shown
    assert shown.endswith("1 of 2 figures are within the table's spread, 1 outside.")
