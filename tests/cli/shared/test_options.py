"""Times as people write them."""

from __future__ import annotations

from typing import Any

import click
import pytest

from costhub.cli.shared.options import Duration, check_tracker_options
from costhub.collector.workloads.suites import find_suites, suites
from costhub.collector.workloads.zoo.networks import NETWORKS
from costhub.errors import WorkloadError


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1.5m", 90), ("7", 7)])
def test_durations(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["soon", "-3s", "3d", ""])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match="30m"):
        Duration().convert(text, None, None)


@pytest.mark.parametrize("verb", ["tune", "collect"])
def test_every_suite_workload_and_network_is_listed(costhub: Any, verb: str) -> None:
    done = costhub(verb, "--list")

    words = done.out.replace(",", "").split()
    workloads = [workload.name for suite in suites().values() for workload in suite]
    assert (done.code, done.err) == (0, "")
    assert {*suites(), *NETWORKS, *workloads} <= set(words)


@pytest.mark.parametrize("name", ["bert_tiny", "mine.pt2"])
def test_a_network_given_as_a_workload_is_told_where_it_belongs(name: str) -> None:
    with pytest.raises(WorkloadError, match=rf"^{name} is a network, no workload: name it with --network "):
        find_suites([name])


def test_half_of_the_name_of_a_board_is_refused() -> None:
    check_tracker_options(None, None)
    check_tracker_options("127.0.0.1:9190", "pi4")
    for tracker, key in (("127.0.0.1:9190", None), (None, "pi4")):
        with pytest.raises(click.UsageError, match="go together"):
            check_tracker_options(tracker, key)
