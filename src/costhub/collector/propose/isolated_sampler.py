"""Provides open_samplers: samplers of any design space; the user's own run in a child, where they may crash."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from costhub.collector.propose.sampler import Program, Sampler, Scorer, Shares
from costhub.collector.propose.spaces import DEFAULT, find_space, is_own
from costhub.dataset.workload import module_from_json, module_to_json
from costhub.errors import CosthubError, WorkloadError, first_line
from costhub.isolation.child import Child

# Crashes and time-outs in a row before the design space of a workload is given up.
MAX_CRASHES = 2
# A request may take this long, plus this much more for each program that it asks for.
REQUEST_S, PROGRAM_S = 120.0, 10.0

_keys = itertools.count()


class ProgramSampler(Protocol):
    """What a collection needs from a sampler."""

    def propose(
        self, count: int, *, parents: Sequence[str], shares: Shares, scorer: Scorer | None = None
    ) -> list[Program]:
        """Up to `count` programs; see `Sampler.propose`."""


class IsolatedSampler:
    """A `Sampler` in a child process, for design spaces that may crash or hang.

    After a crash it continues in a new child with another seed, since the same draws would crash again.

    Args:
        mod: The workload, a ``tvm.IRModule``.
        target: The TVM target, as JSON.
        seed: Seed of all draws.
        seen: Ids of programs that must not be drawn again.
        space: Name of the design space.
        child: The child process; several samplers may share it.
    """

    def __init__(
        self,
        mod: Any,
        target: str,
        *,
        seed: int,
        seen: frozenset[str] = frozenset(),
        space: str = DEFAULT,
        child: Child,
    ) -> None:
        self._module_json = module_to_json(mod)
        self._target = target
        self._seed = seed
        self._seen = set(seen)
        self._space = space
        self._child = child
        self._key = next(_keys)
        self._pid: int | None = None
        self._starts = 0
        self._crashes = 0

    def propose(
        self, count: int, *, parents: Sequence[str], shares: Shares, scorer: Scorer | None = None
    ) -> list[Program]:
        """Up to `count` programs, as in `Sampler.propose`; `scorer` is pickled.

        Raises:
            WorkloadError: The design space crashed or hung `MAX_CRASHES` times in a row, or its code fails.
        """
        while True:
            self._child.start()
            setup = None if self._pid == self._child.pid else self._setup()
            self._pid = self._child.pid
            draw = partial(propose, self._key, setup, count, parents=parents, shares=shares, scorer=scorer)
            try:
                programs = self._child.call(draw, timeout_s=REQUEST_S + PROGRAM_S * count)
            except CosthubError:
                raise
            except Exception as error:
                self._child.kill()  # it restarts with another seed
                self._note_crash(error)
                continue
            self._crashes = 0
            self._seen.update(program.program_id for program in programs)
            return programs

    def _setup(self) -> SamplerSetup:
        seed = self._seed + self._starts
        self._starts += 1
        return SamplerSetup(self._module_json, self._target, seed, frozenset(self._seen), self._space)

    def _note_crash(self, error: Exception) -> None:
        self._crashes += 1
        if self._crashes >= MAX_CRASHES:
            raise WorkloadError(
                f"The design space {self._space!r} crashed or hung {self._crashes} times in a row on this "
                f"workload: {first_line(error)}"
            ) from error


@contextlib.contextmanager
def open_samplers(space: str) -> Iterator[Callable[..., ProgramSampler]]:
    """Yields a factory of samplers of `space`, which takes the arguments of `Sampler` except the space.

    TVM's own rules and those of costhub run in this process; a user's rules run in one child for all workloads, which
    ends with the block.

    Raises:
        UnknownNameError: No design space has that name.
        WorkloadError: The user's module cannot be imported.
    """
    if not is_own(space):
        find_space(space)
        yield partial(Sampler, space=space)
        return
    with Child(is_shared=False) as child:
        try:
            child.call(check_space, space, timeout_s=REQUEST_S)
        except CosthubError:
            raise
        except Exception as error:
            raise WorkloadError(f"The design space {space!r} cannot be loaded: {error}") from error
        yield partial(IsolatedSampler, space=space, child=child)


# The code below runs in the child.


@dataclass(frozen=True)
class SamplerSetup:
    """The arguments of a `Sampler`."""

    module_json: str
    target: str
    seed: int
    seen: frozenset[str]
    space: str


_samplers: dict[int, Sampler] = {}


def check_space(space: str) -> None:
    """Looks a design space up; raises like `find_space`."""
    find_space(space)


def propose(
    key: int,
    setup: SamplerSetup | None,
    count: int,
    *,
    parents: Sequence[str],
    shares: Shares,
    scorer: Scorer | None,
) -> list[Program]:
    """The next programs of a sampler.

    Args:
        key: Identifies a sampler of this process.
        setup: Arguments to create it; None if this process already has it.
        count: As for `Sampler.propose`.
        parents: As for `Sampler.propose`.
        shares: As for `Sampler.propose`.
        scorer: As for `Sampler.propose`.
    """
    if setup is not None:
        module = module_from_json(setup.module_json)
        _samplers[key] = Sampler(module, setup.target, seed=setup.seed, seen=setup.seen, space=setup.space)
    return _samplers[key].propose(count, parents=parents, shares=shares, scorer=scorer)
