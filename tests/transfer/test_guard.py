from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.evaluate import evaluate
from costhub.models.protocol import CostModel
from costhub.models.trees.gbt import Gbt
from costhub.transfer.guard import ADAPTED, CANDIDATES, LOCAL, RECENT_WORKLOADS, SOURCE, Guard
from costhub.transfer.methods.corrected import Corrected
from costhub.transfer.methods.method import Frozen


def test_the_adapted_model_comes_first() -> None:
    assert CANDIDATES == (ADAPTED, SOURCE, LOCAL)


def made(workloads: int, each: int, *, seed: int, sign: float) -> Programs:
    """Programs of one row whose cost grows with the first column, or falls where the sign is -1."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(workloads * each, 4)).astype(np.float32)
    cost = sign * rows[:, 0] + 0.3 * rows[:, 1]
    workload = np.repeat(np.arange(workloads), each)
    ids = tuple(f"{seed}-{number}" for number in range(workloads))
    return Programs(rows, np.ones(len(rows), np.int64), workload, ids, np.exp(cost).astype(float))


@pytest.fixture(scope="module")
def source() -> CostModel:
    options = {"objective": "log", "rounds": 60, "learning_rate": 0.2, "depth": 4}
    model = new_model("gbt", feature_spec="demo@1", options=options)
    model.fit(made(8, 40, seed=0, sign=1.0), None, seed=0, progress=False)
    return model


def batches(sign: float, count: int = 5) -> list[Programs]:
    return [made(4, 8, seed=10 + number, sign=sign) for number in range(count)]


@dataclass(frozen=True)
class Harmful:
    """A method that ranks the wrong way round."""

    name = "harmful"

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        worse = copy.deepcopy(source)
        worse.fit(replace(target, latency_s=1.0 / target.latency_s), None, seed=seed, progress=False)
        return worse


def trees(programs: Programs, seed: int) -> CostModel:
    model = new_model("gbt", feature_spec="demo@1", options={"objective": "log"})
    model.fit(programs, None, seed=seed, progress=False)
    return model


def learned(source: CostModel, method: object, parts: list[Programs], *, is_alike: bool | None = None) -> Guard:
    guard = Guard(source, method, local=trees, is_alike=is_alike)  # type: ignore[arg-type]
    for batch in parts:
        guard.learn(batch)
    return guard


def test_a_target_like_the_source_keeps_the_adapted_model(source: CostModel) -> None:
    guard = learned(source, Corrected(), batches(1.0))

    assert [verdict.chosen for verdict in guard.verdicts] == [ADAPTED] * 5
    assert [verdict.trials for verdict in guard.verdicts] == [0, 32, 64, 96, 128]
    assert guard.verdicts[0].pairwise[ADAPTED] == guard.verdicts[0].pairwise[SOURCE]
    assert guard.verdicts[-1].pairwise[ADAPTED] > guard.verdicts[-1].pairwise[LOCAL]


def test_a_method_that_does_harm_falls_back_on_the_source(source: CostModel) -> None:
    guard = learned(source, Harmful(), batches(1.0))

    assert guard.chosen in (SOURCE, LOCAL)
    assert evaluate(guard.model, made(4, 40, seed=99, sign=1.0)).pairwise > 0.75


def test_a_target_that_is_the_opposite_falls_back_on_learning_from_nothing(source: CostModel) -> None:
    guard = learned(source, Frozen(), batches(-1.0))

    assert guard.chosen == LOCAL
    alone = evaluate(guard.model, made(4, 40, seed=99, sign=-1.0)).pairwise
    assert alone > 0.6 > 0.4 > evaluate(source, made(4, 40, seed=99, sign=-1.0)).pairwise


def test_a_source_that_knows_nothing_of_the_target_is_not_built_upon(source: CostModel) -> None:
    """What is local has the first say, even before a test has told that it is better."""
    parts = batches(1.0, 2)
    strangers = [replace(part, rows=part.rows[:, ::-1].copy()) for part in parts]

    guard = learned(source, Corrected(), strangers[:1])

    assert abs(guard.verdicts[0].pairwise[SOURCE] - 0.5) < 0.2
    assert guard.chosen == LOCAL
    assert learned(source, Corrected(), parts[:1]).chosen == ADAPTED


def test_a_source_of_the_same_kind_is_built_upon_until_a_test_tells_otherwise(source: CostModel) -> None:
    """Few workloads may make it look like chance."""
    parts = batches(1.0, 5)
    strangers = [replace(part, rows=part.rows[:, ::-1].copy()) for part in parts]

    assert learned(source, Corrected(), strangers[:1], is_alike=True).chosen == ADAPTED
    assert learned(source, Frozen(), strangers, is_alike=True).chosen == LOCAL  # it leads by more than noise


def test_a_source_unlike_the_target_must_lead_the_local_model_for_sure(source: CostModel) -> None:
    """That it ranks better than chance is not enough: the local model may rank better still."""
    parts = batches(1.0, 5)

    unlike = learned(source, Corrected(), parts, is_alike=False)
    shares = unlike.verdicts[1].pairwise

    assert unlike.verdicts[0].pairwise[SOURCE] > 0.75  # far better than chance
    assert [verdict.chosen for verdict in unlike.verdicts[:2]] == [LOCAL, LOCAL]
    assert shares[ADAPTED] > shares[LOCAL]  # but not beyond two standard errors of four workloads
    assert unlike.chosen == ADAPTED
    assert learned(source, Corrected(), parts[:1]).chosen == ADAPTED  # if nothing is known of the devices


def test_the_gains_are_those_of_the_leading_model_over_that_of_one_batch_earlier(source: CostModel) -> None:
    parts = batches(-1.0, 3)
    guard = Guard(source, Frozen(), local=trees)
    leading: list[CostModel] = []
    for part in parts:
        leading.append(guard.model)
        guard.learn(part)

    assert guard.verdicts[0].gains == ()
    now, earlier = (evaluate(model, parts[2]).workloads for model in (leading[2], leading[1]))
    expected = [own.pairwise - old.pairwise for own, old in zip(now, earlier, strict=True)]
    assert guard.verdicts[2].gains == pytest.approx(expected)
    assert max(map(abs, expected)) > 0.0


def test_the_source_stays_and_nothing_is_learned_before_the_test(source: CostModel) -> None:
    [batch] = batches(-1.0, 1)
    before = source.predict(batch.rows, batch.counts)

    verdict = Guard(source, Corrected()).learn(batch)

    expected = evaluate(source, batch).pairwise
    assert verdict.pairwise == pytest.approx({ADAPTED: expected, SOURCE: expected})
    np.testing.assert_array_equal(source.predict(batch.rows, batch.counts), before)


def test_a_batch_that_tells_nothing_is_learned_from_without_a_verdict(source: CostModel) -> None:
    [batch] = batches(1.0, 1)
    flat = replace(batch, latency_s=np.full(batch.n, 1e-3))

    guard = Guard(source, Corrected())
    verdict = guard.learn(flat)

    assert (verdict.pairwise, verdict.chosen) == ({}, ADAPTED)


def test_a_model_that_diverged_is_not_taken(source: CostModel, caplog: pytest.LogCaptureFixture) -> None:
    @dataclass(frozen=True)
    class Diverges:
        name = "diverges"

        def adapt(
            self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
        ) -> CostModel:
            class Nan(Gbt):
                def predict(self, rows: object, counts: np.ndarray) -> np.ndarray:
                    return np.full(len(counts), np.nan)

            return Nan(feature_spec="demo@1")

    guard = learned(source, Diverges(), batches(1.0))

    assert np.isfinite(guard.model.predict(batches(1.0)[0].rows, batches(1.0)[0].counts)).all()
    assert (guard.chosen, guard.is_adapted) == (SOURCE, False)
    assert "diverges gave NaN or infinity after 32 trials" in caplog.text


@pytest.mark.slow
def test_what_was_long_ago_no_longer_counts(source: CostModel) -> None:
    guard = learned(source, Harmful(), batches(1.0))
    assert guard.chosen != ADAPTED

    # From here on the method is a good one: as many workloads as count are ranked well again.
    guard.method = Corrected()
    for number in range(2 * RECENT_WORKLOADS // 4):
        guard.learn(made(4, 8, seed=50 + number, sign=1.0))

    assert guard.chosen == ADAPTED
