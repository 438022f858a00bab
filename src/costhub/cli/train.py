"""Provides `costhub train`: a model folder, with its card, from a data folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.api.models import with_data
from costhub.cli.shared.choices import ARCHITECTURE, DATA, FEATURES, OBJECTIVE, DecimalNumber, WholeNumber
from costhub.cli.shared.figures import figures_table
from costhub.cli.shared.interaction import interruptible
from costhub.cli.shared.learning import evaluated, joined_processes, read_programs, split_of, training_share
from costhub.cli.shared.options import ListingCommand, named_options, named_values, seed_option
from costhub.names import is_plain_name
from costhub.terminal_text import counted

if TYPE_CHECKING:
    from costhub.dataset.blocks import ProgramBlocks
    from costhub.dataset.programs import Programs
    from costhub.dataset.splits.split import Split
    from costhub.hub.data import DataAddress
    from costhub.models.info import ModelInfo
    from costhub.models.options import OptionDescription
    from costhub.models.protocol import CostModel

EXAMPLE = """
\b
Example:
  costhub train --data amd-epyc-zen5-2c --arch gbt --out my-trees/
  costhub train --data measurements/ --arch mlp --out my-model/
  costhub train --data measurements/ --arch gbt --split workload-14-seed0 --out my-trees/
  costhub train --data measurements/ --objective lambdarank --option hidden=512 --out large/
  costhub train --data measurements/ --arch conditioned --device cpu-1c --device cpu-2c \\
    --for any-cpu --out for-many/
"""


def _described(arch: str | None) -> dict[str, list[OptionDescription]]:
    """The options of an architecture, or of all of them."""
    from costhub.models.architectures import ARCHITECTURES, options_of
    from costhub.models.options import describe_options

    found = {name: options_of(name) for name in (ARCHITECTURES if arch is None else [arch])}
    return {name: [] if options is None else describe_options(type(options)) for name, options in found.items()}


@click.command("train", cls=ListingCommand, epilog=EXAMPLE)
@click.option(
    "--data",
    "place",
    required=True,
    type=DATA,
    help="What to learn from: a data folder, or the name of a dataset or device.",
)
@click.option(
    "--arch",
    type=ARCHITECTURE,
    default="mlp",
    show_default=True,
    help="Architecture; gbt trains in seconds, a blend ranks best.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Model folder to write.")
@click.option(
    "--device",
    "devices",
    multiple=True,
    help="Device whose measurements to use; may be repeated. Not needed if the data have only one.",
    metavar="DEVICE",
)
@click.option(
    "--for",
    "meant_for",
    callback=lambda _, __, value: _plain_name(value),
    metavar="DEVICE",
    help="Device that the model is for; by default the one it learns from. If it learns from "
    "several and this is one of them, it is evaluated on this one only.",
)
@click.option(
    "--split",
    "chosen",
    help="Split, by name in the data folder or as a file: learn "
    "from its train workloads, evaluate on its test workloads.",
    metavar="SPLIT",
)
@click.option(
    "--features",
    "spec",
    type=FEATURES,
    help="Feature spec, or several joined with +. By default loop_context@1 for treegru, trace_tokens@1 for tokens, "
    "and tiles@1 for all others.",
)
@click.option("--objective", type=OBJECTIVE, help="What to learn; log is for trees only, gap for networks only.")
@named_options("architecture", "ARCH", _described)
@click.option(
    "--stop-share",
    default=0.1,
    show_default=True,
    type=DecimalNumber(0, 0.5),
    help="Share of the training workloads held out to decide when to stop; with 0, training "
    "uses all of them and runs to its full length. --stream holds out a twentieth of the programs instead.",
)
@click.option(
    "--programs-per-workload",
    "per_workload",
    type=WholeNumber(min=2),
    metavar="N",
    is_eager=True,  # before --stream, which cannot be combined with it
    help="Learn from at most N programs of each workload and device, drawn at random; by default from all.",
)
@click.option(
    "--stream",
    is_flag=True,
    callback=lambda context, _, value: _whole_stream(context, value),
    help="Read the data block by block: for more programs than fit in memory.",
)
@seed_option
@click.option(
    "--licence", metavar="LICENCE", default="Apache-2.0", show_default=True, help="Licence of the model (an SPDX name)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    place: DataAddress,
    arch: str,
    out: Path,
    devices: tuple[str, ...],
    meant_for: str | None,
    chosen: str | None,
    spec: str | None,
    objective: str | None,
    pairs: tuple[str, ...],
    stop_share: float,
    per_workload: int | None,
    stream: bool,
    seed: int,
    licence: str,
    as_json: bool,
) -> None:
    """Train a cost model on measured programs.

    Without --split, a fifth of the workloads, from every operator that can spare one, is held out to evaluate
    the model for its card. OUT.partial keeps the progress until OUT is written: after an interruption, run the
    same command again to continue.
    """
    options = _options(objective, pairs)
    devices, data = _check_arguments(place, out, devices, chosen, arch, options), place.folder
    spec = _checked_spec(arch, spec, options, stream=stream)
    from costhub.api.evaluation import described_figures
    from costhub.hub.catalogue.devices import device_rows
    from costhub.models.train import describe_model, train_model

    partial = out.absolute().with_name(f"{out.absolute().name}.partial")
    with joined_processes(arch, stream=stream) as rank:
        programs = read_programs(data, devices, spec, stream=stream, place=rank, per_workload=per_workload, seed=seed)
        split = _to_learn_on(devices, split_of(data, programs.workload_ids, chosen, seed))
        train = programs.of_workloads(set(split.train))
        own, valid = training_share(train, rank, stop_share=stop_share, seed=seed)
        with _resumable(partial):
            model = train_model(
                own,
                arch,
                valid=0 if valid is None else valid,
                seed=seed,
                devices=device_rows(data, devices),
                options=options,
                checkpoint=None if rank[1] > 1 else partial,
                progress=rank[0] == 0,
                feature_spec=spec,
            )
    if rank[0]:
        return  # All processes end with the same model; the first one writes it.
    tested = programs if per_workload is None else _all_held_out(data, devices, split, spec)
    evaluation = evaluated(model, _to_test(tested, split, {d for d in devices if d == meant_for}))
    figures = described_figures(evaluation, data) if evaluation else None
    name, totals = meant_for or "+".join(devices), evaluation.totals if evaluation else None
    info = describe_model(
        model, train, device_id=name, seed=seed, licence=licence, metrics=totals, test_workloads=split.test
    )
    info = replace(with_data(info, place, devices), train_devices=devices if len(devices) > 1 or meant_for else ())
    _save(model, out, info, figures, partial)
    _report(out, info, figures, 0 if valid is None else len(set(valid.workload.tolist())), as_json=as_json)


def _whole_stream(context: click.Context, stream: bool) -> bool:
    if stream and context.params.get("per_workload") is not None:
        raise click.UsageError("--programs-per-workload draws from programs in memory; leave it out with --stream.")
    return stream


def _check_arguments(
    place: DataAddress,
    out: Path,
    devices: Sequence[str],
    split: str | None,
    arch: str,
    options: Mapping[str, str],
) -> tuple[str, ...]:
    """The devices to learn from; refuses wrong paths, names and options before torch or XGBoost is imported."""
    from costhub.dataset.folder import DataFolder, chosen_devices
    from costhub.dataset.splits.split import find_split
    from costhub.models.architectures import check_options
    from costhub.models.folder import check_replaceable

    check_replaceable(out)
    check_options(arch, options)
    folder = DataFolder.open(place.folder)
    named = devices or ([place.device_id] if place.device_id else [])
    chosen = tuple(sorted(set(named))) or (folder.only_device(" with --device."),)
    chosen_devices(folder, folder.device_ids(), chosen)
    if split is not None:
        find_split(place.folder, split)
    return chosen


def _checked_spec(arch: str, spec: str | None, options: Mapping[str, str], *, stream: bool) -> str:
    """The feature spec to use; refuses wrong options, and a stream in vain, before features are computed."""
    from costhub.models.architectures import ARCHITECTURES, new_model

    spec = spec or ARCHITECTURES.find(arch).default_spec
    model = new_model(arch, feature_spec=spec, options=options)
    if stream:
        model.check_learns_from_blocks()
    return spec


def _save(model: CostModel, out: Path, info: ModelInfo, figures: dict[str, Any] | None, partial: Path) -> None:
    """Writes the model; its progress is no longer needed then."""
    from costhub.cli.shared.learning import model_documents
    from costhub.models.folder import save_model

    save_model(model, out, info, documents=model_documents(model, info, figures, out.name))
    shutil.rmtree(partial, ignore_errors=True)


def _to_learn_on(devices: Sequence[str], split: Split) -> Split:
    """The split, after a check that its training side includes all devices."""
    for device_id in devices:
        split.check_device(device_id, "train")
    return split


def _all_held_out(data: Path, devices: Sequence[str], split: Split, spec: str) -> Programs:
    """All programs of the held-out workloads: a model that learned from some of each is tested on every one."""
    from costhub.dataset.load import load_programs

    return load_programs(data, device=list(devices), workloads=set(split.test), spec=spec)


def _to_test(programs: Programs | ProgramBlocks, split: Split, on: set[str]) -> Programs | ProgramBlocks:
    """The held-out programs; only those of the devices `on`, if it is not empty.

    A split by device has none here: `costhub evaluate` tests on its other devices.
    """
    test = programs.of_workloads(set() if split.test_devices else set(split.test))
    return test.of_devices(on) if on else test


def _report(out: Path, info: ModelInfo, figures: dict[str, Any] | None, stopping: int, *, as_json: bool) -> None:
    """Prints where the model is, how good it is, and how many workloads decided when to stop."""
    if as_json:
        said = {"folder": str(out), "evaluation": figures, "stopping_workloads": stopping}
        click.echo(json.dumps(said, indent=2))
        return
    untested = "No workload could be held out for an evaluation, so the model has no figures."
    click.echo(f"{figures_table(figures) if figures else untested}\n")
    click.echo(
        f"Wrote {out}: {info.arch} on {info.feature_spec} for {info.device_id}, "
        f"from {counted(info.data_rows, 'program')} of {counted(len(info.train_workloads), 'workload')}"
        + (f", {stopping} of which decided when to stop." if stopping else ".")
    )


def _plain_name(value: str | None) -> str | None:
    if value is not None and not is_plain_name(value):
        raise click.BadParameter(f"{value!r} is not a device name; expected letters, digits and . _ + -")
    return value


def _options(objective: str | None, pairs: tuple[str, ...]) -> dict[str, str]:
    """Name -> text of the value, for all given options."""
    return ({} if objective is None else {"objective": objective}) | named_values(pairs)


@contextmanager
def _resumable(partial: Path) -> Iterator[None]:
    """Lets ^C and SIGTERM interrupt the training, and then says how to continue it."""
    try:
        with interruptible():
            yield
    except KeyboardInterrupt:
        if partial.exists():
            click.echo(
                f"The progress is kept in {partial}: run the same command again to continue, or remove that "
                "folder to start over.",
                err=True,
            )
        raise
