"""Collects the attempts of all families."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from types import ModuleType

from scripts.bench.security import (
    data,
    imports,
    models,
    names,
    new_data,
    new_models,
    new_moments,
    processes,
    publishing,
    trees,
)
from scripts.bench.security.attempt import Attempt
from scripts.bench.security.exchange import (
    databases,
    earlier_results,
    locks,
    logs,
    networks,
    searches,
    sources,
    sqlite_databases,
    submissions,
    workflows,
)


def _joined(*modules: ModuleType) -> Callable[[], Iterator[Attempt]]:
    """The attempts of several modules, which are one family."""
    return lambda: chain.from_iterable(module.attempts() for module in modules)


FAMILIES: dict[str, Callable[[], Iterator[Attempt]]] = {
    module.FAMILY: module.attempts
    for module in (models, trees, data, names, imports, publishing, processes, new_models, new_data, new_moments)
} | {
    logs.FAMILY: _joined(logs, sources, databases, sqlite_databases, earlier_results),
    submissions.FAMILY: _joined(submissions, locks, networks, searches, workflows),
}
"""Family -> what yields its attempts, in the order of the table."""


def all_attempts() -> list[Attempt]:
    """Every attempt, each with a kind of its own."""
    found = [attempt for make in FAMILIES.values() for attempt in make()]
    kinds = [attempt.kind for attempt in found]
    twice = {kind for kind in kinds if kinds.count(kind) > 1}
    assert not twice, f"Kinds that occur twice: {twice}"
    return found
