"""The tracker's protocol, spoken with TVM's own tracker and servers."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from costhub.collector.boards.server import RunningServer
from costhub.collector.boards.tracker import MAGIC, Server, Tracker, address_of
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


ANSWERS = {
    "no JSON": struct.pack("<i", 9) + b"{not json",
    "two gigabytes": struct.pack("<i", 0x7FFFFFFF) + b"[",
    "a negative size": struct.pack("<i", -5) + b"[",
    "an object": struct.pack("<i", 8) + b'{"a": 1}',
    "nothing": struct.pack("<i", 2) + b"[]",
    "null": struct.pack("<i", 9) + b"[0, null]",
    "depth": struct.pack("<i", 200_000) + b"[" * 200_000,
    "other types": struct.pack("<i", 43) + b'[0,{"server_info":[{"addr":5,"key":null}]}]',
}


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[Tracker]:
    """A tracker that answers every question so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(MAGIC)
                        connection.recv(4096)
                        connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield Tracker("127.0.0.1", listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", list(ANSWERS.values()), ids=list(ANSWERS))
def test_an_answer_that_no_tracker_gives_is_a_sentence(answer: bytes) -> None:
    with answering(answer) as tracker:
        with pytest.raises(MeasureError, match=r"tracker"):
            tracker.servers()
        with pytest.raises(MeasureError, match=r"tracker"):
            tracker.take("k", give_up=lambda: False)


def test_names_that_a_terminal_would_obey_arrive_without_what_it_obeys() -> None:
    infos = {"server_info": [{"addr": ["127.0.0.1\x1b[2J", 9], "key": "server:\x1b]0;x\x07"}]}
    text = json.dumps([0, infos]).encode()

    with answering(struct.pack("<i", len(text)) + text) as tracker:
        assert tracker.servers() == [Server("127.0.0.1?[2J:9", "?]0;x?")]
