"""The report of a folder that was searched more than once: it says what all of the searches found."""

from __future__ import annotations

from typing import Any

import pytest

from costhub.cards.reports.tune import tune_markdown, tune_page
from costhub.cards.reports.tune_history import can_go_on, with_earlier


def row(name: str, **more: Any) -> dict[str, Any]:
    times = {"seconds": 10.0, "untuned_us": 9.0, "best_us": 3.0, "curve": [[1, 4.0], [16, 3.0]]}
    return {"workload": name, "trials": 16, "failures": 0, **times, **more}


def report(*names: str, device: str = "acme-one", created: str = "first", **more: Any) -> dict[str, Any]:
    rows = [row(name, device=device) for name in names]
    facts = {"device": device, "model": "acme/model", "method": "search", "created": created}
    return {**facts, "database": "out", "networks": [], "workloads": rows, **more}


def names_of(summary: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["workload"], row["device"]) for row in summary["workloads"]]


def test_the_first_report_of_a_folder_stays_as_it_is() -> None:
    assert with_earlier(report("a"), None) == report("a")


def test_a_workload_that_is_tuned_again_is_replaced_and_its_search_forgotten() -> None:
    again = with_earlier(report("a", created="second"), report("a"))

    assert names_of(again) == [("a", "acme-one")]
    assert "earlier" not in again


def test_a_search_that_went_on_took_the_seconds_of_both() -> None:
    first, second = report("a"), report("a", created="second")
    second["workloads"][0] |= {"trials": 40, "seconds": 25.0}

    assert with_earlier(second, first)["workloads"][0]["seconds"] == 35.0
    assert with_earlier(first, second)["workloads"][0]["seconds"] == 10.0  # begun anew, with fewer programs
    assert second["workloads"][0]["seconds"] == 25.0


def test_a_search_that_went_on_keeps_what_the_first_one_recorded() -> None:
    first, second = report("a"), report("a")
    first["workloads"][0] |= {"trials": 16, "measured_us": [4.0] * 15 + [3.0], "stages": {"running": 5.0}}
    best_first = {"measured_us": [3.0] + [4.0] * 15 + [2.5], "curve": [[16, 3.0], [17, 2.5]]}
    second["workloads"][0] |= {"trials": 17, **best_first, "stages": {"running": 1.0, "building": 2.0}}

    (row,) = with_earlier(second, first)["workloads"]

    assert row["curve"] == [[1, 4.0], [16, 3.0], [17, 2.5]]
    assert row["measured_us"] == [4.0] * 15 + [3.0, 2.5]
    assert row["stages"] == {"running": 6.0, "building": 2.0}
    assert row["trials_before"] == 16
    assert row["trials_untimed"] == 0


@pytest.mark.parametrize(("before", "seconds"), [("this", 35.0), (None, 35.0), ("another", 25.0)])
def test_a_search_for_another_target_was_begun_anew(before: str | None, seconds: float) -> None:
    first, second = report("a", target=before), report("a", target="this")
    second["workloads"][0] |= {"trials": 40, "seconds": 25.0}

    (row,) = with_earlier(second, first)["workloads"]

    assert (row["seconds"], "trials_before" in row) == (seconds, seconds == 35.0)


def test_each_search_is_named_with_what_is_left_of_it() -> None:
    joined = with_earlier(report("b", created="second"), report("a", "b"))
    joined = with_earlier(report("c", created="third"), joined)
    joined = with_earlier(report("c", created="fourth"), joined)

    assert names_of(joined) == [(name, "acme-one") for name in "cba"]
    assert [(search["created"], search["workloads"]) for search in joined["earlier"]] == [
        ("second", ["b"]),
        ("first", ["a"]),
    ]


def test_a_workload_on_another_device_is_another_result() -> None:
    joined = with_earlier(report("a", device="acme-two"), report("a"))

    assert names_of(joined) == [("a", "acme-two"), ("a", "acme-one")]
    assert [search["device"] for search in joined["earlier"]] == ["acme-one"]
    assert "| a | acme-two |" in tune_markdown(joined)


def test_reports_of_0_1_0_name_the_device_once() -> None:
    old = report("a")
    del old["workloads"][0]["device"]

    assert names_of(with_earlier(report("b"), old)) == [("b", "acme-one"), ("a", "acme-one")]


def test_networks_are_kept_unless_they_were_tuned_again() -> None:
    first = report("a", networks=[{"network": "net", "note": 1}, {"network": "other"}], load_average=9.0, cores=2)
    joined = with_earlier(report("b", networks=[{"network": "net", "note": 2}]), first)
    again = with_earlier(report("c", load_average=0.1, cores=4), joined)

    other = {"network": "other", "load_average": 9.0, "cores": 2}  # what was measured beside other programs stays so
    assert joined["networks"] == [{"network": "net", "note": 2}, other]
    assert again["networks"][1] == other


def test_both_reports_name_the_command_and_the_workloads_of_each_search() -> None:
    first = report("relu", command="costhub tune relu")
    joined = with_earlier(report("conv", command="costhub tune conv", estimate=[[0, 9.0], [16, 3.0]]), first)

    for text in (tune_markdown(joined), tune_page(joined)):
        assert text.count("An earlier search in the same folder") == 1
        assert "costhub tune relu" in text
        assert "costhub tune conv" in text
    assert "Workloads of earlier searches are left out." in tune_page(joined)


@pytest.mark.parametrize(
    "change",
    [
        {"workloads": [{"workload": "a"}]},
        {"workloads": [row("a", trials="many")]},
        {"workloads": [row("a", curve=[["x", "y"]])]},
        {"workloads": ["a"]},
        {"networks": [{}]},
        {"networks": {"a": 1}},
        {"earlier": [{"device": "acme"}]},
        {"earlier": 7},
        {"versions": [1]},
    ],
)
def test_what_could_not_be_rendered_again_cannot_go_on(change: dict[str, Any]) -> None:
    assert can_go_on(report("a"))
    assert not can_go_on({**report("a"), **change})
