"""Programs and processes that the collector's tests share: real ones, on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from costhub.collector.build.builder import Builder
from costhub.collector.device.local import local_target
from costhub.collector.propose.sampler import Program, Sampler
from costhub.collector.run.runner import Runner
from costhub.collector.workloads.suites import find_workload


@pytest.fixture(scope="session")
def target() -> str:
    return json.dumps(local_target())


@pytest.fixture(scope="session")
def programs(target: str) -> list[Program]:
    return Sampler(find_workload("matmul.128x128x128").module(), target, seed=3).random(4)


@pytest.fixture(scope="session")
def builder(target: str) -> Iterator[Builder]:
    with Builder(target, processes=2) as builder:
        yield builder


@pytest.fixture(scope="session")
def runner(target: str) -> Iterator[Runner]:
    with Runner(target) as runner:
        yield runner
