"""What can be listed by name."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

from costhub.cli.shared.options import check_tracker_options
from costhub.collector.workloads.suites import find_suites, suites
from costhub.collector.workloads.zoo.networks import NETWORKS
from costhub.errors import WorkloadError


@pytest.mark.parametrize("verb", ["tune", "collect"])
def test_every_suite_workload_and_network_is_listed(costhub: Any, verb: str) -> None:
    done = costhub(verb, "--list")

    words = done.out.replace(",", "").split()
    workloads = [workload.name for suite in suites().values() for workload in suite]
    assert (done.code, done.err) == (0, "")
    assert {*suites(), *NETWORKS, *workloads} <= set(words)


@pytest.mark.parametrize("words", [("--list", "--json"), ("--json", "--list")])
def test_the_list_is_json_where_json_is_asked_for(costhub: Any, words: tuple[str, str]) -> None:
    done = costhub("tune", *words)

    found = json.loads(done.out)
    assert {name: [each["name"] for each in found["suites"][name]] for name in suites()} == {
        name: [workload.name for workload in workloads] for name, workloads in suites().items()
    }
    assert set(found["networks"]) == set(NETWORKS)
    assert found["networks"]["stable_diffusion_block"] == {
        "label": "stable-diffusion-1.5-block",
        "input": [1, 320, 32, 32],
        "further_inputs": [[1, 1280], [1, 77, 768]],
        "parameters": 10_524_480,
    }


@pytest.mark.parametrize("name", ["bert_tiny", "mine.pt2"])
def test_a_network_given_as_a_workload_is_told_where_it_belongs(name: str) -> None:
    with pytest.raises(WorkloadError, match=rf"^{name} is a network, not a suite: name it with --network "):
        find_suites([name])


def test_half_of_the_name_of_a_board_is_refused() -> None:
    check_tracker_options(None, None)
    check_tracker_options("127.0.0.1:9190", "pi4")
    for tracker, key in (("127.0.0.1:9190", None), (None, "pi4")):
        with pytest.raises(click.UsageError, match="go together"):
            check_tracker_options(tracker, key)
