"""Provides Profile: where the time of a collection went, and how near it came to its floor."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from costhub.collector.outcome import Outcome

STAGES = ("sample", "lower", "llvm", "link", "run", "reference", "other")


@dataclass
class Profile:
    """Core-seconds by stage.

    Sampling and building take one core each; while a program or the reference kernel is timed, no other core
    may work, so that those take all of them. What is left over, `other`, is start-up, messages
    between processes, writing rows, and cores with nothing to do.
    """

    cores: int
    wall_s: float = 0.0
    programs: int = 0
    good: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    """Core-seconds by stage; `other` is filled in by `stop`."""
    _start: float = field(default_factory=time.monotonic)

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Counts the block as sampling; by CPU time, as it shares the cores with the builds."""
        start = time.thread_time()
        yield
        self.seconds["sample"] += time.thread_time() - start

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Counts the block as the reference kernel, but for the run, which `note` takes off again."""
        start = time.monotonic()
        yield
        self.seconds["reference"] += (time.monotonic() - start) * self.cores

    def note(self, outcome: Outcome, *, is_first: bool) -> None:
        """Counts an outcome; its build only on the first of several devices that share it."""
        if is_first:
            self.programs += 1
            for stage in ("lower", "llvm", "link"):
                self.seconds[stage] += getattr(outcome.built.seconds, stage)
        self.good += outcome.status == "ok"
        if outcome.ran is not None:
            self.seconds["run"] += outcome.ran.wall_s * self.cores
            self.seconds["reference"] -= outcome.ran.wall_s * self.cores

    def stop(self) -> None:
        """Ends the account."""
        self.wall_s = time.monotonic() - self._start
        counted = sum(s for stage, s in self.seconds.items() if stage != "other")
        self.seconds["other"] = self.wall_s * self.cores - counted

    @property
    def floor_s(self) -> float:
        """Wall seconds that no collector can avoid: LLVM's time over all cores, plus the runs."""
        return (self.seconds["llvm"] + self.seconds["run"]) / self.cores

    @property
    def good_per_s(self) -> float:
        """Good measurements per wall second."""
        return self.good / self.wall_s if self.wall_s else 0.0

    @property
    def floor_share(self) -> float:
        """`floor_s` over `wall_s`."""
        return self.floor_s / self.wall_s if self.wall_s else 0.0

    def as_dict(self) -> dict[str, float | dict[str, float]]:
        """The figures for a JSON file."""
        return {
            "cores": self.cores,
            "wall_s": self.wall_s,
            "programs": self.programs,
            "good": self.good,
            "good_per_s": self.good_per_s,
            "floor_s": self.floor_s,
            "floor_share": self.floor_share,
            "core_seconds": dict(self.seconds),
        }
