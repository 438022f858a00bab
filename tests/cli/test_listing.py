from __future__ import annotations

from typing import Any

import pytest

from costhub.collector.suite import find_suites, suites
from costhub.collector.zoo.registry import NETWORKS
from costhub.errors import WorkloadError


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
