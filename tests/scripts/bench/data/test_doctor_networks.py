"""A real search of a small network: its coverage and merges are told rightly, and a wrong answer is noticed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.bench.data import doctor_networks
from scripts.bench.data.doctor import empty_cache
from scripts.bench.data.doctor_networks import coverage_rows, is_wrong, merge_rows


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    with empty_cache():
        yield


def search_of_another(out: Path) -> Path:
    """The folder of a search for a kernel that the network lacks, with one program."""
    from costhub.api.tune import TuneOptions, tune

    options = TuneOptions(method="frozen", strategy="random", stop="never")
    tune(["softmax.64x1000"], out, trials=1, options=options, progress=False)
    return out


@pytest.mark.slow
def test_the_coverage_of_a_search_is_told_with_less_and_with_more(searched: Path, tmp_path: Path) -> None:
    other = search_of_another(tmp_path / "other")

    whole, less, more = coverage_rows(searched, str(searched.parent / "net.json"), other, tmp_path / "made")

    assert [row["wrong"] for row in (whole, less, more)] == [[], [], []]
    assert [(row["kernels"], row["tuned"], row["trials"], row["foreign"]) for row in (whole, less, more)] == [
        (2, 2, 12, 0),
        (1, 1, 6, 0),  # without records, a kernel so small is one that `costhub tune` leaves alone
        (2, 2, 13, 1),
    ]
    assert whole["flop_share"] == more["flop_share"] == pytest.approx(1.0)
    assert 0 < less["flop_share"] <= 0.5  # the heavier of two has no records


@pytest.mark.slow
def test_folders_are_joined_and_those_of_two_targets_refused(searched: Path, tmp_path: Path) -> None:
    other = search_of_another(tmp_path / "other")

    different, overlapping, targets = merge_rows([searched, other], tmp_path / "made")

    assert [is_wrong(row) for row in (different, overlapping, targets)] == [False] * 3
    assert (different["records"], different["joined"], different["duplicates"]) == (13, 13, 0)
    assert (overlapping["records"], overlapping["joined"], overlapping["duplicates"]) == (18, 12, 6)
    assert (different["loads"], overlapping["loads"], targets["loads"]) == (True, True, None)
    assert targets["joined"] == 0
    assert targets["refused"].startswith("There are records for 2 targets: {")
    assert str(tmp_path) not in targets["refused"]


def test_a_merge_that_loses_adds_or_takes_two_targets_is_wrong(
    searched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copies_the_last(folders: list[Path], out: Path, *, progress: bool) -> object:
        shutil.copytree(folders[-1], out)
        return type("Report", (), {"duplicates": 0})()

    monkeypatch.setattr(doctor_networks, "merge", copies_the_last)
    overlapping, targets = merge_rows([searched], tmp_path / "made")

    assert (overlapping["lost"], overlapping["added"], is_wrong(overlapping)) == (6, 0, True)
    assert (targets["added"], targets["refused"], is_wrong(targets)) == (12, "", True)


def test_a_refusal_of_one_target_is_wrong() -> None:
    row = {"lost": 0, "added": 0, "loads": None, "refused": "No.", "must_join": True}

    assert is_wrong(row)
    assert not is_wrong({**row, "must_join": False})
    assert is_wrong({**row, "refused": "", "loads": False})


def test_a_wrong_coverage_is_told_with_what_it_should_be(
    searched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = doctor_networks._coverage

    def sees_the_whole_folder(folder: Path, network: str) -> object:
        (numbers, covered), seconds = right(searched, network)
        return (numbers, replace(covered, foreign_trials=3)), seconds

    monkeypatch.setattr(doctor_networks, "_coverage", sees_the_whole_folder)
    whole, less = coverage_rows(searched, str(searched.parent / "net.json"), None, tmp_path / "made")

    assert whole["wrong"] == ["foreign is 3, not 0"]
    assert [text.split(",")[0] for text in less["wrong"]] == ["foreign is 3", "share is 1.0", "tuned is 2"]
