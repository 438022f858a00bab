"""New kinds (106 to 112): tables, journals, splits, names, traces and modules that nobody had tried."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from scripts.bench.common.data import DEVICE
from scripts.bench.security import shards
from scripts.bench.security.attempt import Attempt, Expected
from scripts.bench.security.data import ESCAPES, EVALUATE, SpoilData, on_data
from scripts.bench.security.imports import imported, workload_line
from scripts.bench.security.names import dataset_card, in_file, named, reaches_terminal
from scripts.bench.security.place import Command, Place

FAMILY = "new: data"
GIGABYTE = 1 << 30


def _table(make: Callable[[int], Any], name: str = "error", **options: Any) -> SpoilData:
    def spoil(folder: Path) -> None:
        table = shards.with_column(folder, name, make)
        shards.write_table(shards.shard(folder), table, **({"compression": "zstd"} | options))

    return spoil


def _dictionary_bomb(rows: int) -> Any:
    """One text of 60 MB, which every row names: the footer counts it once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * (60 << 20)]))


def _nested(rows: int) -> Any:
    kind: Any = pa.int32()
    for _ in range(200):
        kind = pa.list_(kind)
    return pa.nulls(rows, kind)


def _big_dictionary(folder: Path) -> None:
    """Written without Arrow's own schema, so that a reader takes the column for plain texts."""
    table = shards.with_column(folder, "error", _dictionary_bomb)
    shards.write_table(shards.shard(folder), table, compression="zstd", store_schema=False, use_dictionary=["error"],
                       dictionary_pagesize_limit=1 << 30, write_statistics=False)  # fmt: skip


def _row_groups(folder: Path) -> None:
    """200,000 row groups of no rows."""
    import pyarrow.parquet as pq

    from costhub.dataset.shards.shard import BLANK_SEAL, SEAL_KEY, write_seal

    path = shards.shard(folder)
    table = pq.ParquetFile(path).read()
    with pq.ParquetWriter(path, table.schema, compression="none", write_statistics=False) as writer:
        writer.write_table(table)
        for _ in range(4000):
            writer.write_table(table.slice(0, 1))
        writer.add_key_value_metadata({SEAL_KEY: BLANK_SEAL})
    write_seal(path)


def _statistics(folder: Path) -> None:
    """Statistics with a smallest and a largest text of 8 MB in each of four places."""
    shards.change(folder, "workloads", name="x" * (8 << 20), operator="y" * (8 << 20))


def _encrypted_magic(folder: Path) -> None:
    path = shards.shard(folder)
    content = path.read_bytes()
    path.write_bytes(b"PARE" + content[4:-4] + b"PARE")


def _journal_of(size: int, end: bytes = b"\n") -> SpoilData:
    """A journal of holes, whose one line is so long."""

    def spoil(folder: Path) -> None:
        path = shards.journal(folder, b"")
        with path.open("wb") as file:
            file.truncate(size)
            file.seek(0, os.SEEK_END)
            file.write(end)

    return spoil


def _journal_rows(*changes: dict[str, Any]) -> SpoilData:
    return lambda folder: shards.journal(folder, b"".join(shards.journal_row(folder, **each) for each in changes))


def _split(**values: Any) -> SpoilData:
    return lambda folder: shards.split(folder, "a", json.dumps(shards.split_content(folder, **values)))


def _split_text(change: Callable[[str], str]) -> SpoilData:
    return lambda folder: shards.split(folder, "a", change(json.dumps(shards.split_content(folder))))


def _folders(name: str) -> SpoilData:
    """A device and a split whose names a terminal would obey."""

    def spoil(folder: Path) -> None:
        shards.split(folder, name, json.dumps(shards.split_content(folder)))
        device = folder / "measurements" / name
        device.mkdir()
        (device / shards.SHARD).write_bytes(shards.shard(folder).read_bytes())

    return spoil


def _int96(folder: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.ParquetFile(shards.shard(folder)).read()
    shards.write_table(shards.shard(folder), table, use_deprecated_int96_timestamps=True)


def _same_record(folder: Path) -> None:
    row = shards.read(folder)[0]
    shards.journal(folder, shards.journal_row(folder, record_id=row["record_id"], run_s=[1e-9]))


_PARQUET: tuple[tuple[str, str, SpoilData], ...] = (
    ("106a", "a text of 60 MB that 48 rows name by a dictionary", _big_dictionary),
    ("106b", "lists nested 200 deep", _table(_nested)),
    ("106c", "a column of another logical type", _table(lambda rows: pa.nulls(rows, pa.decimal128(30, 3)))),
    ("106d", "times in the form of 1996 (int96)", _int96),
    ("106e", "4,000 row groups of one row", _row_groups),
    ("106f", "names of 8 MB, with their statistics", _statistics),
    ("106g", "the magic of an encrypted file", _encrypted_magic),
    ("106h", "a journal line of 1 GB", _journal_of(GIGABYTE)),
    ("106i", "half a journal line of 3 GB", _journal_of(3 * GIGABYTE, b"")),
    ("106j", "journal lines with NaN, Infinity and -1 s", _journal_rows({"run_s": [float("nan")]}, {"run_s": [-1.0]})),
    ("106k", "a journal line with a key twice", lambda f: shards.journal(f, _key_twice(f))),
    ("106l", "a journal line with half a letter", lambda f: shards.journal(f, _half_letter(f))),
    ("106m", "a journal row of the year 10,000", _journal_rows({"timestamp": "9999-12-31T23:59:59.999999+00:00"})),
    ("106n", "a journal row with a shard's record id", _same_record),
)


def _key_twice(folder: Path) -> bytes:
    return shards.journal_row(folder).replace(b"{", b'{"status": "run_error",', 1)


def _half_letter(folder: Path) -> bytes:
    return shards.journal_row(folder, session="x").replace(b'"x"', b'"\\ud800"')


def _sparse_split(folder: Path) -> None:
    path = shards.split(folder, "a", b"")
    with path.open("wb") as file:
        file.truncate(2 * GIGABYTE)


_SPLITS: tuple[tuple[str, str, str, SpoilData, Expected], ...] = (
    ("107a", "split D, a split of 10^6 workloads that are not there", "split D",
     _split(train=["a" * 60] * 10**6), "either"),
    ("107b", "evaluate, a split of 10^6 workloads that are not there", f"{EVALUATE} --split a",
     _split(test=[f"{n:064d}" for n in range(10**6)]), "refused"),
    ("107c", "evaluate, a split with a key twice", f"{EVALUATE} --split a",
     _split_text(lambda t: t.replace("{", '{"test": [],', 1)), "either"),
    ("107d", "evaluate, a split with NaN as its seed", f"{EVALUATE} --split a",
     _split_text(lambda t: t.replace('"seed": 0', '"seed": NaN')), "refused"),
    ("107e", "evaluate, a split with half a letter", f"{EVALUATE} --split a",
     _split_text(lambda t: t.replace('"name": "a"', '"name": "\\ud800"')), "either"),
    ("107f", "split D, a split of 2 GB", "split D", _sparse_split, "either"),
    ("107g", "split D, names that a terminal obeys", "split D", _folders(ESCAPES), "either"),
    ("107h", "stats D, names that a terminal obeys", "stats D", _folders(ESCAPES), "either"),
    ("107i", "check D, names that a terminal obeys", "check D", _folders(ESCAPES), "refused"),
    ("107j", "evaluate --split ../../home/secret", f"{EVALUATE} --split ../../home/secret", lambda f: None, "refused"),
)  # fmt: skip


SLOW_TEXTS: tuple[tuple[str, str], ...] = (
    ("a million letters", "a" * 10**6),
    ("a million dots and ones", "1." * 500_000),
    ("a million signs of addresses", "a@" * 500_000),
    ("a million letters before one sign", "a." * 500_000 + "@"),
    ("a million colons", ":" * 10**6),
    ("a million slashes", "/home/" * 170_000),
    ("a million dashes and dots", "-." * 500_000),
)
"""Each would keep a pattern that looks back from every letter busy for hours."""


def _plotted(operator: str) -> SpoilData:
    return lambda folder: shards.change(folder, "workloads", rows=2, operator=operator, name=operator)


def _normal(folder: Path) -> None:
    rows = shards.read(folder, "workloads")
    for row, name in zip(rows, ("caf\u00e9", "cafe\u0301"), strict=True):
        row["name"] = name
    shards.write(folder, rows, "workloads")


_NAMES: tuple[tuple[str, str, str, SpoilData, Expected], ...] = (
    ("109a", "stats --plot, an operator that is half a formula", "stats D --plot OUT", _plotted("$\\frac{$"), "either"),
    ("109b", "stats --page, an operator that is half a formula", "stats D --page OUT", _plotted("$\\frac{$"), "either"),
    ("109c", "stats --plot, a name of a million letters", "stats D --plot OUT", _plotted("x" * 10**6), "either"),
    ("109d", "stats, a name of a million letters", "stats D", named("x" * 10**6), "either"),
    ("109e", "stats --json, names with escapes", "stats D --json", named(ESCAPES), "either"),
    ("109f", "check, a workload whose name looks like another's", "check D", named("s\u043eftmax.64x1000"), "either"),
    ("109g", "check, a name that turns the text around", "check D", named("\u202egpj.exe"), "refused"),
    ("109h", "check, two names that are one in another normal form", "check D", _normal, "either"),
    ("109i", "export, names with paths and line breaks", "export metaschedule D --device DEVICE --out OUT",
     named("../../../home/x\n[]"), "either"),
)  # fmt: skip


def _decided(value: Any) -> SpoilData:
    """Puts a number in the place of every number that a trace has decided."""

    def spoil(folder: Path) -> None:
        rows = shards.read(folder)
        for row in rows:
            instructions, decisions = json.loads(row["trace"])
            for decision in decisions:
                decision[1] = [value] * len(decision[1]) if isinstance(decision[1], list) else value
            row["trace"] = json.dumps([instructions, decisions])
        shards.write(folder, rows)

    return spoil


def _unrolled(folder: Path) -> None:
    """Asks TVM to unroll and to vectorise without end."""
    rows = shards.read(folder)
    for row in rows:
        instructions, decisions = json.loads(row["trace"])
        blocks = [i[3][0] for i in instructions if i[0] == "GetSBlock"]
        more = [
            ["Annotate", [blocks[0], 1 << 40], [key], []]
            for key in ("meta_schedule.unroll_explicit", "meta_schedule.vectorize", "meta_schedule.parallel")
        ]
        at = next((n for n, i in enumerate(instructions) if i[0] == "EnterPostproc"), len(instructions))
        row["trace"] = json.dumps([instructions[:at] + more + instructions[at:], decisions])
    shards.write(folder, rows)


def _module(change: Callable[[dict[str, Any]], object]) -> SpoilData:
    def spoil(folder: Path) -> None:
        rows = shards.read(folder, "workloads")
        for row in rows:
            graph = json.loads(row["module_json"])
            change(graph)
            row["module_json"] = json.dumps(graph)
        shards.write(folder, rows, "workloads")

    return spoil


def _circle(graph: dict[str, Any]) -> None:
    for node in graph["nodes"]:
        if node["type"] == "ffi.Array" and node["data"]:
            node["data"][0] = graph["nodes"].index(node)
            return


def _endless_loops(graph: dict[str, Any]) -> None:
    for node in graph["nodes"]:
        if node["type"] == "int" and node["data"] in (64, 1000):
            node["data"] = (1 << 62) - 1


def _nested_lets(graph: dict[str, Any]) -> None:
    """Arrays within arrays, 200,000 deep, hanging from the first one."""
    nodes, count = graph["nodes"], len(graph["nodes"])
    nodes += [{"type": "ffi.Array", "data": [count + n + 1]} for n in range(200_000)] + [{"type": "None"}]
    next(node for node in nodes if node["type"] == "ffi.Array" and node["data"])["data"][0] = count


_TRACES: tuple[tuple[str, str, SpoilData], ...] = (
    ("110a", "tiles of 2^62", _decided(1 << 62)),
    ("110b", "tiles of 0", _decided(0)),
    ("110c", "tiles of -1", _decided(-1)),
    ("110d", "loops unrolled and vectorised without end", _unrolled),
    ("110e", "a module whose nodes name one another in a circle", _module(_circle)),
    ("110f", "loops of 2^62 rounds", _module(_endless_loops)),
    ("110g", "a module nested 200,000 deep", _module(_nested_lets)),
)


def _latencies(value: float) -> SpoilData:
    return lambda folder: shards.change(folder, rows=24, run_s=[value])


_TRAINED: tuple[tuple[str, str, SpoilData], ...] = (
    ("111a", "latencies of 0", _latencies(0.0)),
    ("111b", "latencies of 1e-320 s", _latencies(1e-320)),
    ("111c", "latencies of -1 s", _latencies(-1.0)),
    ("111d", "latencies of NaN", _latencies(float("nan"))),
    ("111e", "latencies of 1e300 s", _latencies(1e300)),
)
_TRAIN = "train --data D --arch mlp --option epochs=2 --out OUT"

_MARKDOWN: tuple[tuple[str, str], ...] = (
    ("100,000 opened brackets", "[" * 100_000),
    ("50,000 opened pictures", "![" * 50_000),
    ("60,000 mixed emphases", "*a **a " * 30_000),
    ("80,000 back quotes of growing length", " ".join("`" * n for n in range(1, 400))),
    ("30,000 nested quotes", "> " * 30_000 + "x"),
    ("20,000 nested lists", "\n".join("  " * n + "- x" for n in range(400))),
    ("20,000 references", "\n".join(f"[{n}]: /x" for n in range(10_000)) + "[0]" * 10_000),
    ("60,000 less-than signs", "<" * 60_000),
    ("40,000 entities", "&amp" * 40_000),
    ("a table of 2,000 columns", "|".join("a" * 2000) + "\n" + "|".join(["-"] * 2000) + "\n" + "|".join("b" * 2000)),
    ("60,000 opened autolinks", "<a:" * 40_000),
    ("an html comment that never ends, often", "<!--" * 20_000),
)
_BLOCKS: tuple[tuple[str, str], ...] = (
    ("a key twice", "license: mit\nlicense: apache-2.0"),
    ("a merge key", "a: {b: 1}\n<<: {license: mit}"),
    ("a key that is a list", "? [a, b]\n: c"),
    ("40,000 nested lists", "a: " + "- " * 40_000 + "x"),
    ("an anchor", "a: &x 1"),
    ("half a letter", 'a: "\\ud800"'),
    ("a second document", "a: 1\n...\n---\nb: 2"),
)


def _no_workloads(folder: Path, lines: list[bytes]) -> list[bytes]:
    (folder / "database_workload.json").write_bytes(workload_line(b"[]", size=1 << 62) + b"\n")
    return lines


def _zero_link(folder: Path, lines: list[bytes]) -> None:
    del lines
    (folder / "database_tuning_record.json").symlink_to("/dev/zero")


_IMPORTED: tuple[tuple[str, str, Callable[[Place], Command], Expected], ...] = (
    ("108a", "import, a workload that says it has 2^62 bytes", imported(_no_workloads), "refused"),
    ("108b", "import, records that are a link to /dev/zero", imported(_zero_link), "refused"),
    ("108c", "import --names /dev/zero", imported(lambda f, lines: lines, "--names", "/dev/zero"), "refused"),
    ("108d", "import --contributor with escapes", imported(lambda f, lines: lines, "--contributor", ESCAPES), "either"),
)


def attempts() -> Iterator[Attempt]:
    """Kinds 106 to 112."""
    for kind, what, spoil in _PARQUET:
        expected: Expected = "either" if kind in ("106e", "106i", "106k", "106m", "106n") else "refused"
        quick = kind == "106a"
        yield Attempt(f"{kind}-check", FAMILY, f"check, {what}", on_data("check D", spoil), expected, quick=quick)
        yield Attempt(f"{kind}-stats", FAMILY, f"stats, {what}", on_data("stats D", spoil), "either")
    for kind, what, words, spoil, expected in _SPLITS:
        yield Attempt(kind, FAMILY, what, on_data(words, spoil), expected, harm=reaches_terminal, quick=kind == "107g")
    for kind, what, made, expected in _IMPORTED:
        yield Attempt(kind, FAMILY, what, made, expected, harm=reaches_terminal, limit_s=60)
    for letter, (what, text) in zip("jklmnop", SLOW_TEXTS, strict=True):
        yield Attempt(
            f"109{letter}", FAMILY, f"check, {what} as a session's name", on_data("check D", _session(text)), "either"
        )
    for kind, what, words, spoil, expected in _NAMES:
        made = on_data(words.replace("DEVICE", DEVICE), spoil)
        yield Attempt(kind, FAMILY, what, made, expected, harm=reaches_terminal, limit_s=60, quick=kind == "109a")
    for kind, what, spoil in _TRACES:
        yield Attempt(f"{kind}-check", FAMILY, f"check --deep, {what}", on_data("check --deep D", spoil), limit_s=60)
        yield Attempt(f"{kind}-evaluate", FAMILY, f"evaluate, {what}", on_data(EVALUATE, spoil), "either", limit_s=90)
    for kind, what, spoil in _TRAINED:
        yield Attempt(
            kind, FAMILY, f"train, {what}", on_data(_TRAIN, spoil), "either", limit_s=90, harm=in_file("NaN", "out")
        )
    for letter, (what, text) in zip("abcdefghijkl", _MARKDOWN, strict=True):
        yield Attempt(f"112{letter}", FAMILY, f"publish, a dataset's card of {what}", dataset_card(text), "either")
    for letter, (what, block) in zip("mnopqrs", _BLOCKS, strict=True):
        made = dataset_card("", block)
        yield Attempt(f"112{letter}", FAMILY, f"publish, a dataset's card whose block has {what}", made, "either")


def _session(text: str) -> SpoilData:
    return lambda folder: shards.change(folder, session=text, board=text)
