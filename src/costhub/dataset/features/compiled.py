"""Provides the feature layout compiled@1: what LLVM made of a program, a row per loop of its code.

The costliest loop comes first. The other layouts describe what TVM hands to the compiler. Whether LLVM keeps sums in
registers or spills them, vectorises a loop that TVM left alone, or calls a function for each element shows in the
assembly alone. Computing these features takes as long as building the program, but needs no device. *Tuna* (Wang et
al., arXiv 2104.14641, 2021) ranks programs by such features alone.

x86 only: the programs of other CPUs and of GPUs have no features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from costhub.dataset.features.assembly import FAMILIES, Function, Loop, functions, loops
from costhub.dataset.features.spec import Features, FeatureSpec, features_of_modules, replay_schedules, slog
from costhub.dataset.programs import FloatArray
from costhub.dataset.workload import count_flop, parse_target

COMPILED = "compiled@1"
MOST_LOOPS = 12
"""Rows of a program at most."""

_LOOP = ("depth", "trips", "times", "instructions", "cycles", "chain", "chain_share", "all_cycles", "cycle_share")
_DATA = ("loads", "stores", "stack_loads", "stack_stores", "bytes_loaded", "bytes_stored", "widest", "packed_share")
_RATES = ("flop", "flop_per_cycle", "loads_per_flop", "stores_per_flop", "stack_share", "shuffles_per_flop")
_WHOLE = (
    "program_cycles",
    "program_flop",
    "program_flop_per_cycle",
    "program_repeats",
    "program_all_cycles",
    "program_instructions",
    "program_stack",
    "program_loops",
    "program_functions",
)
COLUMN_NAMES: tuple[str, ...] = (*_LOOP, *FAMILIES, *_DATA, *_RATES, *_WHOLE)
"""The names of the columns. Counts and sizes are log2(|x| + 1); `*_share` and `*_per_*` are as they are."""


def assembly_of(mod: Any, target: Any) -> str:
    """The assembly that TVM and LLVM make of a scheduled module, as for a measurement."""
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    return str(tvm.tirx.build(module, target=target).inspect_source("asm"))


def compiled_rows(text: str, flop: float) -> FloatArray:
    """(loops, width) rows of a program.

    Args:
        text: Its assembly.
        flop: Floating-point operations of its workload. The code of a parallel loop says what one iteration does;
            the ratio tells how many there are.
    """
    found = [(function, loops(function)) for function in functions(text)]
    every = [loop for _, own in found for loop in own if loop.own]
    whole = _whole([function for function, _ in found], every, flop)
    cycles = {id(loop): loop.cycles * loop.times for loop in every}
    total = sum(cycles.values()) or 1.0
    every.sort(key=lambda loop: -cycles[id(loop)])
    rows = [[*_row(loop, cycles[id(loop)] / total), *whole] for loop in every[:MOST_LOOPS]]
    return np.array(rows, np.float32).reshape(-1, len(COLUMN_NAMES))


def _row(loop: Loop, share: float) -> list[float]:
    own = loop.own
    chain, cycles = loop.chain, loop.cycles
    families = Counter(instruction.family for instruction in own)
    loads, stores = [i for i in own if i.loads], [i for i in own if i.stores]
    flop = sum(i.flop for i in own)
    floats = [i for i in own if i.flop]
    on_stack = sum(i.on_stack for i in own)
    each = max(flop, 1.0)
    return [
        float(loop.depth),
        slog(loop.trips),
        slog(loop.times),
        slog(len(own)),
        slog(cycles),
        slog(chain),
        chain / max(cycles, 1.0),
        slog(cycles * loop.times),
        share,
        *(slog(families[name]) for name in FAMILIES),
        slog(len(loads)),
        slog(len(stores)),
        slog(sum(i.on_stack for i in loads)),
        slog(sum(i.on_stack for i in stores)),
        slog(sum(max(i.width, 4) for i in loads)),
        slog(sum(max(i.width, 4) for i in stores)),
        slog(max((i.width for i in floats), default=0)),
        sum(i.width > 8 for i in floats) / max(len(floats), 1),
        slog(flop),
        flop / max(cycles, 1.0),
        len(loads) / each,
        len(stores) / each,
        on_stack / len(own),
        families["shuffle"] / each,
    ]


def _whole(found: Sequence[Function], every: Sequence[Loop], flop: float) -> list[float]:
    cycles = sum(loop.cycles * loop.times for loop in every)
    counted = sum(i.flop * loop.times for loop in every for i in loop.own)
    repeats = flop / counted if counted else 1.0
    instructions = sum(len(function.body) for function in found)
    stack = sum(i.on_stack for function in found for i in function.body)
    values = (cycles, counted, counted / max(cycles, 1.0), repeats, cycles * repeats, instructions, stack)
    per_cycle = _WHOLE.index("program_flop_per_cycle")
    return [
        *(value if place == per_cycle else slog(value) for place, value in enumerate(values)),
        slog(len(every)),
        float(len(found)),
    ]


def _is_x86(target: Any) -> bool:
    return str(target.kind.name) == "llvm" and str(target.attrs.get("mtriple", "x86_64")).startswith(("x86", "i686"))


def _of_schedules(schedules: Sequence[Any | None], flop: float, target: Any) -> Features:
    return features_of_modules(lambda mod: compiled_rows(assembly_of(mod, target), flop), schedules)


def _extract(mod: Any, traces: Sequence[str], target: str) -> Features:
    parsed = parse_target(target)
    if not _is_x86(parsed):
        return [None] * len(traces)
    return _of_schedules(replay_schedules(mod, traces, target), count_flop(mod), parsed)


def _extract_candidates(context: Any, candidates: Sequence[Any]) -> Features:
    if not _is_x86(context.target):
        return [None] * len(candidates)
    return _of_schedules([candidate.sch for candidate in candidates], count_flop(context.mod), context.target)


SPEC = FeatureSpec(COMPILED, COLUMN_NAMES, _extract, _extract_candidates, leads=True, of_module=True)
