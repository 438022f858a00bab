"""New kinds (113 to 120): hubs that lie, pull requests, other users, packages, trackers, clocks and words."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scripts.bench.security import shards
from scripts.bench.security.attempt import Attempt, Expected
from scripts.bench.security.place import Command, Place
from scripts.bench.security.processes import scenario
from scripts.bench.security.scenarios.steps import reported

FAMILY = "new: moments"
_PULLED: tuple[tuple[str, str, Expected], ...] = (
    ("listing-up", "files in folders above", "refused"),
    ("listing-absolute", "files in /tmp", "refused"),
    ("listing-backslash", "names with backslashes and drives", "either"),
    ("listing-names", "names with escapes, line breaks and NUL", "either"),
    ("listing-large", "a file of 3 GB", "refused"),
    ("listing-negative", "a file of -3 TB beside one of 3 TB", "refused"),
    ("listing-million", "a million files", "refused"),
    ("listing-endless", "pages without end", "refused"),
    ("listing-deep", "a listing nested 100,000 deep", "refused"),
    ("listing-object", "a listing that is no list", "refused"),
    ("listing-numbers", "a listing of numbers", "refused"),
    ("listing-bare", "entries without names", "refused"),
    ("listing-bomb", "a listing of 3 GB in 3 MB", "refused"),
    ("file-endless", "2.3 GB where the listing says 15 kB", "refused"),
    ("file-short", "a file that ends before its length", "refused"),
    ("file-long", "a file that goes on behind its length", "refused"),
    ("file-slow", "a file of one byte each 200 ms", "refused"),
    ("file-changed", "weights that are not those of the manifest", "refused"),
    ("file-bomb", "a file of 3 GB in 3 MB", "refused"),
    ("etag-up", "a name for the cache that leads out of it", "refused"),
    ("etag-long", "a name for the cache of 5,000 letters", "refused"),
    ("commit-up", "a commit for the cache that leads out of it", "either"),
    ("info-commit-up", "a revision that leads out of the cache", "refused"),
    ("info-object", "a revision that is an object", "refused"),
    ("info-text", "a text with escapes for every answer", "refused"),
    ("info-deep", "brackets for every answer", "refused"),
    ("error-escapes", "an error whose text a terminal obeys", "refused"),
    ("redirect-file", "a redirect to the user's own file", "refused"),
    ("redirect-loop", "a redirect to itself", "refused"),
    ("silent", "no answer at all", "refused"),
    ("headers", "an answer with 100,000 headers", "refused"),
    ("listing-once", "a listing that breaks off, and files of 2.3 GB", "refused"),
)
_REMOTE = (
    ("garbage", "a shard of garbage"),
    ("footer", "a footer of 2 GB"),
    ("many", "20,000 devices"),
    ("names", "a device that a terminal obeys"),
)
_REVIEWED = (
    ("garbage", "a shard of garbage"),
    ("nan", "latencies that are NaN"),
    ("readme", "a README and a setup.py beside it"),
    ("paths", "a path that leads out"),
    ("renamed", "files that are not those of its name"),
    ("device", "a description of a device that the dataset has"),
    ("trace", "traces aimed at TVM"),
    ("negative", "files of -3 TB"),
)
_LOCKED: tuple[tuple[str, str, Expected], ...] = (
    ("none", "nothing hostile", "accepted"),
    ("up", "shards in folders above", "refused"),
    ("pattern", "a device that is a pattern of names", "refused"),
    ("names", "a device that a terminal obeys", "refused"),
    ("more", "a shard of 3 TB more", "refused"),
    ("negative", "shards of -3 TB", "refused"),
    ("endless", "2.3 GB where the listing says 20 kB", "refused"),
    ("garbage", "a shard of another content", "refused"),
)
_MODELS = (
    ("code", "Python"),
    ("hidden", "a hidden file"),
    ("pickle", "a pickle"),
    ("up", "a path that leads out"),
    ("escapes", "a name that a terminal obeys"),
)
_OTHERS: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    ("117a", "kill -9 of adapt, then again", "killed_adapt", (), "d"),
    ("117b", "stats and evaluate beside collect", "read_while_collecting", (), ""),
    ("117c", "a clock that goes back at every look", "clock_backwards", (), ""),
    ("117d", "four pulls to one place, four to the cache, at once", "four_pulls", (), ""),
    ("118a", "a package that takes the name of an architecture", "added_packages", ("shadow",), "d"),
    ("118b", "a package whose name a terminal obeys", "added_packages", ("escapes",), "d"),
    ("118c", "a package that raises", "added_packages", ("raises",), "d"),
    ("118d", "a package that exits", "added_packages", ("exits",), "d"),
    ("118e", "a package without what it names", "added_packages", ("missing",), "d"),
    ("119a", "a model in a cache of another user", "poisoned_cache", ("model",), ""),
    ("119b", "features in a cache of another user", "poisoned_cache", ("features",), "d"),
    ("119c", "links under the names of scratch folders", "swept_links", (), ""),
    ("119d", "a redirect to another server, with a token", "token_sent_elsewhere", (), "m"),
    ("120a", "words that a terminal obeys, or that are no text", "odd_words", (), ""),
    ("120b", "the page of a hostile hub in a browser", "site_of_hub", (), "md"),
)
_TRACKERS = ("garbage", "huge", "negative", "object", "empty", "null", "deep", "nothing", "names", "types")
_INDEXES = (*("numbers", "object", "types", "escapes", "described", "long", "shadow", "up", "pipe", "huge", "deep"),)


def _reviewed(how: str) -> Callable[[Place], Command]:
    def make(place: Place) -> Command:
        place.data()
        bad = place.data(name="bad")
        if how == "nan":
            shards.change(bad, rows=9, run_s=[float("nan")], record_id="f" * 64)
        elif how == "device":
            shards.change(bad, "devices", vendor="EVIL", cores=1_000_000)
        elif how == "trace":
            shards.change(bad, rows=9, trace='[[["Split",["l0",-1,4611686018427387904],[true,true],["l1","l2"]]],[]]')
        return place.scenario("reviewed", how)

    return make


def attempts() -> Iterator[Attempt]:
    """Kinds 113 to 122, and 137."""
    for number, (trick, what, expected) in enumerate(_PULLED, start=1):
        made, most = scenario("pulled", trick, needs="m"), 1500.0
        yield Attempt(f"113-{number:02d}", FAMILY, f"pull from a hub with {what}", made, expected, harm=reported,
                      limit_s=100, most_mb=most, quick=trick == "etag-up")  # fmt: skip
    for letter, (trick, what) in zip("abcd", _REMOTE, strict=True):
        made = scenario("read_remotely", trick, needs="d")
        yield Attempt(f"114{letter}", FAMILY, f"stats hf-hub:, {what}", made, "either", harm=reported, limit_s=60)
    for letter, (how, what) in zip("abcdefgh", _REVIEWED, strict=True):
        title, quick = f"review --merge of a pull request with {what}", how == "garbage"
        yield Attempt(f"115{letter}", FAMILY, title, _reviewed(how), harm=reported, limit_s=90, quick=quick)
    for letter, (trick, what, expected) in zip("abcdefgh", _LOCKED, strict=True):
        made = scenario("locked_data", trick, needs="d")
        yield Attempt(f"137{letter}", FAMILY, f"pull --locked --data from a hub with {what}", made, expected,
                      harm=reported, limit_s=100, quick=trick == "pattern")  # fmt: skip
    for letter, (how, what) in zip("abcde", _MODELS, strict=True):
        made = scenario("offered_model", how, needs="m")
        yield Attempt(
            f"116{letter}", FAMILY, f"review of a model's pull request with {what}", made, harm=reported, limit_s=60
        )
    for kind, what, name, words, needs in _OTHERS:
        made = scenario(name, *words, needs=needs)
        limit_s = 600 if name == "odd_words" else 240  # that one starts 136 commands
        yield Attempt(kind, FAMILY, what, made, "accepted", harm=reported, limit_s=limit_s, quick=kind == "118a")
    for letter, how in zip("abcdefghij", _TRACKERS, strict=True):
        made = scenario("tracker_lies", how)
        yield Attempt(
            f"121{letter}", FAMILY, f"board list, a tracker that lies: {how}", made, "accepted", harm=reported
        )
    for letter, how in zip("abcdefghijk", _INDEXES, strict=True):
        made = scenario("hub_folder", how, needs="m")
        what = f"devices, pull and site of a hub whose index is hostile: {how}"
        yield Attempt(f"122{letter}", FAMILY, what, made, "accepted", harm=reported, limit_s=90)
