"""Provides Sampler: programs of MetaSchedule's design space, at random or near the best ones measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costhub.collector.run_service import Arguments
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.trace import program_id, replay, trace_to_json
from costhub.dataset.workload import argument_shapes, check_schedulable, module_to_json, workload_id
from costhub.errors import WorkloadError, last_line

ATTEMPTS_PER_PROGRAM = 8
MOST_MUTATIONS = 3


@dataclass(frozen=True)
class Program:
    """One scheduled workload, ready to build."""

    program_id: str
    trace: str
    """The trace, as canonical JSON."""
    module_json: str
    """The scheduled module, as TVM JSON."""
    arguments: Arguments
    """(dtype, shape) of each argument, in the layout that the schedule chose."""
    proposed_by: str
    """``random`` or ``mutation``."""


class Sampler:
    """Draws programs of one workload, each at most once.

    Args:
        mod: the workload, a ``tvm.IRModule``.
        target: the TVM target, as JSON.
        seed: of every draw.
        seen: ids of programs not to draw again.

    Raises:
        WorkloadError: TVM cannot build a design space for the workload.
    """

    def __init__(self, mod: Any, target: str, *, seed: int, seen: frozenset[str] = frozenset()) -> None:
        self.mod = mod
        self.workload_id = workload_id(mod)
        self._rng = np.random.default_rng(seed)
        self._seen = set(seen)
        self._hashes: set[int] = set()
        self._context, self._space = _design_space(mod, target, seed)
        mutators = self._context.space_generator.mutator_probs.items()
        self._mutators = [m for m, _ in mutators]
        chances = np.array([float(p) for _, p in mutators])
        self._chances = chances / chances.sum()

    def random(self, count: int) -> list[Program]:
        """Up to `count` programs drawn at random from the design space; fewer when it has no more."""
        return self._draw(count, self._random_trace, "random")

    def mutate(self, parents: Sequence[str], count: int) -> list[Program]:
        """Up to `count` programs, each a parent changed in one to three places by TVM's mutators.

        Args:
            parents: traces, as JSON.
            count: how many programs are wanted.
        """
        traces = [replay(self.mod, parent).trace for parent in parents]
        if not traces or not self._mutators:
            return []
        return self._draw(count, lambda: self._mutated(traces[self._rng.integers(len(traces))]), "mutation")

    def _draw(self, count: int, propose: Callable[[], Any], proposed_by: str) -> list[Program]:
        programs: list[Program] = []
        for _ in range(count * ATTEMPTS_PER_PROGRAM):
            if len(programs) == count:
                break
            schedule = self._finish(propose())
            program = self._new(schedule, proposed_by) if schedule is not None else None
            if program is not None:
                programs.append(program)
        return programs

    def _random_trace(self) -> Any:
        from tvm.s_tir.schedule import Trace

        chosen = self._space[self._rng.integers(len(self._space))]
        return Trace(chosen.trace.insts, {})  # no decisions: replaying draws them afresh

    def _mutated(self, trace: Any) -> Any:
        for _ in range(int(self._rng.integers(1, MOST_MUTATIONS + 1))):
            mutator = self._mutators[self._rng.choice(len(self._mutators), p=self._chances)]
            trace = mutator.apply(trace) or trace
        return trace

    def _finish(self, trace: Any) -> Any:
        """The schedule after post-processing, or None where TVM finds the decisions impossible."""
        import tvm

        seed = int(self._rng.integers(1, 2**30))
        schedule = tvm.s_tir.Schedule(self._context.mod, seed=seed, error_render_level="none")
        try:
            trace.apply_to_schedule(schedule, remove_postproc=True)
            schedule.enter_postproc()
            accepted = all(p.apply(schedule) for p in self._context.space_generator.postprocs)
        except tvm.s_tir.ScheduleError:
            return None
        return schedule if accepted else None

    def _new(self, schedule: Any, proposed_by: str) -> Program | None:
        import tvm_ffi

        trace = trace_to_json(schedule.trace)
        identity = program_id(self.workload_id, trace)
        # Different decisions often lower to the same program; measuring it twice would only cost time.
        structure = tvm_ffi.structural_hash(schedule.mod)
        if identity in self._seen or structure in self._hashes:
            return None
        self._seen.add(identity)
        self._hashes.add(structure)
        return Program(
            identity, trace, module_to_json(schedule.mod), argument_shapes(schedule.mod), proposed_by
        )


def _design_space(mod: Any, target: str, seed: int) -> tuple[Any, list[Any]]:
    check_schedulable(mod)
    load_intrinsics(json.loads(target)["kind"])
    import tvm
    from tvm.s_tir import meta_schedule as ms

    try:
        context = ms.TuneContext(
            mod,
            target=tvm.target.Target(json.loads(target)),
            space_generator="post-order-apply",
            rand_state=seed + 1,
        )
        space = list(context.generate_design_space())
    except Exception as error:
        raise WorkloadError(
            f"TVM cannot build a design space for this workload: {last_line(error)}"
        ) from error
    return context, space
