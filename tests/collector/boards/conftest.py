"""A real tracker and two real servers on the loopback, shared by the tests of this folder."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from costhub.collector.boards.server import RunningServer, board_server, tracker_server
from costhub.collector.boards.tracker import Tracker
from costhub.collector.device.identity import identify
from costhub.collector.device.local import local_target

KEY = "test"
Serve = Callable[..., RunningServer]


@pytest.fixture(scope="session")
def identity() -> dict[str, Any]:
    return {"device": identify(), "target": local_target()}


@pytest.fixture(scope="session")
def tracker(free_port: Callable[[], int]) -> Iterator[Tracker]:
    with tracker_server(port=free_port()) as running:
        yield Tracker("127.0.0.1", running.port)


@pytest.fixture(scope="session")
def boards_of_key(
    tracker: Tracker, identity: dict[str, Any], free_port: Callable[[], int]
) -> Iterator[list[RunningServer]]:
    """Two servers under `KEY`; tests leave them running."""
    with ExitStack() as stack:
        yield [stack.enter_context(board_server(tracker, KEY, port=free_port(), identity=identity)) for _ in range(2)]


@pytest.fixture
def serve(tracker: Tracker, identity: dict[str, Any], free_port: Callable[[], int]) -> Iterator[Serve]:
    """Starts one more server under `KEY`, which the test may kill."""
    with ExitStack() as stack:

        def start(*, said: dict[str, Any] | None = None) -> RunningServer:
            server = board_server(tracker, KEY, port=free_port(), identity=said or identity)
            return stack.enter_context(server)

        yield start


@pytest.fixture
def library(tmp_path: Path) -> Callable[[str], str]:
    """Makes a library that runs a line of C as soon as it is loaded."""

    def make(body: str) -> str:
        source = tmp_path / "bad.c"
        head = "#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) "
        source.write_text(f"{head} void f(void) {{ {body} }}\n")
        path = str(tmp_path / "bad.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", path, str(source)], check=True)
        return path

    return make
