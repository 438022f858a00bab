"""Provides `costhub adapt`: a model for this device, from a model of others and some measured programs."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.cli.evaluate import described
from costhub.transfer.candidates import ADAPTED, CANDIDATES

if TYPE_CHECKING:
    from costhub.dataset.programs import Programs
    from costhub.hub.find import Found
    from costhub.models.protocol import CostModel
    from costhub.transfer.adapt import Adaptation

EXAMPLE = """
\b
Example:
  costhub adapt auto --data measurements/ --out my-model/
  costhub adapt nvidia-a100 --data measurements/ --trials 256 --out my-model/
  costhub adapt amd-epyc-zen5-2c-mlp --data measurements/ --method lottery --explain --out my-model/
"""


@click.command("adapt", epilog=EXAMPLE)
@click.argument("name")
@click.option("--data", required=True, type=click.Path(path_type=Path), help="Measurements of the target.")
@click.option("--device", help="Target; may be left out where the data have only one.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Model folder to write.")
@click.option("--arch", help="Architecture of the source, for example mlp; by default the best one.")
@click.option("--method", default="corrected", show_default=True,
              help="frozen, fine-tune, residual, lottery, momentum or corrected.")  # fmt: skip
@click.option("--trials", type=click.IntRange(min=2), help="Programs to learn from; all by default.")
@click.option("--split", "chosen", help="Split, by name in the data folder or as a file: learn "
              "from its train workloads, evaluate on its test workloads.")  # fmt: skip
@click.option("--explain", is_flag=True, help="Show what each layer was allowed to learn.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--licence", default="Apache-2.0", show_default=True, help="Licence of the model (an SPDX name)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    name: str,
    data: Path,
    device: str | None,
    out: Path,
    arch: str | None,
    method: str,
    trials: int | None,
    chosen: str | None,
    explain: bool,
    seed: int,
    licence: str,
    as_json: bool,
) -> None:
    """Carry the model NAME over to the device whose measurements are in a data folder.

    NAME is what `costhub pull` takes, or auto: the model in the hubs that ranks the first measurements best.

    Batch by batch, the adapted model is compared with the source and with one that learns from the target
    alone, on programs that none of them has seen; the one that ranks them best is written to OUT.
    """
    from costhub.cli.model_documents import model_documents
    from costhub.dataset.folder import DataFolder
    from costhub.hub.device_rows import device_rows
    from costhub.models.folder import check_replaceable, save_model
    from costhub.models.train import describe_model
    from costhub.transfer.adapt import adapt
    from costhub.transfer.methods.registry import find_method

    check_replaceable(out)
    how = find_method(method)
    target = device or DataFolder.open(data).only_device(" with --device.")
    row = device_rows(data, [target])[target]
    sides = functools.cache(lambda spec: _sides(data, target, spec, chosen, seed))
    found, source = _source(name, row, arch, lambda spec: sides(spec)[0], seed)
    train, test = sides(source.feature_spec)
    done = adapt(source, train, method=how, trials=trials, seed=seed)
    figures = {
        side: _figures(model, test, data) for side, model in (("before", source), ("after", done.model))
    }
    after = figures["after"]
    info = describe_model(
        done.model, done.learned, device_id=target, seed=seed, licence=licence, base=found.entry.name,
        method=done.summary, metrics=after["totals"] if after else None,
        test_workloads=[test.workload_ids[i] for i in sorted(set(test.workload.tolist()))],
    )  # fmt: skip
    told = {"source": found.entry.name, **done.to_json()}
    documents = model_documents(done.model, info, after, out.name, transfer=told)
    save_model(done.model, out, info, documents=documents)
    if as_json:
        click.echo(json.dumps({"folder": str(out), **figures, **done.to_json()}, indent=2))
        return
    click.echo(_report(done, figures, explain=explain))
    click.echo(f"Wrote {out}: {info.arch} for {target}, from {found.entry.name} and {done.trials} trials.")


def _source(
    name: str, row: Mapping[str, Any], arch: str | None, programs: Callable[[str], Programs], seed: int
) -> tuple[Found, CostModel]:
    """The model to begin with, told of the target: that of a name, or the one that ranks it best."""
    from costhub.hub.auto import AUTO, models_of_kind
    from costhub.hub.find import find_model
    from costhub.hub.pull import pull_found
    from costhub.models.compound.conditioned import bound_to
    from costhub.models.folder import load_model
    from costhub.transfer.sources import PROBED, rank_sources

    listed = models_of_kind(row, arch=arch) if name == AUTO else [find_model(name, arch=arch)]
    candidates = {found.entry.name: found for found in listed}
    models = {each: bound_to(load_model(pull_found(found))[0], row) for each, found in candidates.items()}
    chosen, reason = listed[0].entry.name, listed[0].reason
    if name == AUTO:
        best, *others = rank_sources(models, programs, seed=seed)
        chosen = best.name
        reason = (
            f"Of {len(models)} models it ranks {PROBED} programs measured here best, "
            f"{best.pairwise:.3f} of the pairs{f'; the next {others[0].pairwise:.3f}' if others else ''}."
        )
    click.echo(f"Source {chosen} ({models[chosen].arch}). {reason}", err=True)
    return candidates[chosen], models[chosen]


def _sides(data: Path, device: str, spec: str, chosen: str | None, seed: int) -> tuple[Programs, Programs]:
    """Programs to learn from, and of held-out workloads."""
    from costhub.cli.train import split_of
    from costhub.dataset.load_programs import load_programs

    programs = load_programs(data, device=device, spec=spec)
    split = split_of(data, programs.workload_ids, chosen, seed)
    split.check_device(device, "train")
    return programs.of_workloads(set(split.train)), programs.of_workloads(set(split.test))


def _figures(model: Any, test: Programs, data: Path) -> dict[str, Any] | None:
    """How a model ranks the held-out workloads; None without any."""
    from costhub.cli.train_data import evaluated

    evaluation = evaluated(model, test)
    return described(evaluation, data) if evaluation else None


def _report(done: Adaptation, figures: dict[str, dict[str, Any] | None], *, explain: bool) -> str:
    """The result for people."""
    from costhub.cards.adaptation import masks_table
    from costhub.cards.tables import Column, number, plain_table
    from costhub.models.evaluation.evaluate import METRICS

    totals = [{"model": side, **found["totals"]} for side, found in figures.items() if found]
    asked = [{"trials": v.trials, **v.pairwise} for v in done.verdicts if v.pairwise]
    parts = [
        "On held-out workloads:\n"
        + plain_table(totals, [Column("model", ""), *(number(name, name) for name in METRICS)])
        if totals
        else "No workload could be held out, so the model was not evaluated.",
        "Pairs of each new batch that were ranked right before learning from it:\n"
        + plain_table(asked, [number("trials", "trials", "d"), *(number(name, name) for name in CANDIDATES)]),
    ]
    if done.chosen != ADAPTED:
        parts.append(
            f"Transfer by {done.method} did harm here, so the model written is the {done.chosen} one."
        )
    if explain:
        parts.append(masks_table(done.to_json()))
    return "\n\n".join(parts)
