"""Provides find_space and DesignSpace: design spaces by name, and the schedules drawn from them."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from costhub.collector.propose.register_tiles import blocked_space, is_blocked
from costhub.errors import UnknownNameError, WorkloadError, class_and_line
from costhub.names import close_names

DEFAULT, BLOCKED = "default", "blocked"
MAX_MUTATIONS = 3


@dataclass(frozen=True)
class NamedSpace:
    """A named way to make TVM's ``SpaceGenerator`` for a target."""

    name: str
    """The name stored in rows: ``default``, a built-in name, or ``package.module:function``."""
    make: Callable[[Any], Any]
    """``tvm.target.Target`` -> ``SpaceGenerator``, or to a schedule function for TVM's ``ScheduleFn``."""
    kind: str | None = None
    """The kind of target it is for (``llvm``, ``cuda``); None if it is for any."""

    def check_kind(self, kind: str) -> None:
        """Refuses a kind of target (``llvm``, ``cuda``) that the space is not for.

        Raises:
            WorkloadError: The space is for a different kind.
        """
        if self.kind not in (None, kind):
            raise WorkloadError(
                f"The design space {self.name!r} is for {self.kind} targets, but this one is of kind {kind}: name "
                "another one, or leave out --space."
            )

    def generator(self, target: Any) -> Any:
        """The ``SpaceGenerator`` for `target`.

        Raises:
            WorkloadError: The space is for a different kind of target, or the user's function fails.
        """
        from tvm.s_tir.meta_schedule.space_generator import ScheduleFn, SpaceGenerator

        self.check_kind(str(target.kind.name))
        _register_pools()
        try:
            generator = self.make(target)
        except Exception as error:
            raise failure(self.name, error) from error
        if isinstance(generator, SpaceGenerator):
            return generator
        if callable(generator):
            return ScheduleFn(generator)
        raise WorkloadError(
            f"The design space {self.name!r} returned a {type(generator).__name__}; its function must return "
            "a TVM SpaceGenerator, or a function that schedules (docs/spaces.md)."
        )


@cache
def _register_pools() -> None:
    """Registers the schedule rules that TVM's pools ask for and TVM 0.27 lacks.

    They do what TVM does without them (src/s_tir/meta_schedule/schedule_rule/apply_custom_rule.cc): the request is
    removed, and the default rules apply. TVM prints a warning of three lines for each pool, though.
    """
    import tvm_ffi

    def without_request(schedule: Any, block: Any) -> list[Any]:
        schedule.unannotate(block, "schedule_rule")
        return [schedule]

    for key in ("cpu", "gpu"):
        for pool in ("pool_max", "pool_avg", "adaptive_pool_max", "adaptive_pool_avg"):
            name = f"s_tir.meta_schedule.{key}.meta_schedule.{pool}"
            if tvm_ffi.get_global_func(name, allow_missing=True) is None:
                tvm_ffi.register_global_func(name, without_request)


def find_space(name: str) -> NamedSpace:
    """Finds the design space named `name`.

    Args:
        name: ``default``, a name of `space_names`, or ``package.module:function`` for the user's own, which is
            imported: an untrusted name is untrusted code.

    Raises:
        UnknownNameError: Nothing has that name.
        WorkloadError: The user's module cannot be imported, or has no such function.

    Example:
        >>> find_space("vnni").kind
        'llvm'
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    if is_own(name):
        return NamedSpace(name, _own(name))
    raise UnknownNameError(
        "design space", name, close_names(name, space_names()), "`costhub collect --help`", space_names()
    )


def best_space(mod: Any) -> NamedSpace:
    """The design space that costhub chooses for a workload: `BLOCKED` for kernels in blocked layouts.

    Args:
        mod: The workload, a ``tvm.IRModule``.
    """
    return _BUILT_IN[BLOCKED if is_blocked(mod) else DEFAULT]


def space_for(mod: Any, asked: str | None) -> NamedSpace:
    """The design space of a search: the one that was asked for, whatever the workload is, or else `best_space`.

    Args:
        mod: The workload, a ``tvm.IRModule``.
        asked: A name as for `find_space`; None if the choice is left to costhub.

    Raises:
        UnknownNameError: Nothing has that name.
        WorkloadError: The user's module cannot be imported, or has no such function.
    """
    return best_space(mod) if asked is None else find_space(asked)


def check_name(name: str) -> None:
    """Refuses a name that no built-in space has; the user's own, which may not be imported yet, is left alone.

    Raises:
        UnknownNameError: Nothing has that name.

    Example:
        >>> check_name("vnni")
        >>> check_name("module_of_tomorrow:space")
    """
    if not is_own(name):
        find_space(name)


def space_names() -> list[str]:
    """The names of the design spaces that come with costhub.

    Example:
        >>> space_names()
        ['default', 'llvm', 'blocked', 'avx512-dot', 'vnni', 'neon-dot', 'sdot', 'cuda', 'tensor-core']
    """
    return list(_BUILT_IN)


def is_own(name: str) -> bool:
    """Whether `name` refers to a space that the user wrote.

    Example:
        >>> is_own("my_rules:wide"), is_own("vnni")
        (True, False)
    """
    return ":" in name


def failure(name: str, error: Exception) -> WorkloadError:
    """Makes the error for an exception in the code of a design space."""
    return WorkloadError(f"The design space {name!r} failed with {class_and_line(error)}")


def _own(name: str) -> Callable[[Any], Any]:
    module, _, function = name.partition(":")
    try:
        function_object = getattr(importlib.import_module(module), function)
    except Exception as error:
        raise WorkloadError(
            f"The design space {name!r} cannot be loaded ({class_and_line(error)}). It "
            "must name a function of a module that Python can import; PYTHONPATH=. adds this folder."
        ) from error
    if not callable(function_object):
        raise WorkloadError(f"The design space {name!r} is a {type(function_object).__name__}, not a function.")
    return partial(function_object)


def _of_target(target: Any) -> Any:
    """TVM's choice: dot products if the mcpu has them, tensor cores from sm_75 on."""
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    return PostOrderApply()


def _of_kind(kind: str, target: Any) -> Any:
    """One of TVM's own sets of rules, whatever else the target supports."""
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    return PostOrderApply(sch_rules=kind, postprocs=kind, mutator_probs=kind)


def _dot_product(intrinsic: str, target: Any) -> Any:
    """TVM's rules for CPUs with a dot product, except that loops around it are never vectorised.

    TVM's default vectorises them, and half of its programs then cannot be lowered.
    """
    from tvm.s_tir.meta_schedule import postproc, schedule_rule
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    # All figures are TVM's (src/s_tir/meta_schedule/schedule_rule/schedule_rule.cc), except the -1.
    tiled = schedule_rule.MultiLevelTilingWithIntrin(
        intrinsic,
        structure="SSRSRS",
        max_innermost_factor=64,
        reuse_write=schedule_rule.ReuseType(req="may", levels=[1, 2], scope="global"),
    )
    unrolled = schedule_rule.ParallelizeVectorizeUnroll(
        max_jobs_per_core=16, max_vectorize_extent=-1, unroll_max_steps=[0, 16, 64, 512], unroll_explicit=True
    )
    rules: list[Any] = []
    for rule in schedule_rule.ScheduleRule.create("llvm"):
        if isinstance(rule, schedule_rule.MultiLevelTiling):
            rules.append(tiled)
        rules.append(unrolled if isinstance(rule, schedule_rule.ParallelizeVectorizeUnroll) else rule)
    finish = list(postproc.Postproc.create("llvm"))
    finish.insert(-1, postproc.RewriteTensorize(vectorize_init_loop=True))
    return PostOrderApply(sch_rules=rules, postprocs=finish, mutator_probs="llvm")


_BUILT_IN = {
    space.name: space
    for space in (
        NamedSpace(DEFAULT, _of_target),
        NamedSpace("llvm", partial(_of_kind, "llvm"), "llvm"),
        NamedSpace(BLOCKED, blocked_space, "llvm"),
        NamedSpace("avx512-dot", partial(_dot_product, "dot_16x4_avx512"), "llvm"),
        NamedSpace("vnni", partial(_dot_product, "dot_16x4_vnni"), "llvm"),
        NamedSpace("neon-dot", partial(_dot_product, "dot_4x4_i8i8s32_neon"), "llvm"),
        NamedSpace("sdot", partial(_dot_product, "dot_4x4_i8i8s32_sdot"), "llvm"),
        NamedSpace("cuda", partial(_of_kind, "cuda"), "cuda"),
        NamedSpace("tensor-core", partial(_of_kind, "cuda-tensorcore"), "cuda"),
    )
}


class DesignSpace:
    """Draws traces at random, changes them with TVM's mutators, and makes schedules from them.

    It keeps no random state, so several threads may use it.

    Args:
        context: The ``ms.TuneContext`` of the workload; its space generator has the mutators and the
            post-processing.
        sketches: The result of ``context.generate_design_space()``.
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
        """The ``Trace`` of some sketch without decisions: replaying it draws new ones."""
        from tvm.s_tir.schedule import Trace

        chosen = self._sketches[int(rng.integers(len(self._sketches)))]
        return Trace(chosen.trace.insts, {})

    def mutated(self, trace: Any, rng: np.random.Generator, *, most: int = MAX_MUTATIONS) -> Any:
        """A trace mutated in one to `most` places; unchanged if no mutator finds anything to change."""
        import tvm_ffi

        # Mutator.apply does not pass a seed on, and TVM then takes one from the clock.
        apply = tvm_ffi.get_global_func("s_tir.meta_schedule.MutatorApply")
        for _ in range(int(rng.integers(1, most + 1))):
            mutator = self._mutators[rng.choice(len(self._mutators), p=self._chances)]
            trace = apply(mutator, trace, int(rng.integers(1, 2**30))) or trace
        return trace

    def finish(self, trace: Any, seed: int) -> Any:
        """The ``Schedule`` of a trace after post-processing.

        Args:
            trace: A ``Trace``; any post-processing that it contains is done again.
            seed: Seed of the decisions that the trace leaves open.

        Returns:
            The schedule; None if TVM finds the decisions impossible or post-processing rejects them.

        Raises:
            Exception: Whatever Python code of a user's own space raises.
        """
        import tvm

        schedule = tvm.s_tir.Schedule(self._mod(), seed=seed, error_render_level="none")
        try:
            trace.apply_to_schedule(schedule, remove_postproc=True)
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
