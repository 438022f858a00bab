"""Provides find_space: the design space of a name, be it TVM's own, a built-in one or the user's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from costhub.errors import UnknownNameError, WorkloadError, class_and_line
from costhub.names import close_names

DEFAULT = "default"


@dataclass(frozen=True)
class Space:
    """A named way to make TVM's ``SpaceGenerator`` for a target."""

    name: str
    """What the rows say: ``default``, a built-in name, or ``package.module:function``."""
    make: Callable[[Any], Any]
    """``tvm.target.Target`` -> ``SpaceGenerator``, or a schedule function for TVM's ``ScheduleFn``."""
    kind: str | None = None
    """The kind of target that it is for (``llvm``, ``cuda``); None where it is for any."""

    def generator(self, target: Any) -> Any:
        """The ``SpaceGenerator`` for `target`.

        Raises:
            WorkloadError: The space is for another kind of target, or the user's function fails.
        """
        from tvm.s_tir.meta_schedule.space_generator import ScheduleFn, SpaceGenerator

        if self.kind not in (None, target.kind.name):
            raise WorkloadError(
                f"The design space {self.name!r} is for {self.kind} targets, and this one is of kind "
                f"{target.kind.name}; use --space {DEFAULT}."
            )
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


def find_space(name: str) -> Space:
    """The design space named `name`.

    Args:
        name: ``default``, a name of `space_names`, or ``package.module:function`` of the user's own, which is
            imported: a name from a stranger is code from a stranger.

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
        return Space(name, _own(name))
    raise UnknownNameError(
        "design space", name, close_names(name, space_names()) or space_names(), "docs/spaces.md"
    )


def space_names() -> list[str]:
    """The names of the design spaces that come with costhub.

    Example:
        >>> space_names()
        ['default', 'llvm', 'avx512-dot', 'vnni', 'neon-dot', 'sdot', 'cuda', 'tensor-core']
    """
    return list(_BUILT_IN)


def is_own(name: str) -> bool:
    """Whether `name` is of a space that the user wrote.

    Example:
        >>> is_own("my_rules:wide"), is_own("vnni")
        (True, False)
    """
    return ":" in name


def failure(name: str, error: Exception) -> WorkloadError:
    """The sentence for an error in the code of a design space."""
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
        raise WorkloadError(
            f"The design space {name!r} is a {type(function_object).__name__}, not a function."
        )
    return partial(function_object)


def _of_target(target: Any) -> Any:
    """TVM's choice: dot products where the mcpu has them, tensor cores from sm_75 on."""
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    return PostOrderApply()


def _of_kind(kind: str, target: Any) -> Any:
    """One of TVM's own sets of rules, whatever else the target could do."""
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    return PostOrderApply(sch_rules=kind, postprocs=kind, mutator_probs=kind)


def _dot_product(intrinsic: str, target: Any) -> Any:
    """TVM's rules for CPUs with a dot product, but loops around it are never vectorised.

    TVM's default vectorises them, and half of its programs then cannot be lowered.
    """
    from tvm.s_tir.meta_schedule import postproc, schedule_rule
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    # All figures are TVM's (src/s_tir/meta_schedule/schedule_rule/schedule_rule.cc), save the -1.
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
        Space(DEFAULT, _of_target),
        Space("llvm", partial(_of_kind, "llvm"), "llvm"),
        Space("avx512-dot", partial(_dot_product, "dot_16x4_avx512"), "llvm"),
        Space("vnni", partial(_dot_product, "dot_16x4_vnni"), "llvm"),
        Space("neon-dot", partial(_dot_product, "dot_4x4_i8i8s32_neon"), "llvm"),
        Space("sdot", partial(_dot_product, "dot_4x4_i8i8s32_sdot"), "llvm"),
        Space("cuda", partial(_of_kind, "cuda"), "cuda"),
        Space("tensor-core", partial(_of_kind, "cuda-tensorcore"), "cuda"),
    )
}
