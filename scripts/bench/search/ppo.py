"""Compares our PPO with that of stable-baselines3 in a search; needs `pip install stable-baselines3`.

Both change the knobs of the same programs by the scores of the same model, which does not learn; nothing is
measured on the device. A third agent changes knobs and never learns.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.logger import configure

from costhub.collector.device.local import local_target
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.programs import FloatArray
from costhub.papers.release import DIRECTIONS, AgentStep, Ppo, PpoAgent, PpoOptions
from costhub.search.result import StageTimer
from costhub.search.search_model import SearchModel
from costhub.search.strategies.search_space import SearchSpace
from costhub.search.tvm_seam import TvmCostModel
from costhub.transfer.methods.by_name import find_method
from scripts.bench.common import machine, options
from scripts.bench.search.held_out import WORKLOADS, UnseenModels
from scripts.bench.search.once import clock
from scripts.tables.gains import mean_with_error

COUNT = 16
"""Programs that a search measures of each batch."""
AGENT = "agent"
"""The stage in which an agent computes."""


class UntrainedAgent(PpoAgent):
    """Ours without learning: it changes knobs as it did at first."""

    def learn(self, turns: list[AgentStep], rewards: FloatArray, last: FloatArray) -> None:
        """Does nothing."""


class StableBaselinesPpo:
    """The PPO of stable-baselines3 with our hyperparameters, for episodes that we drive."""

    def __init__(self, state_size: int, knobs: int, *, seed: int) -> None:
        self.options = options = PpoOptions()
        self._model = PPO(
            "MlpPolicy",
            Spaces(state_size, knobs),
            learning_rate=options.learning_rate,
            gamma=options.discount,
            gae_lambda=options.gae,
            n_epochs=options.epochs,
            batch_size=options.minibatch,
            clip_range=options.clip,
            ent_coef=options.entropy_weight,
            vf_coef=options.value_weight,
            seed=seed,
            device="cpu",
            policy_kwargs={"net_arch": [options.hidden] * 2},
        )
        self._model.set_logger(configure(None, []))

    @torch.no_grad()
    def act(self, states: FloatArray) -> AgentStep:
        """See `PpoAgent`."""
        actions, values, log_probability = self._model.policy(torch.as_tensor(states))
        return AgentStep(states, actions.numpy(), log_probability.numpy(), values.flatten().numpy())

    def learn(self, turns: list[AgentStep], rewards: FloatArray, last: FloatArray) -> None:
        """See `PpoAgent`."""
        model, options, programs = self._model, self.options, rewards.shape[1]
        model.rollout_buffer = buffer = RolloutBuffer(
            len(turns),
            model.observation_space,
            model.action_space,
            "cpu",
            options.gae,
            options.discount,
            programs,
        )
        for step, turn in enumerate(turns):
            begins = np.full(programs, step == 0)
            values, log_probability = map(torch.as_tensor, (turn.values, turn.log_probability))
            buffer.add(turn.states, turn.actions, rewards[step], begins, values, log_probability)
        with torch.no_grad():
            expected = model.policy.predict_values(torch.as_tensor(last))
        buffer.compute_returns_and_advantage(expected, np.zeros(programs, dtype=bool))
        model.train()


class Spaces(gymnasium.Env):  # type: ignore[misc]
    """The spaces of a sketch, which stable-baselines3 asks for; it is never stepped."""

    def __init__(self, state_size: int, knobs: int) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (state_size,))
        self.action_space = gymnasium.spaces.MultiDiscrete([DIRECTIONS] * knobs)


AGENTS: dict[str, Callable[..., Any]] = {
    "ours": PpoAgent,
    "stable-baselines3": StableBaselinesPpo,
    "none": UntrainedAgent,
}


def clocked(kind: Callable[..., Any], watch: StageTimer) -> Callable[..., Any]:
    """Makes agents whose seconds the watch counts."""

    def make(*sizes: int, seed: int) -> Any:
        agent = kind(*sizes, seed=seed)
        for name in ("act", "learn"):
            clock(watch, agent, name, AGENT)
        return agent

    return make


def explored(workload: str, agent: str, seed: int, batches: int, model: Any) -> dict[str, Any]:
    """The scores of what a strategy led by this agent proposes, batch by batch."""
    from tvm.s_tir import meta_schedule as ms
    from tvm.target import Target

    (function,) = find_workload(workload).module().functions.values()
    context = ms.TuneContext(
        function, target=Target(local_target()), space_generator="post-order-apply", rand_state=seed + 1
    )
    cost_model = TvmCostModel(SearchModel(model, method=find_method("frozen"), seed=seed))
    space = SearchSpace(context, list(context.generate_design_space()), cost_model, seed=seed)
    watch = StageTimer()
    exploration = Ppo().begin(space)
    scores: list[float] = []
    start = time.perf_counter()
    with patch("costhub.papers.release.PpoAgent", clocked(AGENTS[agent], watch)):
        for _ in range(batches):
            space.new_round()
            exploration.explore(COUNT)
            scores.append(float(space.score(space.best_new(COUNT)).mean()))
    seconds = time.perf_counter() - start
    return {
        "workload": workload,
        "agent": agent,
        "seed": seed,
        "scores": scores,
        "agent_s": watch.seconds()[AGENT],
        "seconds": seconds,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, float | None]]:
    """For each agent the mean score of what would be measured, less that of ours, and its seconds."""
    bases = {(row["workload"], row["seed"]): row for row in rows if row["agent"] == "ours"}
    table: dict[str, dict[str, float | None]] = {}
    for agent in AGENTS:
        pairs = [(row, bases[row["workload"], row["seed"]]) for row in rows if row["agent"] == agent]
        gain, error = mean_with_error(
            [statistics.fmean(row["scores"]) - statistics.fmean(base["scores"]) for row, base in pairs]
        )
        table[agent] = {
            "score_gain": gain,
            "se": error,
            "agent_s": statistics.fmean(row["agent_s"] for row, _ in pairs),
            "times_ours": statistics.median(row["agent_s"] / base["agent_s"] for row, base in pairs),
            "seconds": statistics.fmean(row["seconds"] for row, _ in pairs),
        }
    return table


@click.command()
@options.data()
@options.models_folder()
@options.workloads(WORKLOADS[:4])
@options.seeds(3)
@click.option("--batches", default=6, show_default=True)
@options.json_file()
def main(
    data: Path | None,
    models: Path | None,
    workloads: tuple[str, ...],
    seeds: int,
    batches: int,
    path: Path | None,
) -> None:
    """Agents take turns for each workload and seed."""
    load_intrinsics("llvm")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model = UnseenModels(data, models, folder).bound("costhub")
        for seed, workload in ((seed, workload) for seed in range(seeds) for workload in workloads):
            for agent in AGENTS:
                rows.append(explored(workload, agent, seed, batches, model))
                click.echo("{workload:28} {seed} {agent:18} {agent_s:6.2f} of {seconds:6.1f} s".format(**rows[-1]))
    result = {"stable_baselines3": stable_baselines3.__version__, "summary": summary(rows), "rows": rows}
    click.echo(json.dumps(result["summary"], indent=1))
    machine.write_result(path, result)
