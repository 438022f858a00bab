"""Draws programs from a user's own design space, inside a child process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costhub.collector.propose.sampler import Program, Sampler, Scorer, Shares
from costhub.collector.propose.spaces import find_space
from costhub.dataset.workload import module_from_json
from costhub.errors import CosthubError


@dataclass(frozen=True)
class Setup:
    """The arguments of a `Sampler`; the first request to a child for it includes them."""

    module_json: str
    target: str
    seed: int
    seen: frozenset[str]
    space: str


@dataclass(frozen=True)
class SampleRequest:
    """The next programs of one sampler."""

    key: int
    """Which sampler of this child."""
    setup: Setup | None
    """Builds it again; None where the child has it."""
    count: int
    parents: Sequence[str]
    shares: Shares
    scorer: Scorer | None


_samplers: dict[int, Sampler] = {}


def handle(request: SampleRequest | str) -> list[Program] | str:
    """Returns the programs, or a sentence that says why there are none.

    The name of a design space (a string) is only looked up; an empty list means that it exists.
    """
    try:
        if isinstance(request, str):
            find_space(request)
            return []
        if request.setup is not None:
            _samplers[request.key] = _made(request.setup)
        return _samplers[request.key].propose(
            request.count, parents=request.parents, shares=request.shares, scorer=request.scorer
        )
    except CosthubError as error:
        return str(error)


def _made(setup: Setup) -> Sampler:
    return Sampler(
        module_from_json(setup.module_json),
        setup.target,
        seed=setup.seed,
        seen=setup.seen,
        space=setup.space,
    )
