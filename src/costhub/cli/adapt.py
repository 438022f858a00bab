"""Provides `costhub adapt`: a model for another device, from a model of others and some measured programs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from costhub.api.measuring import BoardsAt
from costhub.api.subjects import Subjects, check_names
from costhub.cli.shared.adapt_target import AdaptTarget, Carrying, StoredTarget, live_target, new_to_source
from costhub.cli.shared.choices import ADAPT_STOP, ARCHITECTURE, METHOD, MODEL, TRACKER, WholeNumber
from costhub.cli.shared.finished import asked_for, finished_before, finished_text
from costhub.cli.shared.options import (
    ListingCommand,
    allow_other_kind_option,
    check_tracker_options,
    named_options,
    named_subjects,
    named_values,
    seed_option,
)
from costhub.errors import ArgumentError, DeviceError
from costhub.terminal_text import counted
from costhub.transfer.stopping import DEFAULT_STOP

if TYPE_CHECKING:
    from costhub.dataset.programs import Programs
    from costhub.hub.catalogue.find import ResolvedModel
    from costhub.models.info import ModelInfo
    from costhub.models.options import OptionDescription
    from costhub.models.protocol import CostModel
    from costhub.transfer.adapt import Adaptation


@dataclass(frozen=True)
class AdaptedModel:
    """An adapted model, with its figures and its origin."""

    source: str
    """Name of the model that was adapted."""
    device_id: str
    done: Adaptation
    figures: Mapping[str, dict[str, Any] | None]
    """`before` and `after` -> figures on held-out workloads; None if nothing was held out."""
    held_out: Sequence[str]
    """Ids of these workloads."""
    data_credit: str | None = None
    """Who measured the programs that both models learned from."""
    ended: str | None = None
    """Why measuring ended and how many programs failed; None if nothing was measured for it."""
    before: ModelInfo | None = None
    """What is known of the source."""
    asked: str | None = None
    """What the command asked for, see `asked_for`."""

    def save(self, out: Path, *, licence: str, seed: int) -> None:
        """Writes the model folder, with card and `adaptation.json`."""
        from costhub.cli.shared.learning import model_documents
        from costhub.models.folder import save_model
        from costhub.models.train import describe_model

        after = self.figures["after"]
        info = describe_model(
            self.done.model,
            self.done.learned,
            device_id=self.device_id,
            seed=seed,
            licence=licence,
            metrics=after["totals"] if after else None,
            test_workloads=self.held_out,
        )
        info = replace(
            info,
            base=self.source,
            method=self.done.summary,
            data_credit=self.data_credit,
            base_devices=self.before.known_devices if self.before else (),
            base_workloads=self.before.known_workloads if self.before else (),
        )
        told = {"source": self.source, "asked_sha256": self.asked, **self.done.to_json()}
        documents = model_documents(self.done.model, info, after, out.name, transfer=told)
        save_model(self.done.model, out, info, documents=documents)

    def as_json(self, out: Path) -> str:
        """The result for machines."""
        found = {"folder": str(out), **self.figures, **self.done.to_json()}
        return json.dumps({**found, "ended": self.ended, "finished_before": False}, indent=2)

    def report(self, out: Path, *, explain: bool) -> str:
        """The result as text."""
        from costhub.cards.adaptation import masks_table
        from costhub.cards.tables import TableColumn, number, plain_table
        from costhub.models.evaluate import METRICS
        from costhub.transfer.guard import ADAPTED, CANDIDATES

        done = self.done
        totals = [{"model": side, **found["totals"]} for side, found in self.figures.items() if found]
        asked = [{"trials": v.trials, **v.pairwise} for v in done.verdicts if v.pairwise]
        shares = [number("trials", "trials", "d"), *(number(name, name) for name in CANDIDATES)]
        parts = [
            "On held-out workloads:\n"
            + plain_table(totals, [TableColumn("model", ""), *(number(name, name) for name in METRICS)])
            if totals
            else "No workload was held out, so the model was not evaluated.",
            f"Share of the pairs in each new batch that were ranked correctly before learning from it:\n"
            f"{plain_table(asked, shares)}",
        ]
        if done.chosen == ADAPTED and not totals and not done.is_ahead:
            tested = "it ranked the last batch no better than its source" if len(asked) > 1 else "no batch tested it"
            parts.append(
                f"The adapted model was written, but {tested}: nothing shows that it is better. With 256 trials or "
                "more, an eighth is held out to evaluate it."
            )
        if not done.is_adapted:
            parts.append(
                f"Adapting by {done.method} gave NaN or infinity after every batch: the {done.chosen} model was kept."
            )
        elif done.chosen != ADAPTED:
            parts.append(
                f"The guard preferred the {done.chosen} model to the one adapted by {done.method}, and wrote it."
            )
        if explain:
            parts.append(masks_table(done.to_json()))
        wrote = f"{done.model.arch} for {self.device_id}, from {self.source} and {counted(done.trials, 'trial')}."
        ended = "" if self.ended is None else f"\n{self.ended}"
        return "\n\n".join(parts) + f"{ended}\nWrote {out}: {wrote}"


EXAMPLE = """
\b
Example:
  costhub adapt auto --trials 300 --out my-model/
  costhub adapt auto resnet18.c7 mobilenet_v2 --out my-model/
  costhub adapt amd-epyc-zen5-2c --data intel-xeon-graniterapids-2c --out my-model/
  costhub adapt nvidia-a100 --data measurements/ --trials 256 --out my-model/
  costhub adapt nvidia-a100 --data measurements/ --method lottery --option ratio=0.3 --out my-model/
  costhub adapt amd-epyc-zen5-2c --tracker 127.0.0.1:9190 --key pi4 --suite resnet18 --out my-model/
"""
STOP_WITH_DATA = (
    "--stop ends measuring, and the programs in --data are measured already: leave it out. The model learns from all "
    "of them, or from as many as --trials says."
)
SPLIT_WITHOUT_DATA = "--split divides existing measurements; leave it out to measure new ones."
TRIALS = 256
"""Default number of trials on a device that is measured."""


def _described(method: str | None) -> dict[str, list[OptionDescription]]:
    """The options of a method, or of all of them."""
    from costhub.transfer.methods.by_name import METHODS, method_options

    return {name: method_options(name) for name in (METHODS if method is None else [method])}


@click.command("adapt", epilog=EXAMPLE, cls=ListingCommand)
@click.argument("name", type=MODEL, metavar="NAME")
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option(
    "--data",
    help="Measurements of the target: a data folder, or the name of a dataset or device. Without it, or with a "
    "WORKLOAD, --suite, --network or --tracker, the target is measured, and its rows go here, by default to OUT-data.",
)
@click.option(
    "--device", metavar="DEVICE", help="Target device: one in the data, or one of this machine (`costhub devices`)."
)
@click.option(
    "--suite", "suites", metavar="SUITE", multiple=True, help="Measure workloads of a suite, as in `costhub collect`."
)
@click.option("--network", "networks", metavar="NETWORK", multiple=True, help="Measure workloads of a network.")
@click.option("--tracker", type=TRACKER, help="Measure on the boards of a TVM RPC tracker.")
@click.option("--key", metavar="KEY", help="The boards' key at the tracker.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Model folder to write.")
@click.option("--arch", type=ARCHITECTURE, help="Architecture of the source; by default that of the best model.")
@click.option(
    "--method",
    type=METHOD,
    default="corrected",
    show_default=True,
    help="How the source learns from the measurements.",
)
@named_options("method", "METHOD", _described)
@click.option(
    "--source-data",
    metavar="DATA",
    help="Measurements of the source's devices, as for --data, for methods that compare with them (moses).",
)
@click.option(
    "--trials",
    type=WholeNumber(min=2),
    help="Maximum number of programs to learn from, over all workloads; by default all in the data folder, or "
    f"{TRIALS} if the target is measured. See --stop.",
)
@click.option(
    "--stop",
    type=ADAPT_STOP,
    help=f"When to stop measuring before all trials are spent, by default {DEFAULT_STOP}: once new batches teach the "
    "model nothing more (gain), once its accuracy no longer varies (variation), or never.",
)
@click.option(
    "--split",
    "chosen",
    help="Split, by name in the data folder or as a file: learn "
    "from its train workloads, evaluate on its test workloads.",
    metavar="SPLIT",
)
@click.option("--explain", is_flag=True, help="Show what each layer was allowed to learn.")
@allow_other_kind_option
@seed_option
@click.option(
    "--licence", metavar="LICENCE", default="Apache-2.0", show_default=True, help="Licence of the model (an SPDX name)."
)
@click.option(
    "--contributor",
    metavar="NAME",
    default="anonymous",
    show_default=True,
    help="Name written into the rows if the target is measured; their licence is CC-BY-4.0.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    name: str,
    workloads: tuple[str, ...],
    data: str | None,
    device: str | None,
    suites: tuple[str, ...],
    networks: tuple[str, ...],
    tracker: str | None,
    key: str | None,
    out: Path,
    arch: str | None,
    method: str,
    pairs: tuple[str, ...],
    source_data: str | None,
    trials: int | None,
    stop: str | None,
    chosen: str | None,
    explain: bool,
    allow_other_kind: bool,
    seed: int,
    licence: str,
    contributor: str,
    as_json: bool,
) -> None:
    """Adapt the model NAME to a device with measurements in a data folder, or to this machine.

    NAME is a name as for `costhub pull`, or auto: the model in the hubs that ranks the first measurements best.
    WORKLOAD is a kernel, network or suite to measure, as in `costhub tune`; without it or --data, all suites.

    Each new batch first serves as a test: the adapted model, the source and a model trained on the target alone rank
    its programs before they learn from them. OUT gets the adapted model unless another one is clearly better.
    Interrupt it at any time and start it again: nothing is measured twice.
    """
    from costhub.hub.catalogue.find import AUTO, find_model

    _check_options(tracker, key, device or AUTO, out)
    what = named_subjects(workloads, suites, networks)
    how = Carrying(method, named_values(pairs), source_data, seed, arch).checked()
    named = None if name == AUTO else find_model(name, arch=arch)
    where = BoardsAt(tracker, key) if tracker and key else device or AUTO
    check = partial(_check_device, named=None if allow_other_kind else named, out=out)
    stored = None
    if _is_stored(click.get_current_context().params):
        _refuse(STOP_WITH_DATA, stop)
        stored = _stored_target(str(data), device, chosen, trials, seed, check)
        opened: AbstractContextManager[AdaptTarget] = nullcontext(stored)
    else:
        _refuse_stored(chosen, data)
        _check_live(what, where, None if allow_other_kind else named)
        folder = Path(data) if data else out.with_name(f"{out.name}-data")
        trials, stop = trials or TRIALS, stop or DEFAULT_STOP
        measured: dict[str, Any] = {"suites": what.workloads, "networks": what.networks, "trials": trials, "seed": seed}
        opened = live_target(folder, where=where, contributor=contributor, check=check, **measured)
    asked = asked_for(click.get_current_context().params, None if stored is None else stored.data)
    if (told := finished_before(out, asked)) is not None:
        return click.echo(finished_text(out, told, explain=explain, as_json=as_json))
    with opened as target:
        result = replace(_carry(named, target, replace(how, stop=stop)), asked=asked)
    result.save(out, licence=licence, seed=seed)
    click.echo(result.as_json(out) if as_json else result.report(out, explain=explain))


def _check_options(tracker: str | None, key: str | None, device: str, out: Path) -> None:
    """Refuses --tracker without --key or the reverse, boards beside a device, and an --out to be kept."""
    from costhub.models.folder import check_replaceable

    check_tracker_options(tracker, key, (device,))
    check_replaceable(out)


def _is_stored(asked: Mapping[str, Any]) -> bool:
    """Whether the model learns from the measurements in --data alone."""
    return asked["data"] is not None and not any(asked[name] for name in ("workloads", "suites", "networks", "tracker"))


def _check_device(row: Mapping[str, Any], *, named: ResolvedModel | None, out: Path) -> None:
    """Refuses a source for another kind of device, and a folder with a model of another device, before it measures."""
    from costhub.hub.catalogue.find import check_kind
    from costhub.hub.catalogue.hubs import read_config

    device_id = str(row["device_id"])
    if named is not None:
        check_kind(named.entry, str(row.get("kind")), device=device_id)
    own = read_config(out).get("device_id") if out.exists() and any(out.iterdir()) else device_id
    if own != device_id:
        raise ArgumentError(f"{out} holds a model of {own}, and this one is for {device_id}. Choose another folder.")


def _refuse(why: str, option: str | None) -> None:
    """Refuses an option that is given, and does not go with the others."""
    if option is not None:
        raise click.UsageError(why)


def _refuse_stored(split: str | None, data: str | None) -> None:
    """Refuses a split, and the name of a dataset or device of a hub for the folder of new measurements."""
    from costhub.errors import AmbiguousNameError, CosthubError
    from costhub.hub.data import find_data

    _refuse(SPLIT_WITHOUT_DATA, split)
    if data is None or Path(data).exists() or "/" in data.removeprefix("costhub/"):
        return
    try:
        find_data(data)
    except AmbiguousNameError:
        pass
    except CosthubError:
        return
    raise click.UsageError(
        f"With a WORKLOAD, --suite, --network or --tracker, --data is the folder for new measurements, and {data} is a "
        f"name in a hub. Write ./{data} for a folder of that name."
    )


def _check_live(what: Subjects, where: str | BoardsAt, model: ResolvedModel | None) -> None:
    """Refuses names that do not exist, a model of another kind, and boards that do not answer, before TVM is loaded."""
    from costhub.api.measuring import check_boards, local_devices
    from costhub.api.models import check_local_kind

    file = next((name for name in what.workloads if name.endswith(".json")), None)
    if file is not None:
        raise ArgumentError(
            f"`costhub adapt` measures kernels by name, and {file} is a file. Measure it with `costhub collect {file} "
            "--out FOLDER`, and give --data FOLDER instead."
        )
    devices = local_devices(where)
    if devices and model is not None:
        check_local_kind(model.entry, devices[0])
    try:
        check_names(what.workloads, what.networks, devices)
    except DeviceError as error:
        raise DeviceError(f"{error} If its programs have been measured, name them with --data.") from error
    check_boards(where)


def _stored_target(
    data: str,
    device: str | None,
    split: str | None,
    trials: int | None,
    seed: int,
    check: Callable[[Mapping[str, Any]], None],
) -> StoredTarget:
    """The target of a data folder; refuses wrong names, and what `check` refuses, before a model is loaded."""
    from costhub.dataset.folder import DataFolder, chosen_devices
    from costhub.dataset.splits.split import find_split
    from costhub.hub.data import find_data

    place = find_data(data)
    folder = DataFolder.open(place.folder)
    named = device or place.device_id or folder.only_device(" with --device.")
    chosen_devices(folder, folder.device_ids(), [named])
    if split is not None:
        find_split(place.folder, split)
    target = StoredTarget(place.folder, named, split, trials, seed)
    check(target.row)
    return target


def _carry(named: ResolvedModel | None, target: AdaptTarget, how: Carrying) -> AdaptedModel:
    """Chooses the source, adapts it, and evaluates both models."""
    from costhub.dataset.credit import joined_credit
    from costhub.hub.catalogue.find import is_alike
    from costhub.hub.catalogue.hubs import read_config
    from costhub.hub.dataset_documents import folder_credit
    from costhub.models.info import ModelInfo
    from costhub.transfer.adapt import Source
    from costhub.transfer.methods.lottery import trees_note

    row = target.row
    if how.stop is not None and (advice := _advice(named, row, how.arch)):
        click.echo(advice, err=True)
    found, source = _source(named, target, how.arch, how.seed)
    before = ModelInfo.from_config(read_config(found.entry.folder), path=str(found.entry.folder))
    name, device_id = found.entry.name, str(row["device_id"])
    if device_id in before.device_ids:
        click.echo(f"{name} has already learned from {device_id}, so adapting it may gain little.", err=True)
    method = how.method()
    if note := trees_note(method, source, target.first(source.feature_spec)):
        click.echo(note, err=True)
    known = Source(source, how.source_programs(source.feature_spec), is_alike(found.entry, row, target.data))
    done = target.adapted(known, method, how.seed, how.stop)
    test = new_to_source(before, target.test(source.feature_spec), name, device_id)
    figures = {side: _figures(model, test, target.data) for side, model in (("before", source), ("after", done.model))}
    held_out = [] if test is None else sorted({test.workload_ids[i] for i in test.workload.tolist()})
    credit = joined_credit(before.data_credit, folder_credit(target.data, [device_id]))
    return AdaptedModel(
        name,
        device_id,
        done,
        figures,
        held_out,
        data_credit=credit,
        ended=target.ended(done),
        before=before,
    )


def _advice(named: ResolvedModel | None, row: Mapping[str, Any], arch: str | None) -> str | None:
    """Says before measuring that adapting is not worth it where the model knows the device's instructions."""
    from costhub.hub.catalogue.devices import knows_instructions
    from costhub.hub.catalogue.find import AUTO, choose_model, models_of_kind

    found = named or (models_of_kind(row, arch=arch)[0] if arch else choose_model(AUTO, row))
    if not knows_instructions(found.entry.devices, row):
        return None
    return (
        f"{found.entry.name} has learned from CPUs with the same vector instructions as {row['device_id']}. On such "
        "CPUs, adapting gained next to nothing: `costhub tune` with the unchanged model is just as good. Press Ctrl-C "
        "to stop measuring, which otherwise continues until --trials or --stop ends it."
    )


def _source(
    named: ResolvedModel | None, target: AdaptTarget, arch: str | None, seed: int
) -> tuple[ResolvedModel, CostModel]:
    """The source model, bound to the target: the named one, or the one that ranks the target best."""
    from costhub.hub.catalogue.find import AUTO, choose_model, models_of_kind
    from costhub.hub.pull import pull_resolved
    from costhub.models.folder import load_model
    from costhub.transfer.sources import rank_sources

    row = target.row
    listed = [named] if named else models_of_kind(row, arch=arch)
    candidates = {found.entry.name: found for found in listed}
    models = {each: load_model(pull_resolved(found))[0].bind(row) for each, found in candidates.items()}
    chosen, reason = listed[0].entry.name, listed[0].reason
    if named is None:
        best, *others = rank_sources(models, target.first, seed=seed, tell_apart=True)
        chosen = best.name
        second = f"; next is {others[0].name} with {others[0].pairwise:.3f}" if others else ""
        reason = (
            f"Of {counted(len(models), 'model')}, it ranks {counted(best.programs, 'program')} measured here best: "
            f"{best.pairwise:.3f} of the pairs are in the right order{second}."
        )
        default = choose_model(AUTO, row).entry.name
        if chosen != default:
            reason += (
                f" `costhub tune` by itself would take {default}; `{_from_same_rows(default, target)}` shows its "
                "figures on held-out workloads."
            )
    click.echo(f"Source {chosen} ({models[chosen].arch}). {reason}", err=True)
    return candidates[chosen], models[chosen]


def _from_same_rows(source: str, target: AdaptTarget) -> str:
    """The command that adapts another source without measuring anything."""
    from costhub.dataset.folder import DataFolder

    context = click.get_current_context()
    # After a measurement, the folder holds the programs that --trials asked for.
    kept = {"chosen": "--split", "seed": "--seed"} | ({"trials": "--trials"} if _is_stored(context.params) else {})
    typed = [key for key in kept if context.get_parameter_source(key) is ParameterSource.COMMANDLINE]
    options = [part for key in typed for part in (kept[key], str(context.params[key]))]
    if len(DataFolder.open(target.data).device_ids()) > 1:
        options = ["--device", str(target.row["device_id"]), *options]
    return shlex.join(["costhub", "adapt", source, "--data", str(target.data), *options, "--out", "OTHER"])


def _figures(model: CostModel, test: Programs | None, data: Path) -> dict[str, Any] | None:
    """The figures of a model on the held-out workloads; None without any."""
    from costhub.api.evaluation import described_figures
    from costhub.cli.shared.learning import evaluated

    evaluation = None if test is None else evaluated(model, test)
    return described_figures(evaluation, data) if evaluation else None
