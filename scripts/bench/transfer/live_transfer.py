"""Searches on this CPU led by models of another device, each transferred by another method."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from costhub.collector.device.identity import identify
from costhub.collector.device.local import find_local
from costhub.collector.measurer import Measurer, local_measurer
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.dataset.workload import workload_id
from costhub.hub.catalogue.devices import complete_device_row
from costhub.hub.catalogue.find import find_model
from costhub.models.architectures import new_model
from costhub.models.folder import load_model
from costhub.models.protocol import CostModel
from costhub.papers.moses import CoefficientOfVariation, MosesLottery
from costhub.search.database import SearchDatabase
from costhub.search.options import Search
from costhub.search.result import Health, TrialMeter, TuneResult
from costhub.search.task import SearchTask
from costhub.search.tune import tune
from costhub.transfer.adapt import adapt
from costhub.transfer.methods.by_name import find_method
from costhub.transfer.methods.method import TransferMethod
from scripts.bench.common import machine, options
from scripts.bench.common.data import copy_with, own_copy
from scripts.bench.common.remeasure import best_modules, remeasure
from scripts.bench.common.rows import earlier_rows
from scripts.bench.transfer.tasks import MOSES_NETWORK, MOSES_SPEC, SPEC, fitted, measured
from scripts.tables.transfer import LIVE_BASE, live_summary, live_transfer_table

WORKLOADS = ("resnet18.c7", "matmul.512x512x512", "depthwise.28x256", "batch_matmul.12x128x128x64")
ADAPTED = "adapted, then brief"
XGB = "TVM's XGBModel"
METHODS = ("frozen", "fine-tune", "lottery", "corrected", "brief")
ALL = (*METHODS, ADAPTED, XGB)
CONTROLLED, ADVERSARY, WHOLE = "lottery, controller", "lottery, adversary", "lottery, both"
"""Moses' ticket with its adaptive controller, with its domain adversary, and with both."""
OF_MOSES = (CONTROLLED, ADVERSARY, WHOLE)
DOMAIN = 0.05
"""The weight of the adversarial term, as in the benchmark `moses`."""
AHEAD = 256
"""Trials on other workloads that the adapted model has learned from."""


@dataclass(frozen=True)
class Told:
    """A method that is told what the source learned from; searches do not tell it."""

    method: TransferMethod
    programs: Programs

    @property
    def name(self) -> str:
        """That of the method."""
        return self.method.name

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        return self.method.adapt(source, target, seed=seed, source_programs=source_programs or self.programs)


@dataclass(frozen=True)
class Leaders:
    """The models that lead searches."""

    source: CostModel
    adapted: CostModel | None = None
    """The source, adapted with `AHEAD` trials here."""
    programs: Programs | None = None
    """What the source learned from."""

    def search(self, name: str, trials: int, seed: int) -> Search | None:
        """The search of a method; None for TVM's own model, and where there is no adapted one."""
        if name == XGB or (name == ADAPTED and self.adapted is None):
            return None
        if name == ADAPTED:
            assert self.adapted is not None
            return Search(self.adapted, method=find_method("brief"), seed=seed)
        if name not in OF_MOSES:
            return Search(self.source, method=find_method(name), seed=seed)
        method: TransferMethod = MosesLottery()
        if name != CONTROLLED:
            if self.programs is None:
                raise click.UsageError("The adversary compares with what Moses' network learned from; add --moses.")
            method = Told(MosesLottery(domain=DOMAIN), self.programs)
        rule = None if name == ADVERSARY else CoefficientOfVariation(trials)
        return Search(self.source, method=method, stop_rule=rule, seed=seed)


@dataclass(frozen=True)
class LiveSearch:
    """Where searches run, and for how many trials."""

    measurer: Measurer
    trials: int

    def led_by(self, workload: str, search: Search, out: Path) -> TuneResult:
        """A search by costhub."""
        return tune(find_workload(workload).module(), workload, search, self.measurer, out=out, trials=self.trials)

    def stock(self, workload: str, model: CostModel, out: Path, seed: int) -> TuneResult:
        """The same search led by TVM's own model, and not by `model`; sizes and measurements are costhub's."""
        from tvm.s_tir import meta_schedule as ms

        meter = TrialMeter()
        task = SearchTask(
            find_workload(workload).module(),
            Search(model, seed=seed),
            self.measurer,
            model=ms.cost_model.XGBModel(num_warmup_samples=0),
            score=None,
            database=SearchDatabase(out),
            meter=meter,
            trials=self.trials,
        )
        while meter.trials < self.trials and task.round(self.trials - meter.trials):
            pass
        return meter.result(workload, Health(), None)


def network_of_moses(data: Path, source_device: str, *, seed: int, held_out: Collection[str]) -> Leaders:
    """A network of the paper's form, on TVM's features, that has learned from the source without some workloads."""
    tuned = {workload_id(find_workload(name).module()) for name in held_out}
    programs = load_programs(data, device=source_device, spec=MOSES_SPEC)
    model = new_model("mlp", feature_spec=MOSES_SPEC, options=MOSES_NETWORK)
    learned = programs.of_workloads(set(programs.workload_ids) - tuned)
    model.fit(learned, None, seed=seed, progress=False)
    return Leaders(model, programs=learned)


def models(
    data: Path,
    source_device: str,
    *,
    own_data: Path | None,
    shipped: str | None,
    seed: int,
    held_out: Collection[str],
) -> Leaders:
    """A model of the source, and the same adapted with 256 trials here; neither knows the workloads held out.

    Raises:
        UsageError: The shipped model has learned from one of them.
    """
    tuned = {workload_id(find_workload(name).module()) for name in held_out}
    here = complete_device_row(identify())
    if shipped:
        model, info = load_model(find_model(shipped).entry.folder)
        if tuned & {*info.known_workloads}:
            raise click.UsageError(f"{shipped} has learned from one of the workloads: name others with --workload.")
        source = model.bind(here)
    else:
        programs = load_programs(data, device=source_device, spec=SPEC)
        source = fitted(programs.of_workloads(set(programs.workload_ids) - tuned), seed)
    if own_data is None:
        return Leaders(source)
    own = load_programs(own_data, device=str(here["device_id"]), spec=SPEC)
    pool = own.of_workloads(set(own.workload_ids) - tuned)
    return Leaders(source, adapt(source, measured(pool, AHEAD, seed), seed=seed, progress=False).model)


def searches(
    bench: LiveSearch, led: Leaders, methods: Sequence[str], workload: str, seed: int
) -> Iterator[dict[str, Any]]:
    """One row per method, the latencies remeasured side by side."""
    ours = {name: search for name in methods if (search := led.search(name, bench.trials, seed))}
    with tempfile.TemporaryDirectory() as folder:
        out = {name: Path(folder, str(i)) for i, name in enumerate(methods) if name in ours or name == XGB}
        results = {}
        for name, own in out.items():
            if name in ours:
                results[name] = bench.led_by(workload, ours[name], own)
            else:
                results[name] = bench.stock(workload, led.source, own, seed)
        best_us = remeasure({m: best_modules(out[m], workload, bench.trials) for m in out})
    for name, result in results.items():
        yield {
            "workload": workload,
            "method": name,
            "seed": seed,
            "trials": result.trials,
            "failures": result.failures,
            "seconds": result.seconds,
            "stages": result.stages,
            "best_us": best_us[name],
            "curve": result.curve,
        }


@click.command()
@options.data()
@click.option("--source", default="amd-epyc-zen5-2c-avx2", show_default=True, help="Device of the model.")
@click.option(
    "--own",
    type=click.Path(path_type=Path),
    help="The folder with this machine's measurements; by default a copy of the embedded dataset that has some.",
)
@click.option("--model", help="The name of a model to use instead of one trained on --source.")
@click.option("--moses", is_flag=True, help="A network of Moses' form instead of a blend; see the benchmark `moses`.")
@click.option("--method", "methods", multiple=True, type=click.Choice((*ALL, *OF_MOSES)), default=ALL)
@options.workloads(WORKLOADS)
@options.trials(64)
@options.seeds(3)
@options.quick("One workload, one seed, 32 trials.")
@options.json_file()
def main(
    data: Path | None,
    source: str,
    own: Path | None,
    model: str | None,
    moses: bool,
    methods: tuple[str, ...],
    workloads: tuple[str, ...],
    trials: int,
    seeds: int,
    quick: bool,
    path: Path | None,
) -> None:
    """Compares latency, seconds and trials; run it with nothing else on the machine."""
    if quick:
        workloads, trials, seeds = workloads[:1], 32, 1
    about = {"source": model or source, "base": LIVE_BASE, "trials": trials, "moses": moses}
    if LIVE_BASE not in methods:
        raise click.UsageError(f"The others are compared with {LIVE_BASE}: add --method {LIVE_BASE}.")
    rows = earlier_rows(path, **about)
    done = {(row["workload"], row["seed"]) for row in rows}
    data = data or own_copy()
    own = own or copy_with(str(identify()["device_id"]))
    with local_measurer(find_local(["auto"])) as measurer:
        measurer.launch()
        bench, is_cold = LiveSearch(measurer, trials), True
        for seed in range(seeds):
            missing = [workload for workload in workloads if (workload, seed) not in done]
            if not missing:
                continue
            held_out = {*workloads} if model else {*WORKLOADS, *workloads}
            if moses:
                led = network_of_moses(data, source, seed=seed, held_out=held_out)
            else:
                led = models(data, source, own_data=own, shipped=model, seed=seed, held_out=held_out)
            if is_cold:  # the first search would pay for the start of the processes
                with tempfile.TemporaryDirectory() as folder:
                    LiveSearch(measurer, 16).stock(missing[0], led.source, Path(folder), seed)
                is_cold = False
            for workload in missing:
                # Each method has each place in turn.
                first = (seed * len(workloads) + workloads.index(workload)) % len(methods)
                rows += searches(bench, led, [*methods[first:], *methods[:first]], workload, seed)
                click.echo(f"{workload}, seed {seed}")
                machine.write_result(path, {**about, "summary": live_summary(rows), "rows": rows})
    click.echo(live_transfer_table({"summary": live_summary(rows)}))
