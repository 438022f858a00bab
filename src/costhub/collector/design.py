"""Provides Design: the design space of a workload, whose schedules are drawn and changed from here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

MOST_MUTATIONS = 3


class Design:
    """Draws traces at random, changes them by TVM's mutators, and makes schedules of them.

    It keeps no random numbers of its own, so that several threads may use it.

    Args:
        context: The ``ms.TuneContext`` of the workload; its space generator has the mutators and the
            post-processing.
        sketches: What ``context.generate_design_space()`` gave.
    """

    def __init__(self, context: Any, sketches: Sequence[Any]) -> None:
        from tvm.ir import save_json

        self._generator, self._sketches = context.space_generator, sketches
        self._json = save_json(context.mod)
        self._mods = {threading.get_ident(): context.mod}
        mutators = dict(self._generator.mutator_probs or {})
        self._mutators = list(mutators)
        chances = np.array([float(chance) for chance in mutators.values()])
        self._chances = chances / (chances.sum() or 1)

    @property
    def mutates(self) -> bool:
        """Whether the space has mutators."""
        return bool(self._mutators)

    def random(self, rng: np.random.Generator) -> Any:
        """The ``Trace`` of some sketch without decisions: replaying it draws them afresh."""
        from tvm.s_tir.schedule import Trace

        chosen = self._sketches[int(rng.integers(len(self._sketches)))]
        return Trace(chosen.trace.insts, {})

    def mutated(self, trace: Any, rng: np.random.Generator, *, most: int = MOST_MUTATIONS) -> Any:
        """A trace changed in one to `most` places; the same where no mutator finds anything to change."""
        import tvm_ffi

        # Mutator.apply passes no seed on, and TVM then takes one from the clock.
        apply = tvm_ffi.get_global_func("s_tir.meta_schedule.MutatorApply")
        for _ in range(int(rng.integers(1, most + 1))):
            mutator = self._mutators[rng.choice(len(self._mutators), p=self._chances)]
            trace = apply(mutator, trace, int(rng.integers(1, 2**30))) or trace
        return trace

    def finish(self, propose: Callable[[], Any], seed: int) -> Any:
        """The ``Schedule`` of a proposed trace after post-processing.

        Args:
            propose: Gives the trace; what post-processing it holds is done again.
            seed: Of the decisions that the trace leaves open.

        Returns:
            The schedule; None where TVM finds the decisions impossible or post-processing refuses them.

        Raises:
            Exception: What Python code of a user's own space raises.
        """
        import tvm

        schedule = tvm.s_tir.Schedule(self._mod(), seed=seed, error_render_level="none")
        try:
            propose().apply_to_schedule(schedule, remove_postproc=True)
            schedule.enter_postproc()
            accepted = all(p.apply(schedule) for p in self._generator.postprocs or ())
        except (tvm.s_tir.ScheduleError, tvm.error.InternalError):
            return None
        return schedule if accepted else None

    def _mod(self) -> Any:
        """The workload, copied for each thread, as TVM's own search does."""
        from tvm.ir import load_json

        here = threading.get_ident()
        if here not in self._mods:
            self._mods[here] = load_json(self._json)
        return self._mods[here]
