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
from typing import Any

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
from scripts.bench.common import machine, options

ARGUMENTS = (("float32", (64,)), ("float32", (64,)))
BATCH = 100
# A build of a small program takes 1.2 GiB of address space; the planted ones take all they get.
BUILD_LIMITS = Limits(address_space_bytes=2000 << 20, cpu_s=90, file_bytes=1 << 30)


@dataclass(frozen=True)
class PlantedProgram:
    """One way to fail, and how a collector must report it."""

    function: Any
    """The ``tirx.PrimFunc``, of ARGUMENTS; a right one would double its input."""
    status: str
    words: str
    """A regular expression that the error must match."""

    @property
    def module_json(self) -> str:
        """As the builder takes it."""
        import tvm

        module = tvm.IRModule({"main": self.function.with_attr("global_symbol", "main")})
        return str(tvm.ir.save_json(module))


def right() -> Any:
    """The program that all of them should compute."""
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            with T.sblock("b"):
                v = T.axis.spatial(64, i)
                b[v] = a[v] * T.float32(2)

    return function


def planted() -> dict[str, PlantedProgram]:
    """All kinds by name."""
    return {
        "segmentation fault": PlantedProgram(_stray(), "run_error", "SIGSEGV"),
        "endless loop": PlantedProgram(_endless(), "run_timeout", "killed after"),
        "endless build": PlantedProgram(_long(), "build_timeout", "killed after"),
        "out of memory at run": PlantedProgram(_greedy(), "run_error", "memory limit"),
        "out of memory at build": PlantedProgram(_vast(), "build_error", "memory limit"),
        "illegal instruction": PlantedProgram(_trap(), "run_error", "SIGILL"),
        "does not compile": PlantedProgram(_misused(), "build_error", "Check failed"),
        "wrong output": PlantedProgram(_tripled(), "wrong_output", "argument 1 differs"),
        "abort": PlantedProgram(_calling("abort"), "run_error", "SIGABRT"),
        "exit": PlantedProgram(_calling("exit", 3), "run_error", "exit code 3"),
    }


def _stray() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            b[T.Cast("int64", i) + T.int64(1 << 42)] = a[i] * T.float32(2)

    return function


def _endless() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        while a[0] > T.float32(0):
            b[0] = b[0] + a[0]

    return function


def _long() -> Any:
    """Six million statements, all the same one: TVM walks over them for minutes, in little memory."""
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        for _ in T.unroll(2500):
            for _ in T.unroll(2500):
                b[0] = b[0] * a[0]

    return function


def _vast() -> Any:
    """Code that does not fit into memory."""
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        for i in T.unroll(100000000):
            b[i % 64] = b[i % 64] * a[(i * 7) % 64] + a[(i * i) % 64]

    return function


def _greedy() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        c = T.alloc_buffer((1 << 34,), "float32")
        for i in range(1 << 34):
            c[i] = a[i % 64]
        for i in range(64):
            b[i] = c[T.Cast("int64", i) * T.int64(1 << 28)]

    return function


def _trap() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        T.evaluate(T.call_llvm_intrin("void", "llvm.trap"))

    return function


def _misused() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        T.evaluate(T.call_intrin("int32", "tirx.tvm_mma_sync", a.data))

    return function


def _tripled() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            b[i] = a[i] * T.float32(3)

    return function


def _calling(name: str, *arguments: int) -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        T.evaluate(T.call_extern("int32", name, *arguments))

    return function


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
@options.quick("100 good and 10 bad ones.")
@click.option("--seed", default=0)
@options.json_file()
def main(good: int, bad: int, quick: bool, seed: int, path: Path | None) -> None:
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
    machine.write_result(path, figures)
    grown = [key for key in ("open_files_beside_children", "files") if history[-1][key] > history[0][key]]
    left = end["children"] + end["files"] + max(h["zombies"] for h in history)
    if torture.surprises or grown or left:
        raise click.ClickException("There are surprises, or something was left over; see above.")


def _module(function: Any) -> Any:
    import tvm

    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
