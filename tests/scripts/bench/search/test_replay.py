"""Rows of the replay benchmark, and the table that is made of them."""

from __future__ import annotations

from costhub.api.replay.bench import BenchOptions, bench_search
from costhub.api.replay.result import ReplayResult
from costhub.search.replay.judge import ReplaySettings, replay
from costhub.search.replay.strategies import RandomOrder
from costhub.testing import made_replay
from scripts.bench.search.replay import ENTRIES, POINTS, Entry, row_of, with_total
from scripts.tables.search import replay_table


def row(entry: Entry, device: str, *, trials: int = 24) -> dict[str, object]:
    settings = ReplaySettings(seeds=2, batch=4, trials=trials)
    scores = tuple(replay(made_replay(seed=seed), RandomOrder, lambda _: None, settings) for seed in range(2))
    return row_of(entry, device, ReplayResult("random", "", "", settings, scores), 1.5)


def tables(result: dict[str, object]) -> list[list[list[str]]]:
    """The cells of each line of each table."""
    found: list[list[list[str]]] = []
    for part in replay_table(result).split("\n\n"):
        if part.startswith("|"):
            found.append([[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines()])
    return found


def test_a_row_has_the_scores_and_the_curve_to_the_end_of_the_search() -> None:
    found = row(ENTRIES[0], "made")

    assert (found["strategy"], found["model"], found["device"], found["seeds"]) == ("random", "", "made", 2)
    curve = found["curve"]
    assert isinstance(curve, list)
    assert len(curve) == len(POINTS)
    assert curve == sorted(curve)
    assert curve[POINTS.index(24)] == curve[-1]  # nothing was measured later
    assert len(found["by_workload"]) == 2  # type: ignore[arg-type]


def test_rows_of_earlier_versions_get_the_number_of_programs_from_the_dataset() -> None:
    device = "amd-epyc-zen5-1c"
    whole = BenchOptions(devices=(device,), settings=ReplaySettings(seeds=1, trials=1))
    (figures,) = bench_search("random", None, options=whole, progress=False).summary["devices"]

    found = with_total({"device": device, "score": 0.5})

    assert found == {"device": device, "score": 0.5, "programs_total": figures["programs_total"]}
    assert with_total({"device": "none", "programs_total": 7}) == {"device": "none", "programs_total": 7}


def test_means_of_ansors_pools_and_of_the_others_stand_apart_where_every_device_of_theirs_was_played() -> None:
    mine, theirs = Entry("model", "mine"), Entry("model", "theirs")
    played = [
        *((ENTRIES[0], device, score) for device, score in (("nvidia-v100", -1.0), ("a", 0.5), ("amd-mi50", -0.5))),
        *((mine, device, score) for device, score in (("a", 0.75), ("b", 0.25), ("amd-mi50", 0.0))),
        *((theirs, device, score) for device, score in (("nvidia-v100", 0.5), ("amd-mi50", 0.25))),
    ]

    (head, _, *lines), _ = tables({"rows": [{**row(entry, device), "score": score} for entry, device, score in played]})

    assert head[-2:] == ["mean, Ansor's pools", "mean, other pools"]
    assert [line[1] for line in lines] == ["-", "`mine`, frozen", "`theirs`, frozen"]
    assert [line[-2:] for line in lines] == [["-0.75", "-"], ["-", "0.50"], ["0.38", "-"]]


def test_a_pool_of_which_nothing_was_played_has_no_mean() -> None:
    (_, _, random), _ = tables({"rows": [{**row(ENTRIES[0], "a"), "score": 0.5}]})

    assert random[-2:] == ["-", "0.50"]


def test_trials_stand_below_the_device_that_they_are_of() -> None:
    mine, theirs = Entry("model", "mine"), Entry("model", "theirs")
    played = [(ENTRIES[0], "a", 6.0), (ENTRIES[0], "b", 34.5), (mine, "b", 2.5), (mine, "a", 17.0), (theirs, "b", 9.0)]

    scores, trials = tables({"rows": [{**row(entry, device), "near": near} for entry, device, near in played]})

    assert trials[0] == ["strategy", "model, learning", "`a`", "`b`"]
    assert scores[0] == [*trials[0], "mean, Ansor's pools", "mean, other pools"]
    assert [line[2:] for line in trials[2:]] == [["6", "34.5"], ["17", "2.5"], ["-", "9"]]
