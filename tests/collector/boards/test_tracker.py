"""The tracker's protocol, spoken with TVM's own tracker and servers."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from costhub.collector.boards.server import RunningServer
from costhub.collector.boards.tracker import Server, Tracker, address_of
from costhub.errors import MeasureError

KEY = "test"


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert address_of("[::1]:9190") == ("::1", 9190)


def test_it_knows_the_servers_by_name_and_key(tracker: Tracker, boards_of_key: list[RunningServer]) -> None:
    expected = sorted(f"127.0.0.1:{running.port}" for running in boards_of_key)
    assert tracker.servers(KEY) == [Server(name, KEY) for name in expected]
    assert tracker.servers("other") == []
    assert set(tracker.servers(KEY)) <= set(tracker.servers())


def test_a_key_that_nobody_has_waits_until_given_up(tracker: Tracker) -> None:
    asked = iter([False, True])
    assert tracker.take("nobody", give_up=lambda: next(asked)) is None
    assert tracker.free("nobody") == 0


def test_a_lease_is_a_board(tracker: Tracker, boards_of_key: list[RunningServer]) -> None:
    from tvm import rpc

    lease = tracker.take(KEY, give_up=lambda: False)
    assert lease is not None
    assert lease.board in {server.name for server in tracker.servers(KEY)}
    assert lease.match_key.startswith(KEY)
    rpc.connect(lease.host, lease.port, lease.match_key)  # and hang up; one that is not used returns later
    while tracker.free(KEY) < len(boards_of_key):
        time.sleep(0.05)


def test_what_is_no_tracker_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        port = listener.getsockname()[1]
        with pytest.raises(MeasureError, match="something else answers"):
            Tracker("127.0.0.1", port).servers()
        thread.join()
