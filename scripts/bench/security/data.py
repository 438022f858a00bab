"""Hostile data folders: shards, journals, splits, pipes, sizes and a poisoned cache (kinds 28 to 41)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from scripts.bench.common.data import DEVICE
from scripts.bench.security import shards
from scripts.bench.security.attempt import Attempt, Expected, lacks, no_harm
from scripts.bench.security.models import TERABYTE
from scripts.bench.security.place import Answer, Command, Place

FAMILY = "data"
SpoilData = Callable[[Path], object]
EVALUATE = "evaluate amd-epyc-zen5-2c-gbt --data D --all"
ESCAPES = "\x1b]0;owned\x07\x1b[2J"


def on_data(words: str, spoil: SpoilData) -> Callable[[Place], Command]:
    """Makes a hostile data folder and runs a verb on it.

    Args:
        words: The verb with its options; D is the data folder, OUT a path that is free.
        spoil: What makes the folder hostile.
    """

    def make(place: Place) -> Command:
        folder = place.data()
        spoil(folder)
        names = {"D": folder, "OUT": place.folder / "out"}
        return place.costhub(*(names.get(word, word) for word in words.split()))

    return make


def pipe(name: str) -> SpoilData:
    """Puts a named pipe in the place of a file."""

    def spoil(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    return spoil


def big_strings(folder: Path) -> None:
    """A column of 1.2 GB of which the file holds a few kB: page after page of one letter."""
    one = pa.array(["x" * (50 << 20)])
    table = shards.with_column(folder, "error", lambda rows: pa.chunked_array([one] * rows))
    shards.write_table(shards.shard(folder), table, compression="zstd", use_dictionary=False, write_statistics=False)


def _nan_run(folder: Path) -> None:
    shards.change(folder, run_s=[float("nan"), 1e-3])


def _garbage(folder: Path) -> None:
    import numpy as np

    shards.shard(folder).write_bytes(b"PAR1" + np.random.default_rng(0).bytes(50_000) + b"PAR1")


def _another_schema(folder: Path) -> None:
    shards.write_table(shards.shard(folder), pa.table({"a": [1, 2], "b": ["x", "y"]}))


def _sparse_shard(folder: Path) -> None:
    """A shard of 1 TB whose end holds the place of a seal, so that it has a hash to compute."""
    path = shards.shard(folder)
    end = path.read_bytes()[-20_000:]
    with path.open("wb") as file:
        file.truncate(TERABYTE - len(end))
        file.seek(0, os.SEEK_END)
        file.write(end)


def _footer_of_4_gb(folder: Path) -> None:
    path = shards.shard(folder)
    with path.open("wb") as file:
        file.write(b"PAR1")
        file.truncate(5 << 30)
        file.seek(0, os.SEEK_END)
        file.write((0xFFFFFFF0).to_bytes(4, "little") + b"PAR1")


def _device_folder(folder: Path) -> None:
    shards.shard(folder, "devices").unlink()
    shards.shard(folder, "devices").mkdir()


def _hostile_module(folder: Path) -> None:
    shards.change(folder, "workloads", module_json='{"root_index":0,"nodes":[{"type":"ffi.Function","data":"x"}]}')


def _aimed_traces(folder: Path) -> None:
    """Traces that name blocks, loops and decisions which the module does not have."""
    traces = [
        [[["GetSBlock", [], ["C", "main"], ["b0"]]], [[10**6, [1, 2]]]],
        [[["GetSBlock", [], ["nothing", "main"], ["b0"]]], []],
        [[["Split", ["l0", -1, 1 << 62], [True, True], ["l1", "l2"]]], [[0, [1 << 62, 1 << 62]]]],
        [[["FuseNoSuchThing"]], []],
        [[["Reorder", ["l1"] * 1000, [], []]], []],
    ]
    rows = shards.read(folder)
    for row, trace in zip(rows, traces * 9, strict=False):
        row["trace"] = json.dumps(trace)
    shards.write(folder, rows)


def _linked_shard(folder: Path) -> None:
    path = shards.shard(folder)
    away = folder.parent / "elsewhere.parquet"
    path.rename(away)
    path.symlink_to(away)


def _poisoned(place: Place, *, garbage: bool) -> Command:
    """Compares figures before and after somebody has put features of zeros into the data folder."""
    code = _POISON.format(data=str(place.data()), cache=str(place.folder / "cache"), device=DEVICE, garbage=garbage)
    return place.python(code, shown="evaluate GBT --data D, before and after D/features is poisoned")


_POISON = """
import json, os, shutil, subprocess, sys
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from costhub.dataset.shards import shard
SEAL_KEY, BLANK = shard.SEAL_KEY, getattr(shard, "BLANK_SEAL", None) or shard.BLANK
data, cache = Path({data!r}), Path({cache!r})
CLI = "import sys; from costhub.cli.main import main; sys.argv[0] = 'costhub'; sys.exit(main())"
def figures():
    words = ["evaluate", "amd-epyc-zen5-2c-gbt", "--data", str(data), "--all", "--json"]
    done = subprocess.run([sys.executable, "-c", CLI, *words], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return json.dumps(found.get("totals", found), sort_keys=True)[:400]
sound = figures()
parts = [path for root in (data, cache) for path in root.rglob("part-*.parquet")]
assert parts, "no features were kept"
for path in parts:
    table = pq.ParquetFile(path).read()
    zeros = [bytes(len(rows)) for rows in table["rows"].to_pylist()]
    table = table.set_column(2, table.schema.field(2), pa.array(zeros, pa.binary()))
    spec = next(p.name for p in path.parents if "@" in p.name)
    target = data / "features" / spec / {device!r} / path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    kept = {{key: value for key, value in table.schema.metadata.items() if key != SEAL_KEY.encode()}}
    with pq.ParquetWriter(target, table.schema.with_metadata(kept), compression="zstd") as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({{SEAL_KEY: BLANK}})
    shard.write_seal(target)
    if {garbage}:
        target.write_bytes(target.read_bytes()[::-1])
shutil.rmtree(cache, ignore_errors=True)
checked = subprocess.run([sys.executable, "-c", CLI, "check", str(data)], capture_output=True, text=True)
poisoned = figures()
print(checked.stdout.strip().splitlines()[-1])
print("the figures stayed" if poisoned == sound else "THE FIGURES CHANGED")
"""
_JOURNAL = f"measurements/{DEVICE}/journal.jsonl"
_CHECKED: tuple[tuple[str, str, SpoilData], ...] = (
    ("28a", "columns of another table", _another_schema),
    ("28b", "random bytes under the name of a shard", _garbage),
    ("28c", "a text of 64 MB in a row", lambda f: shards.change(f, error="x" * (64 << 20))),
    ("28d", "a trace of 64 MB", lambda f: shards.change(f, trace="[" * (64 << 20))),
    ("28e", "a latency that is NaN", _nan_run),
    ("28f", "a latency that is infinite", lambda f: shards.change(f, run_s=[float("inf")])),
    ("28g", "a journal line nested 100,000 deep", lambda f: shards.journal(f, b"[" * 100_000 + b"]" * 100_000 + b"\n")),
    ("28h", "a folder under the name of a shard", _device_folder),
    ("29", "a column of 1.2 GB in a file of some kB", big_strings),
    ("31a", "traces aimed at TVM", _aimed_traces),
    ("33a", "a shard is a named pipe", pipe(f"measurements/{DEVICE}/{shards.SHARD}")),
    ("34a", "journal.jsonl is a named pipe", pipe(_JOURNAL)),
    ("35a", "a split is a named pipe", pipe("splits/a.json")),
    ("38", "a shard of 1 TB with the place of a seal", _sparse_shard),
    ("39", "a footer of 4 GiB", _footer_of_4_gb),
)
_OTHERS: tuple[tuple[str, str, str, SpoilData, Expected], ...] = (
    ("30", "evaluate, a column of 1.2 GB in a file of some kB", EVALUATE, big_strings, "either"),
    ("31b", "check --deep, traces aimed at TVM", "check --deep D", _aimed_traces, "refused"),
    ("31c", "evaluate, traces aimed at TVM", EVALUATE, _aimed_traces, "either"),
    ("32a", "check --deep, a module that is none", "check --deep D", _hostile_module, "refused"),
    ("32b", "evaluate, a module that is none", EVALUATE, _hostile_module, "either"),
    ("33b", "stats, a shard is a named pipe", "stats D", pipe(f"measurements/{DEVICE}/{shards.SHARD}"), "refused"),
    ("34b", "evaluate, journal.jsonl is a named pipe", EVALUATE, pipe(_JOURNAL), "refused"),
    ("35b", "split, a split is a named pipe", "split D", pipe("splits/a.json"), "refused"),
    ("35c", "evaluate --split a, which is a named pipe", f"{EVALUATE} --split a", pipe("splits/a.json"), "refused"),
    ("36a", "check, README.md is a named pipe", "check D", pipe("README.md"), "either"),
    ("36b", "stats, README.md is a named pipe", "stats D", pipe("README.md"), "either"),
    ("36c", "evaluate, the lock is a named pipe", EVALUATE, pipe(f"measurements/{DEVICE}/.lock"), "either"),
    ("37a", "check, a shard is a symbolic link", "check D", _linked_shard, "either"),  # CH054 warns
    ("37b", "stats, a shard is a symbolic link", "stats D", _linked_shard, "either"),
)  # fmt: skip
_QUICK = {"28b", "34a", "38"}


def figures_changed(place: Place, answer: Answer) -> str:
    """A harm: a stranger's features changed what an evaluation says."""
    return lacks("the figures stayed")(place, answer)


def attempts() -> Iterator[Attempt]:
    """Kinds 28 to 41."""
    for kind, what, spoil in _CHECKED:
        harm = no_harm
        yield Attempt(kind, FAMILY, f"check, {what}", on_data("check D", spoil), harm=harm, quick=kind in _QUICK)
    for kind, what, words, spoil, expected in _OTHERS:
        yield Attempt(kind, FAMILY, what, on_data(words, spoil), expected)
    for kind, what, garbage in (("40", "features of zeros", False), ("41", "features that are garbage", True)):
        made = _poison(garbage)
        yield Attempt(kind, FAMILY, f"evaluate, {what} in D", made, "accepted", harm=figures_changed, limit_s=90)


def _poison(garbage: bool) -> Callable[[Place], Command]:
    return lambda place: _poisoned(place, garbage=garbage)
