"""Moments and surroundings: kills, signals, two at once, disks, streams and boards (kinds 57 to 70)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scripts.bench.security.attempt import Attempt
from scripts.bench.security.place import Command, Place
from scripts.bench.security.scenarios.steps import reported

FAMILY = "processes"
_SCENARIOS = (
    ("57a", "board serve: the addresses it listens on", "listening", ()),
    ("58", "a stranger at a board's port, as documented", "stranger_at_board", ()),
    ("59", "garbage at tracker and board, then kill -9", "garbage_at_board", ()),
    ("60", "kill -9 of tune, then again", "killed_tune", ()),
    ("61", "SIGTERM of tune, SIGHUP of collect", "signalled", ()),
    ("62", "two tunes of two workloads into one --out", "two_tunes", ("softmax.64x1000",)),
    ("63", "two tunes of one workload into one --out", "two_tunes", ("matmul.256x256x256",)),
    ("64", "a second collect into one folder", "two_collections", ()),
    ("65", "kill -9 of train, then again", "killed_train", ()),
    ("66", "a full disk: pull and publish", "full_disk", ()),
    ("67", "a read-only disk: evaluate, pull, stats", "read_only", ()),
    ("68", "no HOME, no TERM, LC_ALL=C; HOME=/proc", "bare_environment", ()),
    ("69", "stdout to head, closed, full; stderr closed", "streams", ()),
    ("70", "stats --page through a link", "page_through_link", ()),
)


def scenario(name: str, *words: str, needs: str = "") -> Callable[[Place], Command]:
    """Runs a scenario, in a place with a sound model `m` and a sound data folder `d` where it needs them."""

    def make(place: Place) -> Command:
        if name in ("full_disk",) or "m" in needs:
            place.model()
        if name in ("killed_train", "read_only", "page_through_link") or "d" in needs:
            place.data()
        return place.scenario(name, *words)

    return make


def _open_host(place: Place) -> Command:
    return place.costhub("board", "serve", "--tracker", "127.0.0.1:9", "--key", "k", "--host", "0.0.0.0")  # noqa: S104 - refused


def attempts() -> Iterator[Attempt]:
    """Kinds 57 to 70."""
    for kind, what, name, words in _SCENARIOS:
        quick = name in ("bare_environment", "streams")
        yield Attempt(kind, FAMILY, what, scenario(name, *words), "accepted", harm=reported, limit_s=180, quick=quick)
    yield Attempt("57b", FAMILY, "board serve --host 0.0.0.0", _open_host, quick=True)
