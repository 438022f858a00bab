"""Provides open_samplers: samplers of any design space, the user's own in a child, where it may crash."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from costhub.collector.propose.sample_service import SampleRequest, Setup
from costhub.collector.propose.sampler import Program, Sampler, Scorer, Shares
from costhub.collector.propose.spaces import DEFAULT, find_space, is_own
from costhub.dataset.workload import module_to_json
from costhub.errors import WorkloadError, first_line
from costhub.isolation.child import ChildDied, ChildTimeout, Worker

# Crashes and time-outs in a row before the design space of a workload is given up.
MOST_CRASHES = 2
# A request may take this long, and so much more for each program that it asks for.
REQUEST_S, PROGRAM_S = 120.0, 10.0

_keys = itertools.count()


class ProgramSampler(Protocol):
    """What a collection needs of a sampler."""

    def propose(
        self, count: int, *, parents: Sequence[str], shares: Shares, scorer: Scorer | None = None
    ) -> list[Program]:
        """Up to `count` programs; see `Sampler.propose`."""


class IsolatedSampler:
    """A `Sampler` in a child process, for design spaces that may crash or hang.

    After a crash it goes on in a new child with another seed, since the same draws would meet the same end.

    Args:
        mod: The workload, a ``tvm.IRModule``.
        target: The TVM target, as JSON.
        seed: Of every draw.
        seen: Ids of programs not to draw again.
        space: Name of the design space.
        worker: The child, with `costhub.collector.propose.sample_service`; several samplers may share it.
    """

    def __init__(
        self,
        mod: Any,
        target: str,
        *,
        seed: int,
        seen: frozenset[str] = frozenset(),
        space: str = DEFAULT,
        worker: Worker,
    ) -> None:
        self._module_json = module_to_json(mod)
        self._target = target
        self._seed = seed
        self._seen = set(seen)
        self._space = space
        self._worker = worker
        self._key = next(_keys)
        self._child: int | None = None
        self._starts = 0
        self._crashes = 0

    def propose(
        self, count: int, *, parents: Sequence[str], shares: Shares, scorer: Scorer | None = None
    ) -> list[Program]:
        """Up to `count` programs, as `Sampler.propose`; `scorer` is pickled.

        Raises:
            WorkloadError: The design space crashed or hung `MOST_CRASHES` times in a row, or its code fails.
        """
        while True:
            self._worker.start()
            setup = None if self._child == self._worker.pid else self._setup()
            self._child = self._worker.pid
            request = SampleRequest(self._key, setup, count, parents, shares, scorer)
            try:
                reply = self._worker.call(request, timeout_s=REQUEST_S + PROGRAM_S * count)
            except (ChildDied, ChildTimeout) as error:
                self._note_crash(error)
                continue
            self._crashes = 0
            programs = _programs(reply)
            self._seen.update(program.program_id for program in programs)
            return programs

    def _setup(self) -> Setup:
        seed = self._seed + self._starts
        self._starts += 1
        return Setup(self._module_json, self._target, seed, frozenset(self._seen), self._space)

    def _note_crash(self, error: Exception) -> None:
        self._crashes += 1
        if self._crashes >= MOST_CRASHES:
            raise WorkloadError(
                f"The design space {self._space!r} crashed or hung {self._crashes} times in a row on this "
                f"workload: {first_line(error)}"
            ) from error


@contextlib.contextmanager
def open_samplers(space: str) -> Iterator[Callable[..., ProgramSampler]]:
    """What makes samplers of `space`, with the arguments of `Sampler` but for the space.

    TVM's own rules and those of costhub run in this process; a user's in one child for all workloads, which
    ends with the block.

    Raises:
        UnknownNameError: No design space has that name.
        WorkloadError: The user's module cannot be imported.
    """
    if not is_own(space):
        find_space(space)
        yield partial(Sampler, space=space)
        return
    with Worker("costhub.collector.propose.sample_service:handle") as worker:
        try:
            _programs(worker.call(space, timeout_s=REQUEST_S))
        except (ChildDied, ChildTimeout) as error:
            raise WorkloadError(f"The design space {space!r} cannot be loaded: {error}") from error
        yield partial(IsolatedSampler, space=space, worker=worker)


def _programs(reply: list[Program] | str) -> list[Program]:
    if isinstance(reply, str):
        raise WorkloadError(reply)
    return reply
