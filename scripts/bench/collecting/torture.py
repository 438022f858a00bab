"""Builds and runs thousands of good programs with hundreds of planted bad ones among them."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import psutil

from costhub.collector.build.builder import Builder, BuildResult
from costhub.collector.device.local import local_target
from costhub.collector.propose.sampler import Sampler
from costhub.collector.run.evaluator import Arguments, Evaluator
from costhub.collector.run.output_check import DefaultProgram, default_program
from costhub.collector.run.runner import Runner
from costhub.collector.workloads.suites import SuiteWorkload
from costhub.isolation.limits import Limits
from costhub.progress import bar
from scripts.bench.collecting.planted import ARGUMENTS, planted, right
from scripts.bench.common import machine

BATCH = 100
# A build of a small program takes 1.2 GiB of address space; the planted ones take all they get.
BUILD_LIMITS = Limits(address_space_bytes=2000 << 20, cpu_s=90, file_bytes=1 << 30)


@dataclass(frozen=True)
class Candidate:
    """One program, and what must become of it."""

    kind: str
    module_json: str
    arguments: Arguments
    workload: str
    status: str = "ok"
    words: str = ""


def good_ones(count: int, target: str, defaults: dict[str, DefaultProgram]) -> Iterator[Candidate]:
    """Distinct programs of small workloads, of as many workloads as it takes."""
    left, size = count, 16
    while left > 0:
        for operator, shape in (("matmul", (size, 32, 64)), ("softmax", (size, 2 * size))):
            workload = SuiteWorkload(f"{operator}.{size}", operator, shape)
            module = workload.module()
            defaults[workload.name] = default_program(module, target)
            programs = Sampler(module, target, seed=size).random(min(left, 100))
            left -= len(programs)
            for p in programs:
                yield Candidate("good", p.module_json, p.arguments, workload.name)
        size += 1


def bad_ones(count: int) -> Iterator[Candidate]:
    """The kinds in turn."""
    kinds = [(kind, p, p.module_json) for kind, p in planted().items()]
    for number in range(count):
        kind, p, module_json = kinds[number % len(kinds)]
        yield Candidate(kind, module_json, ARGUMENTS, "planted", p.status, p.words)


class Torture:
    """One builder and one runner, and everything that is asked of them."""

    def __init__(self, builder: Builder, runner: Runner, defaults: dict[str, DefaultProgram]) -> None:
        self.builder, self.runner, self.defaults = builder, runner, defaults
        self.as_expected: Counter[str] = Counter()
        self.surprises: list[dict[str, str]] = []
        self.seconds: dict[str, float] = defaultdict(float)
        built = builder.build([default.module_json for default in defaults.values()])
        self.expected = dict(zip(defaults, built, strict=True))

    def batch(self, candidates: list[Candidate]) -> None:
        """Builds them all, then runs them one by one."""
        start = time.monotonic()
        built = self.builder.build([c.module_json for c in candidates])
        self.seconds["build"] += time.monotonic() - start
        for candidate, result in zip(candidates, built, strict=True):
            start = time.monotonic()
            status, error = self.outcome(candidate, result)
            self.seconds[candidate.kind] += time.monotonic() - start
            if status == candidate.status and re.search(candidate.words, error):
                self.as_expected[candidate.kind] += 1
            else:
                self.surprises.append({"kind": candidate.kind, "status": status, "error": error[:300]})

    def outcome(self, candidate: Candidate, result: BuildResult) -> tuple[str, str]:
        """Status and error; a good program's outputs must have been compared."""
        if result.artifact is None:
            return result.status, result.error or ""
        default, library = self.defaults[candidate.workload], self.expected[candidate.workload]
        self.runner.expected(library.artifact or "", default.arguments, reduction=default.reduction)
        ran = self.runner.run(result.artifact, candidate.arguments, check=True, module_json=candidate.module_json)
        shutil.rmtree(os.path.dirname(result.artifact))
        unchecked = ran.status == "ok" and not ran.output_checked
        return "not checked" if unchecked else ran.status, ran.error or ""


def leftovers(place: Path) -> dict[str, int]:
    """What the process holds; only its children may change, since some of them have just died."""
    this = psutil.Process()
    children = this.children(recursive=True)
    return {
        # Each child has a pipe and a file for what it prints.
        "open_files_beside_children": this.num_fds() - 2 * len(children),
        "zombies": sum(child.status() == psutil.STATUS_ZOMBIE for child in children),
        "children": len(children),
        "files": sum(1 for path in place.rglob("*") if path.is_file()),
    }


@click.command()
@click.option("--good", default=5000)
@click.option("--bad", default=500)
@click.option("--quick", is_flag=True, help="100 good and 10 bad ones.")
@click.option("--seed", default=0)
@click.option("--json", "result", type=click.Path(path_type=Path))
def main(good: int, bad: int, quick: bool, seed: int, result: Path | None) -> None:
    """Prints the outcome of each kind and what was left over; fails on any surprise."""
    good, bad = (100, 10) if quick else (good, bad)
    place = Path(tempfile.mkdtemp(prefix="costhub-torture-"))
    os.environ["TMPDIR"] = tempfile.tempdir = str(place)
    target = json.dumps(local_target())
    defaults = {"planted": default_program(_module(right()), target)}
    candidates = [*good_ones(good, target, defaults), *bad_ones(bad)]
    order = np.random.default_rng(seed).permutation(len(candidates))
    batches = [[candidates[i] for i in order[at : at + BATCH]] for at in range(0, len(order), BATCH)]
    start, evaluator = time.monotonic(), Evaluator(repeat=2, min_repeat_ms=1)
    with (
        Builder(target, timeout_s=8.0, limits=BUILD_LIMITS) as builder,
        Runner(target, evaluator=evaluator, timeout_s=2.0) as runner,
        bar(len(candidates), desc="torture", unit="program") as shown,
    ):
        torture = Torture(builder, runner, defaults)
        history = []
        for batch in batches:
            torture.batch(batch)
            history.append(leftovers(place))
            shown.update(len(batch))
    end = leftovers(place)
    shutil.rmtree(place)
    planned = Counter(c.kind for c in candidates)
    for kind, count in planned.most_common():
        click.echo(f"{kind:26}{torture.as_expected[kind]:6} of {count:5} as expected")
    for when, held in (("first batch", history[0]), ("last batch", history[-1]), ("end", end)):
        click.echo(f"{when:12}{held}")
    for surprise in torture.surprises[:20]:
        click.echo(str(surprise))
    figures = {
        "planned": planned,
        "as_expected": torture.as_expected,
        "surprises": torture.surprises,
        "after_first_batch": history[0],
        "after_last_batch": history[-1],
        "at_the_end": end,
        "wall_s": time.monotonic() - start,
        "seconds": torture.seconds,
    }
    if result:
        result.write_text(json.dumps({**machine.describe(), **figures}, indent=1))
    grown = [key for key in ("open_files_beside_children", "files") if history[-1][key] > history[0][key]]
    left = end["children"] + end["files"] + max(h["zombies"] for h in history)
    if torture.surprises or grown or left:
        raise click.ClickException("There are surprises, or something was left over; see above.")


def _module(function: object) -> object:
    import tvm

    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


if __name__ == "__main__":
    main()
