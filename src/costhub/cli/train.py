"""Provides `costhub train`: a model folder, with its card, from a data folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.cli.evaluate import described, table

if TYPE_CHECKING:
    from costhub.dataset.programs import Programs
    from costhub.dataset.splits.split import Split

EXAMPLE = """
\b
Example:
  costhub train --data measurements/ --arch mlp --out my-model/
  costhub train --data measurements/ --arch gbt --split held-out-14 --out my-trees/
"""


@click.command("train", epilog=EXAMPLE)
@click.option("--data", required=True, type=click.Path(path_type=Path), help="Data folder to learn from.")
@click.option("--arch", default="mlp", show_default=True, help="Architecture: mlp or gbt.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Model folder to write.")
@click.option("--device", help="Device whose measurements to use; may be left out where there is only one.")
@click.option("--split", "chosen", help="Split, by name in the data folder or as a file: learn "
              "from its train workloads, evaluate on its test workloads.")  # fmt: skip
@click.option("--features", "spec", default="per_store@1", show_default=True,
              help="Feature spec: per_store@1, relation@1, loop_context@1 or trace_tokens@1.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--licence", default="Apache-2.0", show_default=True, help="Licence of the model (an SPDX name)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    data: Path,
    arch: str,
    out: Path,
    device: str | None,
    chosen: str | None,
    spec: str,
    seed: int,
    licence: str,
    as_json: bool,
) -> None:
    """Train a cost model on measured programs.

    A fifth of the workloads, of every operator that can spare one, is held out to evaluate the model on; its
    card shows the figures.
    """
    from costhub.dataset.folder import DataFolder
    from costhub.dataset.load_programs import load_programs
    from costhub.models.evaluate import evaluate
    from costhub.models.folder import check_replaceable, save_model
    from costhub.models.train import describe_model, train_model

    check_replaceable(out)
    device = device or DataFolder.open(data).only_device(" with --device.")
    programs = load_programs(data, device=device, spec=spec)
    split = _split(data, programs, chosen, seed)
    split.check_device(device, "train")
    train = programs.of_workloads(set(split.train))
    # A split by device is tested on other devices: `costhub evaluate` does that.
    test = programs.of_workloads(set() if split.test_devices else set(split.test))
    model = train_model(train, arch, seed=seed)
    evaluation = evaluate(model, test) if test.n else None
    info = describe_model(
        model, train, device_id=device, seed=seed, licence=licence,
        metrics=evaluation.totals if evaluation else None, test_workloads=split.test,
    )  # fmt: skip
    figures = described(evaluation, data) if evaluation else None
    save_model(model, out, info, documents=_documents(model, info, figures, out.name))
    if as_json:
        click.echo(json.dumps({"folder": str(out), "evaluation": figures}, indent=2))
    else:
        click.echo(
            f"{table(figures)}\n"
            if figures
            else "No workload could be held out, so the model was not evaluated.\n"
        )
        click.echo(
            f"Wrote {out}: {arch} for {device}, "
            f"from {train.n} programs of {len(info.train_workloads)} workloads."
        )


def _split(data: Path, programs: Programs, chosen: str | None, seed: int) -> Split:
    """The split that was chosen, or one of the workloads that have programs."""
    from costhub.dataset.folder import DataFolder
    from costhub.dataset.splits.split_file import find_split
    from costhub.models.train import hold_out

    if chosen is not None:
        return find_split(data, chosen)
    rows = DataFolder.open(data).workloads().select(["workload_id", "operator"]).to_pylist()
    return hold_out([row for row in rows if row["workload_id"] in programs.workload_ids], seed=seed)


def _documents(model: Any, info: Any, figures: dict[str, Any] | None, name: str) -> dict[str, str]:
    """The card and the figures it shows; none of either without figures, since a card never shows a gap."""
    from costhub.cards.model_card import from_results, render
    from costhub.hub.index import find_device
    from costhub.hub.install import EVALUATION
    from costhub.models.folder import config_of

    if figures is None:
        return {}
    known = find_device(info.device_id)
    card = from_results(config_of(model, info), figures, name=name, device=known.row() if known else None)
    return {"README.md": render(card), EVALUATION: json.dumps(figures, indent=2) + "\n"}
