"""Provides TvmStrategy: a strategy in plain Python as a MetaSchedule search strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate, PySearchStrategy

from costhub.transfer.search.database import Known, all_known
from costhub.transfer.selection.epsilon_greedy import EPSILON
from costhub.transfer.strategies.ground import Ground, Program
from costhub.transfer.strategies.strategy import Exploration, Explorer
from costhub.transfer.tvm_measure import latency_of


@derived_object
class TvmStrategy(PySearchStrategy):  # type: ignore[misc]  # TVM's base is untyped
    """Proposes the programs that an explorer has found to score best, and a few random ones.

    *Learning to Optimize Tensor Programs* (Chen et al., NeurIPS 2018), section 3.3, has a share of 0.05 of
    random ones, and so has TVM's evolutionary search.

    Args:
        explorer: What looks for programs.
    """

    def __init__(self, explorer: Explorer) -> None:
        super().__init__()
        self.explorer = explorer
        self._context: Any = None
        self._ground: Ground | None = None
        self._exploration: Exploration | None = None
        self._left = self._batch = 0

    def _initialize_with_tune_context(self, context: Any) -> None:
        self._context = context

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Any],
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """Begins to search; what the database holds of the workload and target is known."""
        self._left, self._batch = int(max_trials), int(num_trials_per_iter)
        known = [] if database is None else _known(database, self._context)
        # A search that goes on must not draw once more what it drew at first.
        seed = abs(int(self._context.rand_state)) + len(known)
        self._ground = Ground(self._context, list(design_spaces), cost_model, seed=seed)
        self._ground.measured_before([(each.record.trace, each.latency_s) for each in known])
        self._exploration = self.explorer.begin(self._ground)

    def post_tuning(self) -> None:
        """Lets go of the context, which holds this object."""
        self._context = self._ground = self._exploration = None

    def generate_measure_candidates(self) -> list[Any] | None:
        """The next batch; None when all trials are spent or the space has no more."""
        ground, exploration = self._ground, self._exploration
        if ground is None or exploration is None or self._left <= 0:
            return None
        count = min(self._batch, self._left)
        ground.new_round()
        exploration.explore(count)
        chosen = ground.best_new(count - int(ground.rng.binomial(count, EPSILON)))
        if len(chosen) < count:
            chosen += ground.propose(ground.random(count - len(chosen)))
        return [_candidate(program) for program in chosen] or None

    def notify_runner_results(self, measure_candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Learns how fast the programs are."""
        self._left -= len(results)
        if self._ground is not None:
            for candidate, result in zip(measure_candidates, results, strict=True):
                self._ground.told(candidate.sch.trace, latency_of(result))

    def clone(self) -> Any:
        """The same, for another task."""
        return TvmStrategy(self.explorer)


def _known(database: Any, context: Any) -> list[Known]:
    """What a database holds of workload and target, failures included."""
    if not database.has_workload(context.mod):
        return []
    return all_known(database, context.target, database.commit_workload(context.mod))


def _candidate(program: Program) -> Any:
    arguments = ArgInfo.from_entry_func(program.schedule.mod, remove_preproc=True)
    return MeasureCandidate(program.schedule, arguments)
