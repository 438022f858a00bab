"""Measures whole networks beside PyTorch, torch.compile, ONNX Runtime and OpenVINO on this CPU."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from costhub.collector.device.cpu_state import core_count
from costhub.collector.workloads.network_source import (
    AS_IN_TORCH,
    BF16,
    BLOCKED,
    FLOAT32,
    LAYOUTS,
    PRECISIONS,
    Lowering,
)
from costhub.errors import CosthubError, MeasureError, NetworkError
from costhub.isolation.child import WITHOUT_TORCH
from costhub.search.whole_network.compile import CompiledNetwork
from costhub.search.whole_network.engines import openvino_precision
from costhub.search.whole_network.network_outputs import compare_outputs
from costhub.search.whole_network.network_timer import NetworkTimer
from scripts.bench.common import machine, options
from scripts.bench.common.fresh import checkout_path
from scripts.bench.engines.export import ExportedNetwork, export_network
from scripts.bench.engines.forms import (
    ENGINES,
    TORCH,
    environment,
    load_engine,
    load_tuned,
    relative_error,
)
from scripts.bench.engines.networks import ENGINE_NETWORKS, check_networks, title_of_network
from scripts.bench.engines.profiles import in_child, profile_engine, profile_tuned
from scripts.bench.engines.search import (
    NetworkCourse,
    check_threads,
    compile_tuned,
    count_flops,
    say,
    search_folder,
    search_network,
    search_stock,
)
from scripts.bench.engines.start import in_child_text, probed_peaks, warm_up
from scripts.tables.networks import engine_details_table, engines_table

COSTHUB, STOCK = "costhub", "stock"
ROUNDS = 30
"""All engines run a network in turn in each; together they last longer than a host's disturbances."""


@dataclass(frozen=True)
class Settings:
    """How networks are searched and timed."""

    trials: int
    stock: int
    threads: int
    lowerings: tuple[Lowering, ...]
    """One for each form of costhub."""
    rounds: int
    profile: bool
    engines: tuple[str, ...]
    searches: Path


@dataclass
class NetworkRows:
    """One network in all engines: a row each, and the profiles."""

    network: ExportedNetwork
    settings: Settings
    timer: NetworkTimer
    rows: list[dict[str, Any]] = field(default_factory=list)
    profiles: list[dict[str, Any]] = field(default_factory=list)
    libraries: dict[str, tuple[str, CompiledNetwork]] = field(default_factory=dict)
    flop: dict[str, dict[str, float]] = field(default_factory=dict)
    """Engine -> kernel -> operations, of libraries."""
    reference: tuple[Any, ...] | None = None

    def add(self, engine: str, precision: str, load: Any, **about: Any) -> None:
        """Loads a form, and compares its outputs with torch's, which come first."""
        row = {
            "network": title_of_network(self.network.name),
            "engine": engine,
            "precision": precision,
            "threads": self.settings.threads,
            "error": None,
            **about,
        }
        self.rows.append(row)
        start = time.perf_counter()
        try:
            # Forms that were loaded before are stopped.
            outputs = self.timer.load_form(engine, load, self._environment())
            row["ready_s"] = time.perf_counter() - start
        except MeasureError as error:
            row["error"] = str(error)
            return
        reference = self.reference = self.reference or outputs
        row["relative_error"] = relative_error(outputs, reference)
        mismatch = compare_outputs(outputs, reference) if precision == FLOAT32 else None
        if mismatch:
            row["error"] = f"The outputs are not torch's: {mismatch}."

    def _environment(self) -> dict[str, str]:
        """Of a form's process. A kernel that Inductor has compiled for another run would be ready at once."""
        caches = tempfile.mkdtemp(dir=self.network.folder)
        return {**environment(self.settings.threads), "TORCHINDUCTOR_CACHE_DIR": caches}

    def add_engines(self) -> None:
        """PyTorch and all that need no search."""
        threads = self.settings.threads
        for name in self.settings.engines:
            precision = ENGINES[name].precision
            if precision is None:
                given = str(self.network.onnx), self.network.inputs, threads
                precision = in_child_text(partial(openvino_precision, *given), threads)
            self.add(name, precision, partial(load_engine, name, self.network, threads))

    def add_tuned(self, method: str, trials: int, lowering: Lowering) -> None:
        """A library with the schedules of a search."""
        settings, program = self.settings, self.network.program
        folder = search_folder(settings.searches, self.network.name, method, lowering)
        precision, engine = ("bfloat16", f"{method}-{BF16}") if lowering.is_bf16 else (FLOAT32, method)
        library = self.network.folder / f"{engine}.so"
        try:
            course = self._searched(method, folder, trials, lowering)
            start = time.perf_counter()
            self.flop[engine] = count_flops(program, threads=settings.threads, lowering=lowering)
            read = time.perf_counter()
            compiled = compile_tuned(program, folder, library, threads=settings.threads, lowering=lowering)
            compile_s = time.perf_counter() - read
        except CosthubError as error:
            failed = {"network": title_of_network(self.network.name), "engine": engine, "precision": precision}
            self.rows.append({**failed, "threads": settings.threads, "error": str(error)})
            return
        self.libraries[engine] = str(library), compiled
        about = {
            "fast_math": lowering.fast_math,
            "layout": lowering.layout,
            "kernels": compiled.kernels,
            "kernels_tuned": compiled.tuned,
            "kernels_shared": compiled.shared,
            "kernels_searched": course.kernels,
            "trials": course.trials,
            "reading_s": read - start,
            "seconds": course.seconds,
            "compile_s": compile_s,
        }
        load = partial(load_tuned, str(library), self.network.inputs, settings.threads)
        self.add(engine, precision, load, **about)
        if not self.rows[-1]["error"]:
            self.rows[-1]["ready_without_torch_s"] = self._ready_without_torch(load)

    def _ready_without_torch(self, load: Any) -> float | None:
        """As `ready_s`, where torch is not installed: TVM imports it if it is."""
        name, start = "without torch", time.perf_counter()
        try:
            self.timer.load_form(name, load, {**self._environment(), **WITHOUT_TORCH})
        except MeasureError:
            return None
        ready_s = time.perf_counter() - start
        self.timer.drop(name)
        return ready_s

    def _searched(self, method: str, folder: Path, trials: int, lowering: Lowering) -> NetworkCourse:
        if method == STOCK:
            return search_stock(self.network.program, folder, trials=trials)
        threads = self.settings.threads
        return search_network(self.network.program, folder, trials=trials, threads=threads, lowering=lowering)

    def measure(self) -> None:
        """Times all that compute the right thing, in turn."""
        taken = self.timer.measure(rounds=self.settings.rounds)
        for row in self.rows:
            if row["engine"] in taken and not row["error"]:
                row["latency"] = vars(taken[row["engine"]])
            elif not row["error"]:
                row["error"] = "It failed while it was timed."

    def add_profiles(self) -> None:
        """Kernel by kernel, in processes of their own."""
        threads = self.settings.threads
        for row in (row for row in self.rows if not row["error"]):
            engine = row["engine"]
            if engine in self.libraries:
                path, compiled = self.libraries[engine]
                work = partial(profile_tuned, path, self.network.inputs, threads, compiled.names, self.flop[engine])
            else:
                work = partial(profile_engine, engine, self.network, threads)
            try:
                found = in_child(work, threads)
            except NetworkError as error:
                found = {"error": str(error)}
            self.profiles.append({key: row[key] for key in ("network", "engine", "precision")} | found)


def compared(name: str, settings: Settings) -> NetworkRows:
    """The rows and profiles of one network."""
    with tempfile.TemporaryDirectory(prefix="costhub-engines-") as scratch:
        say(f"{name}: exporting")
        network = export_network(name, Path(scratch, name))
        with NetworkTimer(network.inputs, settings.threads) as timer:
            found = NetworkRows(network, settings, timer)
            say(f"{name}: loading it in {', '.join(settings.engines)}")
            found.add_engines()
            say(f"{name}: searching and compiling")
            for lowering in settings.lowerings:
                found.add_tuned(COSTHUB, settings.trials, lowering)
            if settings.stock:
                found.add_tuned(STOCK, settings.stock, AS_IN_TORCH)
            say(f"{name}: timing")
            found.measure()
        if settings.profile:
            say(f"{name}: profiling")
            found.add_profiles()
        return found


def installed(names: tuple[str, ...]) -> Iterator[str]:
    """Those of the engines whose packages are here, torch first; says which are not."""
    for name in dict.fromkeys((TORCH, *names)):
        if ENGINES[name].is_installed:
            yield name
        else:
            hint = "`pip install --constraint constraints.txt --editable '.[engines]'` installs it"
            click.echo(f"{ENGINES[name].title} is left out: {ENGINES[name].package} is missing; {hint}.", err=True)


@click.command()
@click.option("--network", "networks", multiple=True, default=ENGINE_NETWORKS, show_default=True)
@click.option("--engine", "engines", multiple=True, type=click.Choice(list(ENGINES)), default=list(ENGINES))
@click.option("--trials", default=32, show_default=True, type=click.IntRange(1), help="Of costhub, for each kernel.")
@click.option("--stock", default=0, type=click.IntRange(0), help="Trials of stock MetaSchedule for each kernel.")
@click.option("--threads", default=2, show_default=True, callback=check_threads, help="Of every engine.")
@click.option(
    "--fast-math/--no-fast-math", default=True, show_default=True, help="Polynomials for exp, tanh and erf in costhub."
)
@click.option("--layout", type=click.Choice(LAYOUTS), default=BLOCKED, show_default=True, help="Of convolutions.")
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    type=click.Choice(PRECISIONS),
    default=PRECISIONS[:1],
    help="Of costhub.",
)
@click.option("--rounds", default=ROUNDS, show_default=True, type=click.IntRange(1), help="Turns of each engine.")
@click.option("--profile", is_flag=True, help="Also take the time of each kernel in each engine.")
@click.option(
    "--searches",
    type=options.PATH,
    help="Where databases are kept: an interrupted search goes on, and a finished one is not done again.",
)
@options.quick("BERT-tiny with 2 trials for each kernel and 3 rounds, without torch.compile.")
@options.json_file()
def main(networks: tuple[str, ...], quick: bool, searches: Path | None, path: Path | None, **given: Any) -> None:
    """Run it with nothing else on the machine; results are written after each network."""
    if quick:
        networks = ("bert_tiny",)
        chosen = tuple(name for name in given["engines"] if name != "torch.compile")
        given |= {"trials": 2, "rounds": 3, "engines": chosen}
    check_networks(networks)
    os.environ |= checkout_path()  # for children, which import this package
    if given["stock"] and given["threads"] != core_count():
        raise click.UsageError("--stock searches with all cores; leave --threads at their number.")
    given["engines"] = tuple(installed(given["engines"]))
    form = given.pop("fast_math"), given.pop("layout")
    given["lowerings"] = tuple(Lowering(*form, precision) for precision in given.pop("precisions"))
    result: dict[str, Any] = {"empty_s": warm_up(given["engines"], given["threads"]), "rows": [], "profiles": []}
    if given["profile"]:
        result["peaks"] = probed_peaks(given["threads"])
    with tempfile.TemporaryDirectory(prefix="costhub-engines-") as scratch:
        settings = Settings(searches=(searches or Path(scratch, "searches")).resolve(), **given)
        for name in networks:
            try:
                found = compared(name, settings)
            except CosthubError as error:  # The other networks need not suffer.
                say(f"{name} is left out. {error}")
                continue
            result["rows"] += found.rows
            result["profiles"] += found.profiles
            machine.write_result(path, {"engine_versions": engine_versions(), **result})
            click.echo(engine_details_table({"rows": found.rows}))
    click.echo(engines_table(result))


def engine_versions() -> dict[str, str]:
    """The versions of the engines' packages that are here."""
    packages = dict.fromkeys(engine.package for engine in ENGINES.values() if engine.is_installed)
    return {package: metadata.version(package) for package in packages}
