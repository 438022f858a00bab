"""Provides PpoAgent: a policy that turns knobs up and down, learned by proximal policy optimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from costhub.dataset.programs import FloatArray, IntArray
from costhub.models.networks.initial_weights import draw_weights

DIRECTIONS = 3
"""Down, stay, up."""


@dataclass(frozen=True)
class PpoOptions:
    """*Reinforcement Learning and Adaptive Sampling for Optimized DNN Compilation* (ReLeASE), table 2.

    The width of the networks and the size of a minibatch are not in the paper.
    """

    learning_rate: float = 1e-3
    discount: float = 0.9
    gae: float = 0.99
    epochs: int = 3
    clip: float = 0.3
    value_weight: float = 1.0
    entropy_weight: float = 0.1
    hidden: int = 64
    minibatch: int = 32


@dataclass(frozen=True)
class Turn:
    """What the agent did at one step of an episode, in parallel environments."""

    states: FloatArray
    """(n, state)."""
    actions: IntArray
    """(n, knobs), 0 to 2."""
    log_probability: FloatArray
    """(n,) of all knobs together."""
    values: FloatArray
    """(n,) what the agent expected."""

    @property
    def directions(self) -> IntArray:
        """(n, knobs) -1, 0 or 1."""
        return self.actions - 1


class PpoAgent:
    """An actor and a critic on one first layer (ReLeASE, section 4.1), after Schulman et al., 2017.

    Written here and not taken from stable-baselines3 or torchrl: see docs/adr/0011-strategies.md.

    Args:
        state_size: Values of a state.
        knobs: How many are turned at once.
        seed: The only source of chance.
        options: Numbers of the algorithm.
    """

    def __init__(self, state_size: int, knobs: int, *, seed: int, options: PpoOptions | None = None) -> None:
        self.options = options or PpoOptions()
        self._random = torch.Generator().manual_seed(seed)
        with torch.device("meta"):
            self._network = _ActorCritic(state_size, knobs, self.options.hidden)
        draw_weights(self._network, self._random)
        self._optimizer = torch.optim.Adam(self._network.parameters(), lr=self.options.learning_rate)

    @torch.no_grad()
    def act(self, states: FloatArray) -> Turn:
        """Chooses a direction for every knob.

        Args:
            states: (n, state).
        """
        log_policy, values = self._network(torch.as_tensor(states))
        flat = log_policy.exp().flatten(0, 1)
        actions = torch.multinomial(flat, 1, generator=self._random).view(log_policy.shape[:2])
        return Turn(states, actions.numpy(), _chosen(log_policy, actions).numpy(), values.numpy())

    @torch.no_grad()
    def expected(self, states: FloatArray) -> FloatArray:
        """(n,) the return expected of states."""
        values: FloatArray = self._network(torch.as_tensor(states))[1].numpy()
        return values

    def learn(self, turns: list[Turn], rewards: FloatArray, last: FloatArray) -> None:
        """Learns from an episode.

        Args:
            turns: One for each step.
            rewards: (steps, n) of what was done.
            last: (n, state) where the episode ended.
        """
        options = self.options
        values = np.stack([*(turn.values for turn in turns), self.expected(last)])
        gains = advantages(rewards, values, discount=options.discount, gae=options.gae)
        tensors = [
            torch.as_tensor(np.concatenate(parts))
            for parts in (
                [turn.states for turn in turns],
                [turn.actions for turn in turns],
                [turn.log_probability for turn in turns],
                list(gains.astype(np.float32)),
                list((gains + values[:-1]).astype(np.float32)),
            )
        ]
        for _ in range(options.epochs):
            order = torch.randperm(len(tensors[0]), generator=self._random)
            for chosen in torch.split(order, options.minibatch):
                self._optimizer.zero_grad(set_to_none=True)
                self._loss(*(tensor[chosen] for tensor in tensors)).backward()  # type: ignore[no-untyped-call]
                self._optimizer.step()

    def _loss(
        self, states: Tensor, actions: Tensor, before: Tensor, advantage: Tensor, returns: Tensor
    ) -> Tensor:
        options = self.options
        log_policy, values = self._network(states)
        ratio = (_chosen(log_policy, actions) - before).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
        clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
        gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
        entropy = -(log_policy.exp() * log_policy).sum(-1).mean()
        loss: Tensor = (
            options.value_weight * nn.functional.mse_loss(values, returns)
            - gain
            - options.entropy_weight * entropy
        )
        return loss


class _ActorCritic(nn.Module):
    def __init__(self, state_size: int, knobs: int, hidden: int) -> None:
        super().__init__()
        self.shared = nn.Linear(state_size, hidden)
        self.policy = _head(hidden, knobs * DIRECTIONS)
        self.value = _head(hidden, 1)

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """(n, knobs, 3) logarithms of probabilities, and (n,) values."""
        seen = torch.tanh(self.shared(states))
        logits = self.policy(seen).unflatten(-1, (-1, DIRECTIONS))
        return logits.log_softmax(-1), self.value(seen).squeeze(-1)


def _head(hidden: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


def advantages(rewards: FloatArray, values: FloatArray, *, discount: float, gae: float) -> FloatArray:
    """Generalised advantage estimates (Schulman et al., 2016), of episodes that are cut and not over.

    Args:
        rewards: (steps, n).
        values: (steps + 1, n) what was expected before each step and after the last.
        discount: Gamma.
        gae: Lambda.

    Returns:
        (steps, n).

    Example:
        >>> advantages(np.ones((2, 1)), np.zeros((3, 1)), discount=0.5, gae=1.0).tolist()
        [[1.5], [1.0]]
    """
    found: FloatArray = np.zeros_like(rewards)
    running: Any = np.zeros(rewards.shape[1])
    for step in reversed(range(len(rewards))):
        surprise = rewards[step] + discount * values[step + 1] - values[step]
        running = surprise + discount * gae * running
        found[step] = running
    return found


def _chosen(log_policy: Tensor, actions: Tensor) -> Tensor:
    """(n,) logarithms of the probability of actions."""
    return log_policy.gather(-1, actions.unsqueeze(-1)).squeeze(-1).sum(-1)
