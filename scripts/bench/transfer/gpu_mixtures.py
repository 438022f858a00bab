"""Models of one GPU that learn from the measurements of others as well, mixed in several ways."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.hub.catalogue.devices import device_rows
from costhub.models.architectures import new_model
from costhub.models.compound.conditioned import Conditioned
from costhub.models.evaluate import evaluate_scores
from costhub.models.protocol import CostModel, Scores
from costhub.transfer.methods.corrected import Corrected
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS, folds
from scripts.bench.common.rows import RowFile
from scripts.bench.transfer.tasks import GPUS, SPEC, fitted, gpu_programs
from scripts.tables.transfer import METRICS

NATIVE, FOLDS = "nvidia-a100", 5
EACH = {NATIVE: 128, **{device: 32 for device in ("nvidia-v100", "nvidia-k80", "amd-mi50")}}
"""Programs of a workload that a model learns from, of each other device; of the target, all."""
QUICK_PROGRAMS = 8
"""Programs of a workload in the quick form."""
REPEATED = 4
"""How many times the target's programs are taken where they count for more."""
COLUMNS = (
    TableColumn("form", "learns from"),
    number("programs", "programs", ",d"),
    number("seeds", "seeds", "d"),
    *(part for name in METRICS for part in (number(name, name), number(f"{name}_se", "se"))),
)
Row = dict[str, Any]


class TargetData:
    """The target's programs, and those of the other devices, for one choice of held-out workloads."""

    def __init__(self, programs: Mapping[str, Programs], target: str, test: frozenset[str], seed: int) -> None:
        self.target, self.seed = target, seed
        self._scored: dict[Form, tuple[Scores, int]] = {}
        self.own = _without(programs[target], test)
        self.test = programs[target].of_workloads(set(test))
        self.others = {
            name: _without(some, test).at_most(EACH[name], seed=seed)
            for name, some in programs.items()
            if name != target
        }

    def scored(self, form: Form) -> tuple[Scores, int]:
        """The scores of the held-out programs, and how many programs were learned from; computed once."""
        if form not in self._scored:
            self._scored[form] = form(self)
        return self._scored[form]

    def all(self) -> Programs:
        """Everything that may be learned from."""
        return Programs.join([self.own, *self.others.values()])

    def _blend(self, parts: Sequence[Programs]) -> CostModel:
        return fitted(Programs.join(parts), self.seed)

    def alone(self) -> tuple[Scores, int]:
        """A model of the target's programs only."""
        return self._scores(fitted(self.own, self.seed)), self.own.n

    def with_native(self) -> tuple[Scores, int]:
        """Also of the device that TVM itself measured."""
        parts = [self.own, self.others[NATIVE]]
        return self._scores(self._blend(parts)), sum(part.n for part in parts)

    def with_all(self) -> tuple[Scores, int]:
        """Also of all other devices."""
        return self._scores(fitted(self.all(), self.seed)), self.all().n

    def own_repeated(self) -> tuple[Scores, int]:
        """Of all, the target's programs several times."""
        return self._scores(self._blend([*[self.own] * REPEATED, *self.others.values()])), self.all().n

    def told(self) -> tuple[Scores, int]:
        """Of all, told what each device can do."""
        rows = {name: device_rows(DATASETS / name, [name])[name] for name in (self.target, *self.others)}
        model = new_model("conditioned", feature_spec=SPEC, options={"base": "blend"})
        assert isinstance(model, Conditioned)
        model.add_devices(rows)
        model.fit(self.all(), None, seed=self.seed, progress=False)
        return self._scores(model.bind(rows[self.target])), self.all().n

    def corrected(self) -> tuple[Scores, int]:
        """Of the others first, then adapted to the target."""
        source = self._blend(list(self.others.values()))
        return self._scores(Corrected().adapt(source, self.own, seed=self.seed)), self.all().n

    def mean_of_three(self) -> tuple[Scores, int]:
        """The mean score of `with_native`, `told` and `corrected`, each on one scale within a workload."""
        forms = (TargetData.with_native, TargetData.told, TargetData.corrected)
        return np.mean([_standard(self.scored(form)[0], self.test) for form in forms], axis=0), self.all().n

    def _scores(self, model: CostModel) -> Scores:
        return model.predict(self.test.rows, self.test.counts)


Form = Callable[[TargetData], tuple[Scores, int]]
FORMS: dict[str, Form] = {
    "the target alone": TargetData.alone,
    "and the A100": TargetData.with_native,
    "and all others": TargetData.with_all,
    f"and all others, the target {REPEATED} times": TargetData.own_repeated,
    "and all others, told the figures of each": TargetData.told,
    "all others, then corrected to the target": TargetData.corrected,
    "mean of A100, told and corrected": TargetData.mean_of_three,
}


def _without(programs: Programs, test: frozenset[str]) -> Programs:
    return programs.of_workloads(set(programs.workload_ids) - test)


def _standard(scores: Scores, programs: Programs) -> Scores:
    """Scores with mean 0 and deviation 1 within each group."""
    count = np.bincount(programs.group)
    centred = scores - (np.bincount(programs.group, scores) / count)[programs.group]
    deviation = np.sqrt(np.bincount(programs.group, np.square(centred)) / count)
    return centred / np.maximum(deviation, 1e-9)[programs.group]


def rows_of(
    programs: Mapping[str, Programs], target: str, seed: int, kept: RowFile, forms: Mapping[str, Form] = FORMS
) -> Iterator[Row]:
    """The figures of some forms on each fifth of the target's workloads, but those kept already."""
    about = DataFolder.open(DATASETS / target).workloads(["workload_id", "name", "operator"]).to_pylist()
    for part in folds(about, FOLDS, seed):
        data = TargetData(programs, target, part.test, seed)
        for form, form_of in forms.items():
            key = {"target": target, "seed": seed, "fold": part.fold, "form": form}
            if kept.key_of(key) in kept:
                continue
            began = time.perf_counter()
            scores, learned = data.scored(form_of)
            evaluation = evaluate_scores(scores, data.test)
            figures = {name: evaluation.totals[name] for name in METRICS}
            seconds = time.perf_counter() - began
            yield {**key, "workloads": len(part.test), "programs": learned, "seconds": seconds, **figures}


def summaries(rows: Sequence[Row]) -> list[Row]:
    """A row for each form tried on all fifths: means over all workloads, and the standard error over seeds."""
    table = []
    for form in FORMS:
        own = sorted((row for row in rows if row["form"] == form), key=lambda row: row["seed"])
        by_seed = [list(group) for _, group in itertools.groupby(own, key=lambda row: row["seed"])]
        whole = [group for group in by_seed if len(group) == FOLDS]
        if not whole:
            continue
        learned = statistics.fmean(row["programs"] for group in whole for row in group)
        line: Row = {"form": form, "seeds": len(whole), "programs": round(learned)}
        for name in METRICS:
            means = [
                sum(row[name] * row["workloads"] for row in group) / sum(row["workloads"] for row in group)
                for group in whole
            ]
            line[name] = statistics.fmean(means)
            line[f"{name}_se"] = statistics.stdev(means) / len(means) ** 0.5 if len(means) > 1 else None
        table.append(line)
    return table


@click.command()
@click.option("--seed", "chosen", type=int, multiple=True, default=(0, 1, 2), show_default=True, help="Each once.")
@click.option("--target", type=click.Choice(GPUS[-1:]), default=GPUS[-1], show_default=True)
@options.quick("One seed, the first form, few programs of the target alone.")
@options.rows_file()
@options.json_file()
def main(chosen: tuple[int, ...], target: str, quick: bool, rows_path: Path | None, path: Path | None) -> None:
    """Ranks every fifth of a GPU's workloads by models of the rest and of other GPUs."""
    kept = RowFile(rows_path, ("target", "seed", "fold", "form"))
    forms = dict(itertools.islice(FORMS.items(), 1 if quick else None))
    programs = gpu_programs((target,) if quick else GPUS)
    if quick:
        programs = {target: programs[target].at_most(QUICK_PROGRAMS, seed=0)}
    for seed in chosen[: 1 if quick else None]:
        for row in rows_of(programs, target, seed, kept, forms):
            kept.add(row)
            click.echo(f"fold {row['fold']}, seed {seed}, {row['form']}: pairwise {row['pairwise']:.3f}")
    table = summaries(list(kept))
    click.echo(plain_table(table, COLUMNS))
    machine.write_result(path, {"target": target, "each": EACH, "summary": table})
