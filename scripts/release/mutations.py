"""Puts wrong implementations into copies of the package, one at a time; a test of the changed file must fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.errors import CosthubError
from scripts.bench.common import machine, options

SOURCES = "src"
COPIED = (SOURCES, "tests")
"""Folders that tests need, beside the settings of pytest in pyproject.toml."""
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", ".hypothesis")
_FAILED = re.compile(r"^FAILED (?:tests/)?(?P<test>.+?)(?: - (?P<why>.*))?$", re.MULTILINE)
_ASSERTED = re.compile(r"assert\b|AssertionError|Failed: ")
"""How the reason begins if a test failed because it noticed something, and not because the code broke."""
_SHOWN = 12
"""Last lines of tests that could not run."""
_WIDE = "500"
"""Columns of the terminal that pytest sees, so that it does not cut reasons."""


class MutationError(CosthubError):
    """A mutation cannot be applied, or the tests fail without it."""


@dataclass(frozen=True)
class Subject:
    """An algorithm and the file that implements it.

    Example:
        >>> Subject("corrected", "costhub/transfer/methods/corrected.py").tests
        'tests/transfer/methods/test_corrected.py'
    """

    algorithm: str
    file: str
    """Below `SOURCES`."""

    @property
    def tests(self) -> str:
        """The file of the tests that answer for it."""
        place = Path("tests", *Path(self.file).parts[1:])
        return place.with_name(f"test_{place.name}").as_posix()


@dataclass(frozen=True)
class Mutation:
    """A wrong implementation: one replacement in one file.

    Example:
        >>> mutation = Mutation(Subject("sum", "tiny/sum.py"), "subtracts", "a + b", "a - b")
        >>> mutation.name, mutation.applied_to("return a + b")
        ('sum: subtracts', 'return a - b')
    """

    subject: Subject
    wrong: str
    """What is wrong with it, as a clause."""
    old: str
    new: str

    @property
    def name(self) -> str:
        """The algorithm, and what is wrong with it."""
        return f"{self.subject.algorithm}: {self.wrong}"

    def applied_to(self, text: str) -> str:
        """The file with the replacement.

        Raises:
            MutationError: The old text does not occur exactly once.
        """
        if (count := text.count(self.old)) != 1:
            raise MutationError(
                f"{self.name}: the old text must occur once in {self.subject.file}, but occurs {count} times."
            )
        return text.replace(self.old, self.new)


TICKET = Subject("Moses: ticket", "costhub/transfer/methods/lottery.py")
ADVERSARY = Subject("Moses: adversarial term", "costhub/papers/moses.py")
CONTROLLER = Subject("Moses: controller", "costhub/papers/moses.py")
AGENT = Subject("ReLeASE: PPO", "costhub/papers/release.py")
NETWORK_RANK = Subject("AutoTVM: rank, networks", "costhub/models/networks/losses.py")
TREE_RANK = Subject("AutoTVM: rank, trees", "costhub/models/trees/gbt.py")
ANNEALING = Subject("AutoTVM: annealing", "costhub/papers/autotvm.py")
RESIDUAL = Subject("AutoTVM: residual", "costhub/models/compound/residual.py")
CORRECTED = Subject("corrected", "costhub/transfer/methods/corrected.py")
GUARD = Subject("guard", "costhub/transfer/guard.py")
ADAPT_STOP = Subject("rule gain of adapt", "costhub/transfer/stopping.py")
SEARCH_STOP = Subject("rule gain of tune", "costhub/search/stopping.py")

_FLOW = "w.detach() * grad for"
_DECAY = "self._before[name] * (1.0 - rate * self.decay)"
_DRAWN = "        gradient()\n        self.draw(network)"
_RATIO = "ratio = (_log_probability(log_policy, actions) - before).exp()"
_CLIPPED = "torch.minimum(ratio * advantage, clipped * advantage)"
_CRITIC = "options.value_weight * nn.functional.mse_loss(values, returns) - gain"
_ENTROPY = " - options.entropy_weight * entropy"
_RETURNS = "list((gains + values[:-1]).astype(np.float32))"

MUTATIONS = (
    Mutation(TICKET, "xi is the gradient alone", _FLOW, "grad for"),
    Mutation(TICKET, "xi is the weight alone", _FLOW, "w.detach() for"),
    Mutation(TICKET, "the weights with the smallest xi learn", _FLOW, "1.0 / (w.detach() * grad) for"),
    Mutation(TICKET, "the decay ignores the learning rate", _DECAY, "self._before[name] * (1.0 - self.decay)"),
    Mutation(TICKET, "frozen weights keep their step", _DECAY, "weight * (1.0 - rate * self.decay)"),
    Mutation(
        TICKET,
        "the mask is never redrawn",
        _DRAWN,
        "        if not self._masks:\n            gradient()\n            self.draw(network)",
    ),
    Mutation(ADVERSARY, "the gradient is not reversed", "return -gradient", "return gradient"),
    Mutation(
        CONTROLLER,
        "the standard deviation is not divided by the mean",
        "    return float(outcome.std() / outcome.mean())",
        "    return float(outcome.std())",
    ),
    Mutation(
        CONTROLLER,
        "the scores are taken for log throughput",
        "scores = line.slope * np.concatenate(",
        "scores = np.concatenate(",
    ),
    Mutation(AGENT, "no clip", _CLIPPED, "(ratio * advantage)"),
    Mutation(AGENT, "clips where it would lose", _CLIPPED, "torch.maximum(ratio * advantage, clipped * advantage)"),
    Mutation(AGENT, "no critic", _CRITIC, "-gain"),
    Mutation(AGENT, "no entropy bonus", _ENTROPY, ""),
    Mutation(AGENT, "entropy is punished", _ENTROPY, " + options.entropy_weight * entropy"),
    Mutation(AGENT, "no importance ratio", _RATIO, "ratio = _log_probability(log_policy, actions).exp()"),
    Mutation(AGENT, "returns without what was expected", _RETURNS, "list(gains.astype(np.float32))"),
    Mutation(NETWORK_RANK, "pairs are weighted by their gap", '{"rank": "equal",', '{"rank": "gap",'),
    Mutation(
        NETWORK_RANK,
        "a hinge instead of the logistic loss",
        "functional.softplus(-gap.sign() * (scores[first] - scores[second]))",
        "functional.relu(1.0 - gap.sign() * (scores[first] - scores[second]))",
    ),
    Mutation(
        TREE_RANK,
        "pairs are divided by the distance of their scores",
        '**(_AS_PUBLISHED if self.objective == "rank" else {})',
        "**{}",
    ),
    Mutation(
        TREE_RANK,
        "only pairs with one of the best 32",
        '(ALL_PAIRS if self.objective == "rank" else TOP_PAIRS)',
        "TOP_PAIRS",
    ),
    Mutation(
        ANNEALING,
        "the temperature does not fall",
        "self.options.hottest * (1 - step / self.options.steps)",
        "self.options.hottest",
    ),
    Mutation(
        RESIDUAL,
        "no correction term",
        "return scores if self.local is None else scores + self.local.predict(rows, counts)",
        "return scores",
    ),
    Mutation(
        RESIDUAL,
        "the local trees learn the throughput, not the error",
        "scores=self.slope * base",
        "scores=0.0 * base",
    ),
    Mutation(RESIDUAL, "predicts without the slope", "scores = self.slope * base", "scores = base"),
    Mutation(CORRECTED, "no correction term", "weight=1.0 - kept", "weight=0.0"),
    Mutation(GUARD, "never falls back", "if tested < 2 or lead.mean()", "if tested >= 0 or lead.mean()"),
    Mutation(
        ADAPT_STOP,
        "never stops",
        "(mean := statistics.fmean(gains)) >= self.worth",
        "(mean := statistics.fmean(gains)) >= -1.0",
    ),
    Mutation(SEARCH_STOP, "never stops", "saved_s >= self.worth * latency_s", "saved_s >= 0.0"),
)


Outcome = Literal["noticed", "unnoticed", "broken", "too slow"]
"""`broken`: the tests could not run, or failed of something other than an assertion."""


@dataclass(frozen=True)
class Verdict:
    """What tests said about a copy."""

    outcome: Outcome
    seconds: float
    test: str | None = None
    """The first test that failed, below tests/."""
    why: str = ""
    """Why it failed; of tests that could not run, their last lines."""


def copied(root: Path, place: Path) -> Path:
    """A copy of the sources and the tests of a checkout."""
    for name in COPIED:
        shutil.copytree(root / name, place / name, symlinks=True, ignore=_LEFT_OUT)
    shutil.copy(root / "pyproject.toml", place)
    return place


def verdict_on(copy: Path, tests: Sequence[str], *, timeout_s: float) -> Verdict:
    """Runs test files of a copy until the first failure, with the sources of the copy.

    Args:
        copy: See `copied`.
        tests: Files of tests, as `Subject` names them.
        timeout_s: Seconds after which the tests are ended.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    own = {"PYTHONPATH": os.fspath(copy / SOURCES), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": _WIDE}
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=copy,
            env={**os.environ, "PYTEST_ADDOPTS": "", **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Verdict("too slow", time.perf_counter() - began)
    seconds = time.perf_counter() - began
    failed = _FAILED.search(done.stdout)
    if done.returncode == 0:
        return Verdict("unnoticed", seconds)
    if done.returncode != 1 or failed is None:  # 1: some tests failed; anything else: not even that
        return Verdict("broken", seconds, why="\n".join(done.stdout.strip().splitlines()[-_SHOWN:]))
    why = failed["why"] or ""
    return Verdict("noticed" if _ASSERTED.match(why) else "broken", seconds, failed["test"], why)


def tried(mutation: Mutation, root: Path, *, timeout_s: float) -> Verdict:
    """What the tests of a mutation say about a copy of a checkout with it.

    Raises:
        MutationError: Its old text does not occur exactly once.
    """
    with tempfile.TemporaryDirectory(prefix="costhub-mutation-") as folder:
        copy = copied(root, Path(folder))
        path = copy / SOURCES / mutation.subject.file
        path.write_text(mutation.applied_to(path.read_text(encoding="utf-8")), encoding="utf-8")
        return verdict_on(copy, [mutation.subject.tests], timeout_s=timeout_s)


def check_unchanged(mutations: Sequence[Mutation], root: Path, *, timeout_s: float) -> float:
    """Runs the tests of all mutations without any; returns the seconds that they took.

    Raises:
        MutationError: A test fails, so its failure under a mutation would mean nothing.
    """
    tests = list(dict.fromkeys(mutation.subject.tests for mutation in mutations))
    with tempfile.TemporaryDirectory(prefix="costhub-mutation-") as folder:
        verdict = verdict_on(copied(root, Path(folder)), tests, timeout_s=timeout_s)
    if verdict.outcome != "unnoticed":
        said = f"{verdict.test or verdict.outcome}: {verdict.why}"
        raise MutationError(f"The tests must pass without a mutation, but do not: {said}")
    return verdict.seconds


COLUMNS = (
    TableColumn("algorithm", "algorithm"),
    TableColumn("wrong", "wrong implementation"),
    TableColumn("outcome", "outcome"),
    TableColumn("test", "first test that fails"),
    number("seconds", "s", ".1f"),
)


@click.command()
@click.option("--only", default="", help="Part of the names of the mutations to try; by default all are tried.")
@click.option("--timeout", "timeout_s", default=600.0, show_default=True, help="Seconds for the tests of a mutation.")
@options.json_file()
def main(only: str, timeout_s: float, path: Path | None) -> None:
    """Some ten minutes on two cores; exits with 1 if a wrong implementation is not noticed."""
    chosen = [mutation for mutation in MUTATIONS if only in mutation.name]
    if not chosen:
        raise MutationError(f"No mutation has {only!r} in its name.")
    unchanged_s = check_unchanged(chosen, machine.ROOT, timeout_s=len(chosen) * timeout_s)
    click.echo(f"Without a mutation, all tests pass, in {unchanged_s:.0f} s.")
    rows: list[dict[str, Any]] = []
    for mutation in chosen:
        verdict = tried(mutation, machine.ROOT, timeout_s=timeout_s)
        rows.append(
            {
                "algorithm": mutation.subject.algorithm,
                "wrong": mutation.wrong,
                "file": f"{SOURCES}/{mutation.subject.file}",
                "tests": mutation.subject.tests,
                "outcome": verdict.outcome,
                "test": verdict.test,
                "seconds": round(verdict.seconds, 1),
            }
        )
        click.echo(f"{verdict.outcome}: {mutation.name} ({verdict.test or '-'}) {verdict.why}")
    click.echo(plain_table(rows, COLUMNS))
    machine.write_result(path, {"unchanged_s": round(unchanged_s, 1), "rows": rows})
    if any(row["outcome"] != "noticed" for row in rows):
        raise SystemExit(1)
