"""The benchmark of losses for the head of the list: what is held out, what is chosen, and what a blend is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from costhub.models.compound.blend import Blend, BlendOptions
from costhub.models.evaluate import METRICS
from costhub.testing import made_programs
from scripts.bench.common.data import DATASETS, SplitPart
from scripts.bench.common.rows import RowFile
from scripts.bench.models.grid import TOP, GridEntry
from scripts.bench.models.tasks import DeviceData
from scripts.bench.validated import top_losses
from scripts.bench.validated.top_losses import (
    DEFAULT,
    NETWORK,
    TODAY,
    blend_scores,
    blended,
    chosen,
    summary,
    validation_part,
)
from scripts.bench.validated.validation import KEY, TEST, VALIDATION, named, scores_of

BEST = TOP[-1]


@pytest.fixture(scope="module")
def source() -> DeviceData:
    return DeviceData(DATASETS / "amd-epyc-zen5", "amd-epyc-zen5-2c")


def row(part: str, entry: GridEntry | str, values: Sequence[float], seed: int = 0) -> dict[str, Any]:
    name = entry if isinstance(entry, str) else named(entry)
    ids = [f"w{place + 10 * seed * (part == VALIDATION)}" for place in range(len(values))]
    figures = {metric: list(values) for metric in METRICS}
    about = {"device": "cpu", "split": "s", "part": part, "model": name, "seed": seed}
    return {**about, "workload_ids": ids, "by_workload": figures}


def test_three_seeds_divide_the_workloads_to_learn_from_and_see_no_tested_one(source: DeviceData) -> None:
    (split,) = source.parts(["workload-40-seed0"], 0)
    parts = [validation_part(source, split.train, seed) for seed in range(4)]

    assert set.union(*(set(part.test) for part in parts[:3])) == split.train
    assert sum(len(part.test) for part in parts[:3]) == len(split.train)
    for part in parts:
        assert part.train | part.test == split.train
        assert not part.train & part.test
    assert parts[3].test not in [part.test for part in parts[:3]]


def test_the_loss_is_chosen_by_top_1_on_validation_workloads_alone() -> None:
    rows = [row(VALIDATION, entry, [0.5, 0.7]) for entry in TOP if entry is not BEST]
    rows += [row(VALIDATION, BEST, [0.7, 0.6]), row(TEST, DEFAULT, [1.0, 1.0]), row(TEST, BEST, [0.0, 0.0])]
    for each in rows:  # the other figures would choose the default
        each["by_workload"]["pairwise"] = [float(each["model"] == named(DEFAULT))] * 2

    assert chosen(rows) is BEST


def test_only_the_chosen_loss_is_tested_beside_what_it_is_compared_with(
    source: DeviceData, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = made_programs("demo@1", workloads=4, each=20, seed=0)
    asked: list[str] = []

    def sides(self: DeviceData, part: SplitPart, entry: GridEntry, seed: int) -> Any:
        return programs, programs

    def scored(entry: GridEntry, train: Any, test: Any, seed: int) -> Any:
        asked.append(named(entry))
        scores = np.random.default_rng(len(asked)).normal(size=programs.n)
        return scores, scores, 1.0

    monkeypatch.setattr(DeviceData, "sides", sides)
    monkeypatch.setattr(top_losses, "scores_of", scored)
    kept = RowFile(None, KEY)
    for _ in range(2):  # the second time, all rows are there
        top_losses.test(source, SplitPart("s", 0, frozenset(), frozenset()), kept, 2, BEST)

    assert asked == 2 * [named(entry) for entry in (DEFAULT, TODAY, BEST, NETWORK)]
    assert [each["model"] for each in kept if each["seed"] == 1] == [
        *map(named, (DEFAULT, TODAY, BEST)),
        *map(blended, (TODAY, BEST)),
    ]


def test_a_blend_of_fitted_members_scores_as_a_blend_that_fits_them() -> None:
    train, unseen = (made_programs("demo@1", workloads=4, each=30, seed=seed) for seed in (0, 1))
    members = "gbt(rounds=8,objective=log) gbt(rounds=8,objective=rank)"
    whole = Blend(feature_spec="demo@1", options=BlendOptions(members=members))
    whole.fit(train, None, seed=0, progress=False)
    seeds = np.random.SeedSequence(0).generate_state(2)
    entries = [GridEntry("gbt", "demo@1", objective, {"rounds": 8}) for objective in ("log", "rank")]

    fitted = [scores_of(entry, train, unseen, int(seed))[:2] for entry, seed in zip(entries, seeds, strict=True)]

    np.testing.assert_allclose(blend_scores(fitted, train), whole.predict(unseen.rows, unseen.counts), rtol=1e-6)


def test_gains_are_over_the_same_workloads_and_errors_over_workloads() -> None:
    rows = [row(VALIDATION, DEFAULT, [0.5, 0.7], seed) for seed in (0, 1)]
    rows += [row(VALIDATION, BEST, [0.6, 0.8], seed) for seed in (0, 1)]
    rows += [row(TEST, blended(TODAY), [0.4, 0.6], seed) for seed in (0, 1)]
    rows += [row(TEST, blended(BEST), [0.5, 0.8], 0), row(TEST, blended(BEST), [0.7, 0.8], 1)]

    found = {(line["part"], line["model"]): line for line in summary(rows, BEST)}

    one = found[VALIDATION, named(BEST)]
    assert (one["top_1"], one["top_1_gain"], one["workloads"]) == pytest.approx((0.7, 0.1, 4))
    assert one["top_1_gain_se"] == pytest.approx(0.0)
    assert one["top_1_se"] == pytest.approx(np.std([0.6, 0.8, 0.6, 0.8], ddof=1) / 2)
    both = found[TEST, blended(BEST)]
    assert (both["base"], both["seeds"], both["workloads"]) == (blended(TODAY), 2, 2)
    assert (both["top_1_gain"], both["top_1_gain_se"]) == pytest.approx((0.2, 0.0))
    assert found[VALIDATION, named(DEFAULT)]["top_1_gain"] == 0.0
    assert (TEST, named(BEST)) not in found
