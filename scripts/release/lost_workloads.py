"""Rebuilds the workload file that a MetaSchedule database has lost, from its records' argument shapes and block names.

`python -m scripts.release lost-workloads RECORDS --template FILE --log output.txt --out DIR` writes DIR, which
`costhub import metaschedule` takes. `fused_operators` writes a workload, and it is kept if

- the same code writes letter for letter every template of the same blocks: modules of other networks by the same TVM,
- it has as many floating-point operations as the log of the tuning says,
- its traces replay with the decisions and the post-processing that they were recorded with. That they replay is not
  enough: TVM fits tiles of another extent silently.
"""

from __future__ import annotations

import base64
import gzip
import json
import lzma
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import tvm

from costhub.dataset.metaschedule.import_pool import ImportPool, ReplayedTrace, ReplayedTraces
from costhub.dataset.metaschedule.lines import RECORDS_FILE, WORKLOADS_FILE, Arguments, parse_record, read_lines
from costhub.dataset.metaschedule.translate import read_workload
from costhub.dataset.operator_class import classify
from costhub.dataset.trace import before_postproc
from costhub.dataset.workload import argument_shapes, count_flop, module_to_json
from costhub.errors import DataError
from scripts.bench.common import machine, options
from scripts.release.fused_operators import Blocks, candidates

MOST_LINE_BYTES = 8 << 20
LEAST_REPLAYED = 0.95
"""The share of a workload's traces that must replay as they were recorded."""
UNSEEN = frozenset({"data_pad", "input_tile", "A", "B"})
"""Blocks that the rules of MetaSchedule leave alone, so that no trace looks them up."""

_TRACES_PER_CALL = 64
_OPENERS: dict[str, Any] = {".xz": lzma.open, ".gz": gzip.open}
_LOG_LINE = re.compile(r"^ *(\d+) \| +(\w+) \| +(\d+) \| +(\d+) \|", re.MULTILINE)


@dataclass
class LostWorkload:
    """What the records say about a workload."""

    number: int
    arguments: set[Arguments] = field(default_factory=set)
    blocks: set[Blocks] = field(default_factory=set)
    records: int = 0
    traces: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    """Target -> its different traces."""


@dataclass(frozen=True)
class LoggedTask:
    """What the log of the tuning says about a workload."""

    name: str
    flop: float
    weight: float


@dataclass
class RebuiltWorkload:
    """What became of a workload."""

    number: int
    name: str
    operator: str
    records: int
    traces: int
    same: int = 0
    """Traces that replay with their own decisions and post-processing."""
    fitted: int = 0
    """Traces that replay, but with other decisions."""
    why: str = ""
    """Why it is left out; empty where it is kept."""


def read_lost(records: Path) -> list[LostWorkload]:
    """The workloads that the records name, by their numbers."""
    found: dict[int, LostWorkload] = {}
    for line in read_lines(records, most_bytes=MOST_LINE_BYTES):
        try:
            record = parse_record(line.text)
        except DataError:
            continue
        lost = found.setdefault(record.workload, LostWorkload(record.workload))
        lost.records += 1
        lost.blocks.add(block_names(record.trace))
        lost.traces[record.target][record.trace] = None
        if record.arguments is not None:
            lost.arguments.add(record.arguments)
    return [found[number] for number in sorted(found)]


def block_names(trace: str) -> Blocks:
    """The blocks that a recorded trace looks up before its post-processing, without the root.

    Example:
        >>> block_names('[[["GetBlock",[],["C","main"],["b0"]],["GetBlock",[],["root","main"],["b1"]]],[]]')
        frozenset({'C'})
    """
    instructions, _ = json.loads(trace)
    looked_up = [i for i in instructions[: before_postproc(instructions)] if i[0] in ("GetBlock", "GetSBlock")]
    return frozenset(str(attributes[0]) for _, _, attributes, _ in looked_up) - {"root"}


def read_log(path: Path) -> dict[int, LoggedTask]:
    """The tasks in the first table of a tuning log, by their numbers."""
    tasks: dict[int, LoggedTask] = {}
    for number, name, flop, weight in _LOG_LINE.findall(path.read_text(encoding="utf-8")):
        tasks.setdefault(int(number), LoggedTask(name, float(flop), float(weight)))
    return tasks


def written_templates(files: Sequence[Path]) -> Counter[tuple[Blocks, bool]]:
    """How many modules of each set of blocks are written letter for letter, and how many are not.

    Raises:
        WorkloadError: A file cannot be read.
    """
    counts: Counter[tuple[Blocks, bool]] = Counter()
    for file in files:
        with _OPENERS.get(file.suffix, open)(file, "rb") as lines:
            for line in lines:
                mod, _ = read_workload(line)
                texts = candidates(_blocks(mod), [shape for _, shape in argument_shapes(mod)])
                if texts:
                    counts[_blocks(mod), _script(mod) in [_script(parsed(text)) for text in texts]] += 1
    return counts


def parsed(text: str) -> Any:
    """The module that a TVMScript of ours is."""
    return tvm.script.from_source(text)


def _script(mod: Any) -> str:
    return str(mod.script(show_meta=False))


def _blocks(mod: Any) -> Blocks:
    schedule = tvm.s_tir.Schedule(mod)
    children = schedule.get_child_blocks(schedule.get_sblock("root"))
    return frozenset(str(schedule.get(block).name_hint) for block in children) - UNSEEN


def rebuild(lost: LostWorkload, task: LoggedTask, templates: Counter[tuple[Blocks, bool]]) -> list[Any] | str:
    """The modules that the workload may be, or why there is none."""
    if len(lost.blocks) != 1 or len(lost.arguments) != 1:
        return "its records differ in blocks or arguments"
    (blocks,), (arguments,) = lost.blocks, lost.arguments
    if any(dtype != "float32" for dtype, _ in arguments):
        return "its arguments are not all float32"
    if not templates[blocks, True] or templates[blocks, False]:
        return "no network of the same TVM has its blocks to compare with"
    mods = [parsed(text) for text in candidates(blocks, [shape for _, shape in arguments])]
    # TVM counts one operation where there is none.
    fitting = [mod for mod in mods if max(count_flop(mod), 1.0) == task.flop]
    return fitting or "no module of its blocks and shapes has the operations that the log counts"


def choose(found: dict[int, list[Any]]) -> dict[int, Any]:
    """One module each; where padding is told by nothing else, pools round as the other pools of the network do."""
    only = [mods[0] for mods in found.values() if len(mods) == 1]
    rounds_up = any(_rounds_up(mod) for mod in only)
    return {
        number: next((mod for mod in mods if _rounds_up(mod) == rounds_up), mods[0]) if len(mods) > 1 else mods[0]
        for number, mods in found.items()
    }


def _rounds_up(mod: Any) -> bool:
    """Whether a pool's window may reach beyond the margin on one side only, as `ceil_mode` has it."""
    (_, data), *_ = argument_shapes(mod)
    padded = [buffer for buffer in mod["main"].body.block.alloc_buffers if str(buffer.name) == "pad_temp"]
    return any((int(buffer.shape[2]) - data[2]) % 2 == 1 for buffer in padded)


def replayed(mod: Any, lost: LostWorkload, pool: ImportPool) -> Iterator[tuple[str, ReplayedTrace | str]]:
    """Each trace of a workload, and what became of it."""
    text = module_to_json(mod)
    calls = [
        (text, target, tuple(list(traces)[i : i + _TRACES_PER_CALL]))
        for target, traces in lost.traces.items()
        for i in range(0, len(traces), _TRACES_PER_CALL)
    ]
    for (_, _, traces), reply in zip(calls, pool.replay(calls), strict=True):
        programs = reply.programs if isinstance(reply, ReplayedTraces) else (reply,) * len(traces)
        yield from zip(traces, programs, strict=True)


def is_same(trace: str, program: ReplayedTrace) -> bool:
    """Whether a trace replayed with the decisions and the post-processing that it was recorded with."""
    return not program.redone and _decisions(trace) == _decisions(program.trace)


def _decisions(trace: str) -> list[Any]:
    _, decisions = json.loads(trace)
    return sorted(decisions)


MEASURED_BY = "0.16.dev0"
"""The TVM that made the measured code, as it calls itself in the templates."""


def workload_line(mod: Any) -> str:
    """A line of database_workload.json; costhub does not use the hash in it.

    The importer takes the version of TVM that a module names for the one that measured, so it is not that of this TVM.
    """
    graph = json.loads(module_to_json(mod))
    graph["metadata"] = {**graph.get("metadata", {}), "tvm_version": MEASURED_BY}
    text = json.dumps(graph, separators=(",", ":")).encode()
    blob = base64.b64encode(len(text).to_bytes(8, "little") + text).decode("ascii")
    return json.dumps(["0", blob])


@click.command()
@click.argument("records", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--template", "templates", multiple=True, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--log", "log", required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--network", required=True, help="Name of the network, for the workloads' names.")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--workers", type=click.IntRange(min=1))
@options.json_file()
def main(
    records: Path,
    templates: tuple[Path, ...],
    log: Path,
    network: str,
    out: Path,
    workers: int | None,
    path: Path | None,
) -> None:
    """Writes the database that RECORDS, a file of tuning records, belongs to, with the workloads that can be rebuilt.

    A workload that cannot be rebuilt leaves an empty module, so that numbers stay; the importer refuses its records.
    """
    tasks, lost = read_log(log), read_lost(records)
    compared = written_templates(templates)
    found = {each.number: rebuild(each, tasks[each.number], compared) for each in lost}
    chosen = choose({number: mods for number, mods in found.items() if not isinstance(mods, str)})
    results = []
    with ImportPool(workers) as pool:
        for each in lost:
            results.append(_result(each, tasks[each.number], chosen.get(each.number), found[each.number], pool))
            click.echo(_line(results[-1]))
    _write(out, records, chosen, results, tasks, network)
    rows = [
        {**asdict(result), "blocks": sorted(frozenset().union(*each.blocks))}
        for result, each in zip(results, lost, strict=True)
    ]
    written = {" ".join(sorted(blocks)): [compared[blocks, True], compared[blocks, False]] for blocks, _ in compared}
    (out / "rebuilt.json").write_text(json.dumps({"templates": written, "workloads": rows}, indent=1) + "\n")
    machine.write_result(path, {"network": network, **summary(written, rows)})


def summary(written: Mapping[str, Sequence[int]], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a table shows: a row per operator, the workloads that are left out, and how many templates were compared."""
    operators: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts = {key: row[key] for key in ("records", "traces", "same", "fitted")}
        operators[row["operator"]].update(workloads=1, kept=not row["why"], **counts)
    return {
        "operators": [{"operator": operator, **operators[operator]} for operator in sorted(operators)],
        "left_out": [{key: row[key] for key in ("name", "records", "why")} for row in rows if row["why"]],
        "templates_alike": sum(alike for alike, _ in written.values()),
        "templates_other": sum(other for _, other in written.values()),
    }


def _line(result: RebuiltWorkload) -> str:
    said = result.why or "kept"
    return f"{result.number:3} {result.operator:12} {result.same} of {result.traces} traces replay: {said}"


def _result(
    lost: LostWorkload, task: LoggedTask, mod: Any, found: list[Any] | str, pool: ImportPool
) -> RebuiltWorkload:
    traces = sum(map(len, lost.traces.values()))
    result = RebuiltWorkload(lost.number, task.name, "other", lost.records, traces)
    if isinstance(found, str):
        result.why = found
        return result
    result.operator = classify(mod)
    reasons: Counter[str] = Counter()
    for trace, program in replayed(mod, lost, pool):
        if isinstance(program, str):
            reasons[program] += 1
        else:
            same = is_same(trace, program)
            result.same += same
            result.fitted += not same
    if result.same < LEAST_REPLAYED * traces:
        reason = f", most often because {reasons.most_common(1)[0][0]}" if reasons else ""
        result.why = f"{result.same} of its {traces} traces replay as they were recorded{reason}"
    return result


def _write(
    out: Path,
    records: Path,
    chosen: dict[int, Any],
    results: Sequence[RebuiltWorkload],
    tasks: dict[int, LoggedTask],
    network: str,
) -> None:
    out.mkdir(parents=True)
    numbers = {result.number for result in results if not result.why}
    lines, names = [], []
    for number in range(max(tasks) + 1):
        task = tasks[number]
        kept = number in numbers
        lines.append(workload_line(chosen[number]) if kept else json.dumps(["0", ""]))
        names.append({"name": f"{network}_{task.name}", "networks": {network: task.weight}} if kept else None)
    (out / WORKLOADS_FILE).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (out / "names.json").write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")
    (out / (RECORDS_FILE + (".gz" if records.suffix == ".gz" else ""))).write_bytes(records.read_bytes())
