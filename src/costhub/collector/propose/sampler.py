"""Provides Sampler: draws programs of a design space at random, near the best ones, or picked by a model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from costhub.collector.propose.draws import TracePreview
from costhub.collector.propose.spaces import DEFAULT, DesignSpace, NamedSpace, failure, find_space, is_own
from costhub.collector.run.evaluator import Arguments
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.trace import program_id, replay, trace_to_json
from costhub.dataset.workload import argument_shapes, check_schedulable, module_to_json, workload_id
from costhub.errors import ArgumentError, CosthubError, WorkloadError, last_line
from costhub.isolation.signals import uninterrupted

EXAMPLE = "random=0.5,mutation=0.3,model=0.2"

# The first programs of a workload are random: there is nothing worth mutating yet.
RANDOM_FIRST = 16

# A space counts as exhausted after this many repetitions in a row, and as impossible after this many draws that
# TVM rejects: on GPUs nine of ten may be.
MAX_REPEATS = 48
MAX_REJECTS = 512
POOL_PER_PROGRAM = 8

# Above this share of repeats, decisions are drawn before programs are made: elsewhere that takes more time than
# it saves.
_MANY_REPEATS = 0.1

# This share of a model's picks is random, or the model would never learn where it is wrong.
EPSILON = 0.05


@dataclass(frozen=True)
class Shares:
    """The share of programs that comes from each source; the parts sum to 1.

    Raises:
        ArgumentError: A part is negative, or they do not sum to 1.
    """

    random: float = 0.5
    """Drawn from the design space."""
    mutation: float = 0.5
    """The best programs so far, mutated in one to three places."""
    model: float = 0.0
    """Programs that a cost model picks from a pool of both."""

    def __post_init__(self) -> None:
        parts = astuple(self)
        if not (all(0 <= part <= 1 for part in parts) and math.isclose(sum(parts), 1, abs_tol=1e-6)):
            raise ArgumentError(f"The shares {_text(self)} must lie between 0 and 1 and sum to 1, as in {EXAMPLE}.")

    @classmethod
    def parse(cls, text: str) -> Shares:
        """Parses the shares in `text`; an omitted source gets none.

        Raises:
            ArgumentError: `text` does not have that form, or the shares are not valid.

        Example:
            >>> Shares.parse("random=0.8,model=0.2")
            Shares(random=0.8, mutation=0.0, model=0.2)
        """
        parts = {field.name: 0.0 for field in fields(cls)}
        named = [pair.partition("=") for pair in text.split(",")]
        if len({name.strip() for name, _, _ in named}) < len(named):
            raise ArgumentError(f"The shares {text!r} name one source twice; write for example {EXAMPLE}.")
        for name, _, value in named:
            try:
                parts[name.strip()] += float(value)
            except (KeyError, ValueError):
                raise ArgumentError(
                    f"The shares {text!r} are not of the form {EXAMPLE}: {name.strip()!r} is not a source "
                    f"({', '.join(parts)}) with a number."
                ) from None
        return cls(**parts)


class Turns:
    """Splits successive requests for programs so that, taken together, they keep the shares.

    Example:
        >>> turns = Turns()
        >>> [turns.take(1, Shares(random=0.5, mutation=0.25, model=0.25)) for _ in range(4)]
        [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0)]
    """

    def __init__(self) -> None:
        self._owed = [0.0, 0.0, 0.0]

    def take(self, count: int, shares: Shares) -> tuple[int, int, int]:
        """How many of the next `count` programs are (random, mutation, model)."""
        taken = [0, 0, 0]
        parts = astuple(shares)
        for _ in range(count):
            self._owed = [owed + part for owed, part in zip(self._owed, parts, strict=True)]
            # Only sources that have a share: others may still be owed programs from before the shares changed.
            turn = max((i for i in range(3) if parts[i]), key=lambda i: self._owed[i])
            self._owed[turn] -= 1
            taken[turn] += 1
        return taken[0], taken[1], taken[2]


class Scorer(Protocol):
    """Predicts how fast programs will be, before they are built."""

    def score(self, context: Any, schedules: Sequence[Any]) -> npt.NDArray[np.float64]:
        """(n,) finite scores, higher is faster, of n ``Schedule``s of the ``TuneContext`` `context`."""


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
    """``random``, ``mutation`` or ``model``."""
    predicted_score: float | None = None
    """The model's score, higher is faster; None if no model was used."""
    space: str = DEFAULT
    """Name of the design space."""


@dataclass(frozen=True)
class _Candidate:
    """A program that may be proposed; its texts are written only if it is."""

    schedule: Any
    program_id: str
    trace: str
    structure: int


class Sampler:
    """Draws programs for one workload, each at most once.

    Args:
        mod: The workload, a ``tvm.IRModule``.
        target: The TVM target, as JSON.
        seed: Seed of all draws.
        seen: Ids of programs that must not be drawn again.
        space: Name of the design space, for `costhub.collector.propose.spaces.find_space`.

    Raises:
        UnknownNameError: No design space has that name.
        WorkloadError: TVM cannot build the design space for the workload, or the user's code for it fails.
    """

    def __init__(
        self,
        mod: Any,
        target: str,
        *,
        seed: int,
        seen: frozenset[str] = frozenset(),
        space: str = DEFAULT,
    ) -> None:
        self.mod = mod
        self.workload_id = workload_id(mod)
        self.space = space
        self._rng = np.random.default_rng(seed)
        self._turns = Turns()
        self._seen = set(seen)
        self._structures: set[int] = set()
        self._made: dict[int, int | None] = {}
        """Key of a trace with its decisions -> the structure of the program that it became; None if TVM rejected it."""
        self._draws = self._repeats = 0
        self._parents: dict[str, Any] = {}
        self._context, sketches = open_design_space(mod, target, find_space(space), seed)
        self._design = DesignSpace(self._context, sketches)
        # One's own rules may tile a loop that another tile has made: then only a replay knows what is drawn.
        self._preview = None if is_own(space) else TracePreview(self._context, sketches)

    def propose(
        self, count: int, *, parents: Sequence[str], shares: Shares, scorer: Scorer | None = None
    ) -> list[Program]:
        """Up to `count` programs by `shares`; fewer if the space has no more, none if it is exhausted.

        Random programs replace those that cannot be provided: mutations while there are no parents or fewer than
        `RANDOM_FIRST` programs exist, and any that a source could not provide.

        Args:
            count: How many programs to return at most.
            parents: Traces of the best programs so far, as JSON.
            shares: Which shares of them are random, mutated and picked by the model.
            scorer: The model; without one, its share must be 0.

        Raises:
            ArgumentError: The shares include a model, but there is no model.
            WorkloadError: The code of the user's design space fails.
        """
        if shares.model and scorer is None:
            raise ArgumentError("The shares include a model, but there is no model; name one with --model.")
        _, mutated, guided = self._turns.take(count, shares)
        parents = parents if len(self._seen) >= RANDOM_FIRST else ()
        programs = self.guide(parents, guided, scorer) if scorer and guided else []
        programs += self.mutate(parents, mutated)
        return self.random(count - len(programs)) + programs

    def random(self, count: int) -> list[Program]:
        """Up to `count` programs drawn at random from the design space; fewer if it has no more."""
        return [self._accept(c, "random") for c in self._draw(count, self._random)]

    def mutate(self, parents: Sequence[str], count: int) -> list[Program]:
        """Up to `count` programs, each a parent changed in one to three places by TVM's mutators.

        Args:
            parents: Traces, as JSON.
            count: How many programs to return at most.
        """
        return [self._accept(c, "mutation") for c in self._mutations(parents, count)]

    def guide(self, parents: Sequence[str], count: int, scorer: Scorer) -> list[Program]:
        """The `count` programs of a pool that `scorer` scores highest, except for a few random ones.

        The pool has `POOL_PER_PROGRAM` candidates per program, half of them mutated `parents`.
        """
        size = count * POOL_PER_PROGRAM
        mutated = self._mutations(parents, size // 2)
        structures = {c.structure for c in mutated}
        pool = mutated + self._draw(size - len(mutated), self._random, besides=structures)
        if not pool:
            return []
        scores = scorer.score(self._context, [c.schedule for c in pool])
        best_first = list(np.argsort(-scores, kind="stable"))
        programs = []
        for _ in range(min(count, len(pool))):
            explore = self._rng.random() < EPSILON
            pick = best_first.pop(int(self._rng.integers(len(best_first))) if explore else 0)
            programs.append(self._accept(pool[pick], "model", float(scores[pick])))
        return programs

    def _mutations(self, parents: Sequence[str], count: int) -> list[_Candidate]:
        if not count:
            return []
        # The best programs remain the best for a long time, so they are replayed only once.
        self._parents = {p: self._parents[p] if p in self._parents else self._replayed(p) for p in parents}
        traces = [trace for trace in self._parents.values() if trace is not None]
        if not traces or not self._design.mutates:
            return []
        return self._draw(count, lambda: self._design.mutated(traces[self._rng.integers(len(traces))], self._rng))

    def _replayed(self, parent: str) -> Any:
        """The ``Trace`` of a parent; None if it does not fit any more: another costhub or an edited space made it."""
        try:
            return replay(self.mod, parent).trace
        except Exception:  # whatever TVM raises
            return None

    def _random(self) -> Any:
        return self._design.random(self._rng)

    def _draw(
        self, count: int, propose: Callable[[], Any], *, besides: set[int] | frozenset[int] = frozenset()
    ) -> list[_Candidate]:
        """Up to `count` candidates, all new and different."""
        drawn: list[_Candidate] = []
        structures = set(besides)
        repeats = rejects = 0
        while len(drawn) < count and repeats < MAX_REPEATS and rejects < MAX_REJECTS:
            structure, candidate = self._next(propose, structures)
            self._draws += 1
            if candidate is not None:
                repeats = rejects = 0
                structures.add(candidate.structure)
                drawn.append(candidate)
            elif structure is None:
                rejects += 1
            else:
                repeats += 1
                self._repeats += 1
        return drawn

    def _next(self, propose: Callable[[], Any], besides: set[int]) -> tuple[int | None, _Candidate | None]:
        """The structure of the next program, None if TVM rejects it; and the program, None if it is not new."""
        import tvm_ffi

        trace, key, seed = self._proposed(propose)
        if key is not None and key in self._made:
            known = self._made[key]
            if known is None or not self._is_new(known, besides):
                return known, None  # no need to make it again
        schedule = self._finish(trace, seed)
        structure = None if schedule is None else int(tvm_ffi.structural_hash(schedule.mod))
        if key is not None:
            self._made[key] = structure
        # Different decisions often lower to the same program; measuring it twice would only cost time.
        if structure is None or not self._is_new(structure, besides):
            return structure, None
        text = trace_to_json(schedule.trace)
        identity = program_id(self.workload_id, text)
        if identity in self._seen:
            self._structures.add(structure)
            return structure, None
        return structure, _Candidate(schedule, identity, text, structure)

    def _is_new(self, structure: int, besides: set[int]) -> bool:
        return structure not in self._structures and structure not in besides

    def _proposed(self, propose: Callable[[], Any]) -> tuple[Any, int | None, int]:
        """A trace, None if TVM finds it impossible; its key, None if only a replay can tell it; the replay's seed."""
        import tvm

        seed = int(self._rng.integers(1, 2**30))
        try:
            with uninterrupted():
                trace = propose()
        except (tvm.s_tir.ScheduleError, tvm.error.InternalError):  # a mutator has to replay some traces
            return None, None, seed
        except Exception as error:  # from Python code of the user's space
            raise failure(self.space, error) from error
        if self._preview is None or self._repeats <= _MANY_REPEATS * self._draws:
            return trace, None, seed
        return *self._preview.decided(trace, seed), seed

    def _finish(self, trace: Any, seed: int) -> Any:
        """The schedule of a trace after post-processing, or None if TVM finds its decisions impossible."""
        # Traces that post-processing would reject for their decisions alone are not replayed.
        if trace is None or (self._preview is not None and self._preview.refuses(trace)):
            return None
        try:
            with uninterrupted():  # the rules of a space are Python that TVM's C++ calls
                return self._design.finish(trace, seed)
        except Exception as error:  # from Python code of the user's space
            raise failure(self.space, error) from error

    def _accept(self, candidate: _Candidate, proposed_by: str, score: float | None = None) -> Program:
        self._seen.add(candidate.program_id)
        self._structures.add(candidate.structure)
        mod = candidate.schedule.mod
        return Program(
            candidate.program_id,
            candidate.trace,
            module_to_json(mod),
            argument_shapes(mod),
            proposed_by,
            score,
            self.space,
        )


def open_design_space(mod: Any, target: str, space: NamedSpace, seed: int) -> tuple[Any, list[Any]]:
    """Creates the ``ms.TuneContext`` of a workload, and the sketches of its design space, each a ``Schedule``.

    Args:
        mod: The workload, a ``tvm.IRModule``.
        target: The TVM target, as JSON.
        space: The space that generates the sketches.
        seed: Seed of TVM's own draws.

    Raises:
        WorkloadError: TVM cannot build the design space for the workload, or the user's code for it fails.
    """
    check_schedulable(mod)
    load_intrinsics(json.loads(target)["kind"])
    import tvm
    from tvm.s_tir import meta_schedule as ms

    target_object = tvm.target.Target(json.loads(target))
    try:
        with uninterrupted():
            generator = space.generator(target_object)
            context = ms.TuneContext(mod, target=target_object, space_generator=generator, rand_state=seed + 1)
            return context, list(context.generate_design_space())
    except CosthubError:
        raise
    except Exception as error:
        if is_own(space.name):
            raise failure(space.name, error) from error
        raise WorkloadError(f"TVM cannot build a design space for this workload: {last_line(error)}") from error


def _text(shares: Shares) -> str:
    return ",".join(f"{field.name}={getattr(shares, field.name):g}" for field in fields(shares))
