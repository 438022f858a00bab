"""Hostile MetaSchedule databases for import, doctor and merge (kind 126)."""

from __future__ import annotations

import base64
import json
import os
import pickle
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from scripts.bench.common.data import DEVICE
from scripts.bench.security.attempt import Attempt, Expected, lacks, no_harm, writes
from scripts.bench.security.exchange.logs import FAMILY, seen
from scripts.bench.security.imports import (
    CIRCLE,
    RECORDS,
    SOUND,
    WORKLOADS,
    bad_lines,
    database,
    workload_line,
)
from scripts.bench.security.models import RunsCode, deep
from scripts.bench.security.names import reaches_terminal
from scripts.bench.security.place import SECRET, Answer, Command, Place

SpoilDatabase = Callable[[Path, list[bytes], Place], list[bytes] | None]


def spoilt(place: Place, spoil: SpoilDatabase) -> Path:
    """A database that somebody has spoilt."""
    folder = place.folder / "db"
    lines = spoil(folder, database(folder, place.data()), place)
    if lines is not None:
        (folder / RECORDS).write_bytes(b"\n".join(lines) + b"\n")
    return folder


def on_database(words: str, spoil: SpoilDatabase) -> Callable[[Place], Command]:
    """Runs a verb on a spoilt database; DB is its folder, OUT a path that is free."""

    def make(place: Place) -> Command:
        names = {"DB": spoilt(place, spoil), "OUT": place.folder / "out", "DEVICE": DEVICE}
        return place.costhub(*(names.get(word, word) for word in words.split()), "--workers", 1)

    return make


IMPORT = "import metaschedule DB --device DEVICE --out OUT"
DOCTOR = "doctor DB --fix OUT"
MERGE = "merge DB --out OUT"
COVER = "doctor DB --no-replay --network bert_tiny"


def copy_lacks(place: Place, answer: Answer) -> str:
    """A harm: the clean copy does not hold just the good records."""
    path = place.folder / "out" / RECORDS
    count = len(path.read_text().splitlines()) if path.exists() else 0
    return f"the copy holds {count} records" if count != SOUND else reaches_terminal(place, answer)


def secret_changed(place: Place, answer: Answer) -> str:
    """A harm: the user's own file is another, is gone, or can be read somewhere."""
    if not place.secret.exists():
        return "the user's own file is gone"
    return "the user's own file was changed" if place.secret.read_bytes() != SECRET else seen(place, answer)


def harmed(place: Place, answer: Answer) -> str:
    """A harm: code of the database has run."""
    return writes("canary")(place, answer)


def with_record(good: bytes, **parts: Any) -> bytes:
    """A good record with other parts: `workload`, `trace`, `run_secs`, `target` or `arguments`."""
    workload, record = json.loads(good)
    for place, name in enumerate(("trace", "run_secs", "target", "arguments")):
        record[place] = parts.get(name, record[place])
    return json.dumps([parts.get("workload", workload), record]).encode()


@cache
def calling_module() -> str:
    """A workload that calls the system, and a function of TVM by its name."""
    import tvm
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            with T.sblock("b"):
                v = T.axis.spatial(64, i)
                T.evaluate(T.call_extern("int32", "system", "touch CANARY"))
                T.evaluate(T.call_packed("ffi.Module.load_from_file.so", "CANARY.so", "so"))
                b[v] = a[v] * T.float32(2)

    return str(tvm.ir.save_json(tvm.IRModule({"main": function.with_attr("global_symbol", "main")})))


@cache
def calling_layout() -> str:
    """A schedule of softmax.64x1000, as JSON, that pads a layout with what a call of the system returns."""
    import tvm
    from tvm import tirx

    from costhub.collector.workloads.suites import find_workload
    from costhub.dataset.trace import trace_to_json

    def called(*_: Any) -> Any:
        return tirx.call_extern("float32", "system", "touch CANARY")

    schedule = tvm.s_tir.Schedule(find_workload("softmax.64x1000").module())
    block = schedule.get_sblock("T_softmax_exp")
    schedule.transform_layout(block, ("write", 0), lambda i, j: (i, j // 16, j % 16), pad_value=called)
    return trace_to_json(schedule.trace)


def with_calling_layout(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """The fastest record of all has such a schedule."""
    del folder
    trace = json.loads(calling_layout().replace("CANARY", str(place.canary)))
    return [*lines, with_record(lines[0], trace=trace, run_secs=[1e-9])]


def _calls(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """A second workload that calls the system, with records that do little, or import code."""
    module = calling_module().replace("CANARY", str(place.canary))
    with (folder / WORKLOADS).open("ab") as file:
        file.write(workload_line(module.encode()) + b"\n")
    ir = f"define i32 @f() {{ ret i32 0 }} ; touch {place.canary}"
    annotated: list[Any] = [
        ["GetSBlock", [], ["b", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1"]],
        ["Annotate", ["l1", json.dumps(ir)], ["pragma_import_llvm"], []],
        ["Annotate", ["l1", json.dumps(f"int x; // {place.canary}")], ["pragma_import_c"], []],
    ]
    shapes = [["TENSOR", "float32", [64]]] * 2
    traces: tuple[list[Any], ...] = ([[], []], [annotated[:2], []], [annotated, []])
    return [*lines, *(with_record(lines[0], workload=1, trace=trace, arguments=shapes) for trace in traces)]


def _aimed(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """Traces that would make programs of 2^40 loops, name themselves, or never end."""
    del folder, place
    (instructions, _), *_ = json.loads(lines[0])[1]
    block = next(each for each in instructions if each[0] == "GetSBlock")
    name = block[3][0]
    loops: list[Any] = [block, ["GetLoops", [name], [], ["l1", "l9"]]]
    tile = ["SamplePerfectTile", ["l1"], [2, 64], ["v2", "v3"]]
    traces: list[Any] = [
        [[*loops, ["Split", ["l1", 1 << 40, 1 << 40], [True, True], ["l2", "l3"]]], []],
        [[*loops, tile, ["Split", ["l1", "v2", "v3"], [True, True], ["l4", "l5"]]], [[2, [1 << 40, 1 << 40]]]],
        [[*loops, tile], [[2, [1 << 62, 1 << 62]]]],
        [[*loops, tile], [[2, [-1, 0]]]],
        [[block, *(["AddUnitLoop", [name], [], [f"l{n}"]] for n in range(20_000))], []],
        [[*loops, *(["Annotate", ["l1", n], [f"a{n}"], []] for n in range(50_000))], []],
        [[["GetLoops", ["b9"], [], ["l1"]], ["GetSBlock", [], ["b9", "main"], ["l1"]]], []],
        [[["Fuse", ["l1", "l1"], [True], ["l1"]]], []],
        [[*loops, ["Reorder", ["l1"] * 10_000, [], []]], []],
        [[block, ["SampleCategorical", [], [list(range(10**5)), [1e-5] * 10**5], ["v1"]]], [[1, 10**9]]],
        [[block, ["SampleComputeLocation", [name], [], ["l1"]]], [[1, -(10**9)]]],
        [[block, ["SampleComputeLocation", [name], [], ["l1"]]], [[1, 10**9]]],
        [[*loops, ["Annotate", ["l1", 1 << 62], ["pragma_auto_unroll_max_step"], []], ["Unroll", ["l1"], [], []]], []],
        [[block] * 50_000, []],
        [[["EnterPostproc", [], [], []]] * 1000, []],
    ]
    return [*(with_record(lines[0], trace=trace) for trace in traces), *lines]


def _old_graphs(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """Further workloads in the form of old TVM: circles, chains, and a sum of 2^60 parts in sixty nodes."""
    del place

    def add(number: int, a: int, b: int) -> dict[str, Any]:
        return {"type_key": "tir.Add", "attrs": {"a": str(a), "b": str(b), "dtype": "int32", "span": "0"}}

    def graph(nodes: list[Any]) -> bytes:
        return json.dumps({"root": len(nodes), "nodes": [{"type_key": ""}, *nodes], "b64ndarrays": []}).encode()

    number = {"type_key": "IntImm", "attrs": {"dtype": "int32", "value": "1", "span": "0"}}
    wide = [number, *(add(n, n - 1, n - 1) for n in range(2, 62))]
    chain = [number, *(add(n, n - 1, 1) for n in range(2, 100_000))]
    modules = [graph(wide), graph(chain), graph([add(1, 1, 1)]), CIRCLE.encode(), deep(100_000).encode()]
    modules += [b'{"root": 1, "nodes": []}', b'{"root": -1, "nodes": [{}]}', b'{"root": 10, "nodes": 7}', b"\0" * 99]
    with (folder / WORKLOADS).open("ab") as file:
        file.writelines(workload_line(module) + b"\n" for module in modules)
    return lines


def _vast_sum(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """A sum of 2^60 parts, as a node of today's graph that names one node twice, sixty times."""
    del place
    module = json.loads(calling_module())
    nodes = module["nodes"]
    place_of = next(n for n, node in enumerate(nodes) if node.get("type", "").endswith("Mul"))
    for _ in range(60):
        data = nodes[place_of]["data"]
        nodes.append({"type": nodes[place_of]["type"], "data": dict(data)})
        data["a"] = data["b"] = len(nodes) - 1
        place_of = len(nodes) - 1
    with (folder / WORKLOADS).open("ab") as file:
        file.write(workload_line(json.dumps(module).encode()) + b"\n")
    return lines


def _mixed(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
    del folder, place
    return [*bad_lines(lines[0]), *lines]


def _targets(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """Each record for a target of its own; some of them say what a terminal would obey."""
    del folder, place
    target = json.loads(lines[0])[1][2]
    odd = ["\x1b]0;owned\x07", "\u202e", "x" * 10**5, {"kind": "llvm", "mcpu": "\x1b[2J"}, {"kind": "\x1b[2J"}, [], 7]
    more = [target | {"num-cores": count} for count in range(3, 2000)]
    return [*lines, *(with_record(lines[0], target=each) for each in (*odd, *more))]


def _all_for(**more: Any) -> SpoilDatabase:
    """Each record for one other target."""

    def spoil(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
        del folder, place
        return [with_record(line, target={**json.loads(line)[1][2], **more}) for line in lines]

    return spoil


def _many(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """More workloads than any search has, none of which can be read."""
    del place
    with (folder / WORKLOADS).open("ab") as file:
        file.write(b'["1","x"]\n' * 120_000)
    return lines


def _copies(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """1,000 copies of a workload, each of which needs a name of its own, and a record of each twentieth."""
    del place
    line = (folder / WORKLOADS).read_bytes()
    with (folder / WORKLOADS).open("ab") as file:
        file.write(line * 1000)
    return [*lines, *(with_record(lines[0], workload=number) for number in range(1, 1000, 20))]


_ODD_TVM = "0.18\x1b[2J"


def _odd_version(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """A workload of a TVM whose version a terminal obeys."""
    del place
    module = json.loads(base64.b64decode(json.loads((folder / WORKLOADS).read_bytes())[1])[8:])
    module["metadata"]["tvm_version"] = _ODD_TVM
    (folder / WORKLOADS).write_bytes(workload_line(json.dumps(module).encode()) + b"\n")
    return lines


def keeps_version(place: Place, answer: Answer) -> str:
    """A harm: the copy says so, and cannot be read for it, or the terminal gets it."""
    found = [path for path in (place.folder / "out").glob("*.json") if json.dumps(_ODD_TVM)[1:-1] in path.read_text()]
    return f"{found[0].name} holds the version" if found else reaches_terminal(place, answer)


def _filled(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """What the merged database would be called is a link to the user's own file."""
    del folder
    out = place.folder / "out"
    out.mkdir()
    for name in (WORKLOADS, RECORDS):
        (out / name).symlink_to(place.secret)
    return lines


def _link_to_nowhere(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """The folder that is to be made is a link to a folder of the user's that is not there yet."""
    del folder
    (place.folder / "out").symlink_to(place.folder / "home" / "made")
    return lines


def _pickles(folder: Path, lines: list[bytes], place: Place) -> None:
    del lines
    for name in (WORKLOADS, RECORDS):
        (folder / name).write_bytes(pickle.dumps(RunsCode(place.canary)))


def _linked(folder: Path, lines: list[bytes], place: Place) -> None:
    del lines
    for name in (WORKLOADS, RECORDS):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(place.secret)


def _origin(content: bytes | None) -> SpoilDatabase:
    """The file that says which TVM measured; None for a named pipe."""

    def spoil(folder: Path, lines: list[bytes], place: Place) -> list[bytes]:
        del place
        path = folder / "costhub_origin.json"
        if content is None:
            os.mkfifo(path)
        else:
            path.write_bytes(content)
        return lines

    return spoil


_four = lacks(f"{SOUND} measurements of")
_those_that_replay = lacks(f"{SOUND + 2} measurements of")
"""Few annotations, and a choice or a place that is not there, do no harm."""
Harm = Callable[[Place, Answer], str]
_TRIED: tuple[tuple[str, str, str, SpoilDatabase, Expected, Harm], ...] = (
    ("126a", "doctor --fix, eighteen kinds of bad lines", DOCTOR, _mixed, "refused", copy_lacks),
    ("126b", "doctor --fix, a workload that calls the system", DOCTOR, _calls, "either", harmed),
    ("126c", "import, a workload that calls the system", IMPORT, _calls, "either", harmed),
    ("126d", "merge, a workload that calls the system", MERGE, _calls, "either", harmed),
    ("126e", "doctor --fix, traces of 2^40 loops or about themselves", DOCTOR, _aimed, "refused", no_harm),
    ("126f", "import, traces of 2^40 loops or about themselves", IMPORT, _aimed, "accepted", _those_that_replay),
    ("126g", "import, circles and a sum of 2^60 parts of old TVM", IMPORT, _old_graphs, "accepted", _four),
    ("126h", "import, a sum of 2^60 parts", IMPORT, _vast_sum, "accepted", _four),
    ("126i", "doctor, 2,000 targets, some for a terminal", "doctor DB", _targets, "either", reaches_terminal),
    ("126j", "doctor, pickles under the names of the files", "doctor DB", _pickles, "refused", harmed),
    ("126k", "doctor, links to the user's own file", "doctor DB", _linked, "refused", seen),
    ("126l", "import, links to the user's own file", IMPORT, _linked, "refused", seen),
    ("126m", "import, costhub_origin.json is a named pipe", IMPORT, _origin(None), "refused", no_harm),
    ("126n", "doctor, costhub_origin.json is a named pipe", "doctor DB", _origin(None), "either", no_harm),
    ("126o", "doctor, costhub_origin.json nested 100,000 deep", "doctor DB", _origin(deep(10**5).encode()), "either",
     no_harm),
    ("126p", "doctor --network, records for a machine on which LLVM crashes", COVER,
     _all_for(mtriple="../../x-linux-gnu"), "refused", no_harm),
    ("126q", "doctor --network, records for a CPU whose name a terminal obeys", COVER, _all_for(mcpu="\x1b[2J"),
     "either", reaches_terminal),
    ("126r", "doctor, 120,000 workloads that cannot be read", "doctor DB", _many, "refused", no_harm),
    ("126s", "doctor, targets of 100 kB", "doctor DB", _all_for(mcpu="x" * 10**5), "refused", no_harm),
    ("126t", "doctor --fix, a TVM whose version a terminal obeys", DOCTOR, _odd_version, "accepted", keeps_version),
    ("126u", "merge, 1,000 copies of a workload", MERGE, _copies, "accepted", reaches_terminal),
    ("126v", "merge, into a folder of links to the user's own file", MERGE, _filled, "refused", secret_changed),
    ("126w", "merge, into a link to a folder that is not there", MERGE, _link_to_nowhere, "either",
     writes("home/made/costhub_origin.json")),
    ("126x", "merge, eighteen kinds of bad lines", MERGE, _mixed, "either", copy_lacks),
    ("126y", "merge, costhub_origin.json is a named pipe", MERGE, _origin(None), "either", no_harm),
    ("126z", "doctor --fix, a layout whose padding calls the system", DOCTOR, with_calling_layout, "refused", harmed),
    ("126aa", "import, a layout whose padding calls the system", IMPORT, with_calling_layout, "accepted", _four),
)  # fmt: skip


def attempts() -> Iterator[Attempt]:
    """Kind 126."""
    for kind, what, words, spoil, expected, harm in _TRIED:
        yield Attempt(kind, FAMILY, what, on_database(words, spoil), expected, harm=harm,
                      limit_s=400 if kind == "126h" else 180, quick=kind == "126j")  # fmt: skip
