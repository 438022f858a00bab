"""Provides replay_sketches: turns Ansor programs into schedules of TVM 0.27; call it in a child process only."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from typing import Any

from costhub.dataset.ansor.sketch import (
    HALF_VECTOR_LENGTHS,
    MOST_INNERMOST,
    UNROLL_STEPS,
    VECTOR_LENGTHS,
    TiledSketch,
    read_sketch,
)
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.metaschedule.import_pool import ReplayedTrace, ReplayedTraces
from costhub.dataset.metaschedule.translate import translate_target
from costhub.dataset.trace import CHOICE, TILE, plain, replay, trace_parts, trace_to_json
from costhub.dataset.workload import argument_shapes, module_from_json, parse_target
from costhub.errors import WorkloadError, last_line

_PIPELINE = "software_pipeline"


def replay_sketches(module_json: str, target: str, steps: Sequence[str]) -> ReplayedTraces | str:
    """Fills the decisions of MetaSchedule's tiled space with those of Ansor programs, and post-processes.

    Args:
        module_json: The workload.
        target: The target of TVM 0.27 as JSON, in the form of `read_target`.
        steps: The transform steps of each program as JSON.

    Returns:
        One trace or reason per program; or a string saying why there are none at all.
    """
    try:
        space = _space(module_json, target)
        _, kind = translate_target(target)
    except Exception as error:
        return str(error) if isinstance(error, WorkloadError) else f"TVM fails on its workload ({last_line(error)})"
    programs = tuple(_program(module_json, target, space, each) for each in steps)
    return ReplayedTraces(target, kind, programs)


def read_target(text: str) -> tuple[str, str] | str:
    """The target of TVM 0.27 that a text denotes; call it in a child process only.

    Args:
        text: JSON such as ``{"kind": "cuda", "arch": "sm_70"}``; or the name of a predefined TVM target.

    Returns:
        The target as canonical JSON, and the kind of device; or a string saying what is wrong with the text.
    """
    try:
        return translate_target(text if text.lstrip().startswith("{") else json.dumps(text))
    except WorkloadError as error:
        return str(error)
    except Exception as error:
        return f"TVM does not accept the target {text:.200} ({last_line(error)})."


def _program(module_json: str, target: str, space: tuple[list[Any], dict[int, int]], steps: str) -> ReplayedTrace | str:
    instructions, extents = space
    try:
        decisions = _decisions(instructions, extents, read_sketch(json.loads(steps), _vector_lengths(module_json)))
        schedule = replay(_module(module_json), json.dumps([instructions, decisions]))
        _postprocess(schedule, module_json, target)
        return ReplayedTrace(trace_to_json(schedule.trace), redone=False)
    except WorkloadError as error:
        return str(error)
    except Exception as error:
        return f"TVM fails on it ({last_line(error)})"


@functools.lru_cache(maxsize=2)
def _module(module_json: str) -> Any:
    return module_from_json(module_json)


@functools.lru_cache(maxsize=2)
def _vector_lengths(module_json: str) -> tuple[int, ...]:
    """The lengths of vectors that the space has for the workload."""
    is_half = {dtype for dtype, _ in argument_shapes(_module(module_json))} == {"float16"}
    return HALF_VECTOR_LENGTHS if is_half else VECTOR_LENGTHS


@functools.lru_cache(maxsize=2)
def _context(module_json: str, target: str) -> Any:
    """The tuning context for the workload: the rules and post-processing that generate Ansor's GPU programs."""
    from tvm.s_tir import meta_schedule as ms

    # Ansor's programs name no tensor intrinsics. Those of CPUs are parsed in a second; without them TVM takes 14 s to
    # parse those of all devices.
    load_intrinsics("llvm")
    rules = ms.schedule_rule
    tiling = rules.MultiLevelTiling(
        structure="SSSRRSRS",
        tile_binds=["blockIdx.x", "vthread.x", "threadIdx.x"],
        max_innermost_factor=MOST_INNERMOST,
        vector_load_lens=list(_vector_lengths(module_json)),
        reuse_read=rules.ReuseType(req="must", levels=[4], scope="shared"),
        reuse_write=rules.ReuseType(req="must", levels=[3], scope="local"),
    )
    inlining = rules.AutoInline(
        into_producer=True,
        into_consumer=True,
        inline_const_tensor=True,
        disallow_if_then_else=False,
        require_injective=False,
        require_ordered=False,
    )
    unrolling = rules.ParallelizeVectorizeUnroll(
        max_jobs_per_core=-1, max_vectorize_extent=-1, unroll_max_steps=list(UNROLL_STEPS), unroll_explicit=True
    )
    generator = ms.space_generator.PostOrderApply(
        sch_rules=[tiling, inlining, unrolling], postprocs=ms.Postproc.create("cuda"), mutator_probs={}
    )
    return ms.TuneContext(_module(module_json), target=parse_target(target), space_generator=generator, num_threads=1)


@functools.lru_cache(maxsize=2)
def _space(module_json: str, target: str) -> tuple[list[Any], dict[int, int]]:
    """The instructions of the one tiled program of the design space, and the extent that each tile splits.

    Raises:
        WorkloadError: The workload has none, or several.
    """
    schedules = _context(module_json, target).generate_design_space()
    spaces = [plain(trace_parts(schedule.trace)) for schedule in schedules]
    tiled = [space for space in spaces if any(map(_is_tile, space[0])) and not any(map(_is_pipeline, space[0]))]
    if len(tiled) != 1:
        raise WorkloadError(f"MetaSchedule has {len(tiled)} tiled design spaces for its workload, but one was expected")
    [(instructions, decisions)] = tiled
    return instructions, {number: math.prod(tile) for number, tile in decisions if instructions[number][0] == TILE}


def _is_tile(instruction: Any) -> bool:
    return bool(instruction[0] == TILE)


def _is_pipeline(instruction: Any) -> bool:
    """Whether it marks a loop with pipelined copies to shared memory, which TVM adds for sm_80 and later."""
    return instruction[0] == "Annotate" and str(instruction[2][0]).startswith(_PIPELINE)


def _decisions(instructions: list[Any], extents: dict[int, int], sketch: TiledSketch) -> list[list[Any]]:
    """The decisions of the sketch, each with the number of its instruction.

    Raises:
        WorkloadError: The workload has other axes than the sketch.
    """
    tiles, vectors = iter(sketch.tiles), iter(sketch.vectors)
    decisions: list[list[Any]] = []
    for number, (kind, _, attributes, _) in enumerate(instructions):
        if kind == TILE:
            decisions.append([number, next(tiles, [])])
        elif kind == CHOICE:
            candidates = list(attributes[0])
            value = sketch.unroll if candidates == list(UNROLL_STEPS) else next(vectors, None)
            if value not in candidates:
                raise WorkloadError("its sketch does not fit the workload")
            decisions.append([number, candidates.index(value)])
    # TVM accepts tiles of another extent, and would turn them into a program that Ansor never measured.
    fits = all(math.prod(tile) == extents[number] for number, tile in decisions if number in extents)
    counts = [instructions[number][2][0] for number in extents]
    if not fits or counts != [len(tile) for tile in sketch.tiles] or [*tiles, *vectors]:
        raise WorkloadError("its sketch does not fit the workload")
    return decisions


def _postprocess(schedule: Any, module_json: str, target: str) -> None:
    """Applies the rules that every program of the space goes through.

    Raises:
        WorkloadError: The program breaks a limit of the device, or a rule of TVM.
    """
    schedule.enter_postproc()
    for rule in _context(module_json, target).space_generator.postprocs:
        if not rule.apply(schedule):
            raise WorkloadError(f"TVM 0.27 refuses its schedule (by {str(rule).rpartition('.')[2]})")
