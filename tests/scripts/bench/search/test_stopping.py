"""Rules that end searches early are replayed only where a search would have been the same until then."""

from __future__ import annotations

from typing import Any

from scripts.bench.search.stopping import summaries


def row(subject: str, kernels: int = 1, batches: int = 4) -> dict[str, Any]:
    """A search whose kernels each had some batches of two programs, a little faster each time."""
    names = [f"k{number}" for number in range(kernels)]
    moments = [
        {
            "trials": 2 * kernels * count,
            "seconds": float(count),
            "latency_s": kernels / count,
            "counts": dict.fromkeys(names, count),
            "waiting": dict.fromkeys(names, 0.0),
        }
        for count in range(1, batches + 1)
    ]
    tasks = {name: [[[1.0 / count, 2.0 / count], [1.0, 0.0]] for count in range(1, batches + 1)] for name in names}
    weights = dict.fromkeys(names, 1.0)
    return {"subject": subject, "trials": 8, "moments": moments, "tasks": tasks, "weights": weights, "seed": 0}


def test_rules_that_end_single_kernels_say_nothing_of_networks() -> None:
    rows = [row("resnet18", 2), row("mobilenet_v2", 2), row("conv"), row("norm")]

    found = {(line["rule"], line["kind"]) for line in summaries(rows)["summary"]}

    assert found == {
        *((rule, "kernels") for rule in ("default", "fixed share", "gain", "variation")),
        ("default", "networks"),
        ("gain", "networks"),
    }


def test_a_kind_with_a_single_subject_has_no_others_to_choose_on() -> None:
    lines = summaries([row("resnet18", 2), row("conv"), row("norm")])["summary"]

    assert {line["kind"] for line in lines} == {"kernels"}
