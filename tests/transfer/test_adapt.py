from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import DataError, UnknownNameError
from costhub.models.architectures import new_model
from costhub.models.evaluate import evaluate
from costhub.models.protocol import CostModel
from costhub.transfer.adapt import Stopping, adapt, adapt_to_batches
from costhub.transfer.guard import ADAPTED
from costhub.transfer.methods.lottery import Lottery
from costhub.transfer.stopping import BatchVerdict, NoMoreGain, Stopped


def made(workloads: int, *, seed: int, changed: float) -> Programs:
    """Programs of one row; `changed` is how much the device dislikes a column that the source ignores."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(workloads * 24, 4)).astype(np.float32)
    workload = np.repeat(np.arange(workloads), 24)
    cost = np.sin(3 * rows[:, 0]) + rows[:, 0] * rows[:, 1] + changed * rows[:, 2]  # slow to learn
    ids = tuple(f"{seed}-{number}" for number in range(workloads))
    return Programs(rows, np.ones(len(rows), np.int64), workload, ids, np.exp(cost).astype(float))


@pytest.fixture(scope="module")
def source() -> CostModel:
    options = {"members": "gbt(objective=log,rounds=40,learning_rate=0.2) mlp(hidden=16,bins=0,epochs=20)"}
    model = new_model("blend", feature_spec="demo@1", options=options)
    model.fit(made(60, seed=0, changed=0.0), None, seed=0, progress=False)
    return model


@pytest.fixture(scope="module")
def target() -> Programs:
    return made(8, seed=1, changed=0.4)


@pytest.mark.slow
def test_the_target_is_ranked_better_after_some_trials(source: CostModel, target: Programs) -> None:
    unseen = made(6, seed=2, changed=0.4)
    told: list[BatchVerdict] = []

    done = adapt(source, target, trials=128, batch=32, on_batch=told.append, progress=False)

    assert (done.chosen, done.trials, done.method) == (ADAPTED, 128, "corrected")
    assert evaluate(done.model, unseen).pairwise > evaluate(source, unseen).pairwise + 0.02
    assert tuple(told) == done.verdicts
    assert [verdict.trials for verdict in told] == [0, 32, 64, 96]


def test_what_it_tells_is_json_with_the_masks_of_every_network(source: CostModel, target: Programs) -> None:
    done = adapt(source, target, method=Lottery(ratio=0.25, epochs=5), trials=64, batch=32, progress=False)

    told = json.loads(json.dumps(done.to_json()))

    assert (told["method"], told["trials"], len(told["curve"])) == ("lottery(ratio=0.25, epochs=5)", 64, 2)
    [epochs] = told["transferable"]
    assert len(epochs) == 5
    assert epochs[0]["encode_2.weight"] == pytest.approx(0.25)
    [kept] = told["kept"]
    assert [shares.keys() for shares in kept] == [epochs[0].keys()] * 4


def test_the_masks_told_are_those_of_the_last_batch(source: CostModel, target: Programs) -> None:
    done = adapt(source, target, method="corrected", trials=64, batch=32, progress=False)

    first = adapt(source, target, method="corrected", trials=32, batch=32, progress=False)
    assert [len(epochs) for epochs in done.shares] == [30]
    assert [len(epochs) for epochs in done.kept] == [29]
    assert done.kept != first.kept


def test_a_method_without_masks_has_none_to_tell(source: CostModel, target: Programs) -> None:
    done = adapt(source, target, method="residual", trials=32, progress=False)

    assert (done.shares, done.kept) == ((), ())


def test_failed_programs_are_no_trials(source: CostModel, target: Programs) -> None:
    failed = replace(target, latency_s=np.where(np.arange(target.n) % 3 == 0, np.inf, target.latency_s))

    assert adapt(source, failed, progress=False, batch=64).trials == 128


def test_equal_seeds_give_equal_models(source: CostModel, target: Programs) -> None:
    found = [
        adapt(source, target, trials=48, seed=seed, progress=False).model.predict(target.rows, target.counts)
        for seed in (4, 4, 5)
    ]

    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_too_little_to_learn_from_is_refused(source: CostModel, target: Programs) -> None:
    with pytest.raises(DataError, match="nothing to learn from 1 trial:"):
        adapt(source, target, trials=1, progress=False)


def test_an_unknown_method_is_refused_before_anything_is_learned(source: CostModel, target: Programs) -> None:
    with pytest.raises(UnknownNameError, match="fine-tune"):
        adapt(source, target, method="finetune", progress=False)


def test_the_summary_names_what_led_where_transfer_did_harm(source: CostModel, target: Programs) -> None:
    done = adapt(source, target, method="frozen", trials=64, progress=False)

    assert replace(done, chosen=ADAPTED).summary == "frozen, 64 trials"
    assert replace(done, chosen="local").summary == "frozen, 64 trials; the local model was chosen"


@pytest.mark.slow
def test_measuring_ends_where_the_rule_says_so(
    source: CostModel, target: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reason(rule: NoMoreGain, verdicts: Sequence[BatchVerdict]) -> str | None:
        return "Enough." if len(verdicts) == 3 else None

    monkeypatch.setattr(NoMoreGain, "reason_to_stop", reason)
    asked: list[int] = []

    def measured() -> Iterator[Programs]:
        for start in range(0, target.n, 32):
            asked.append(start)
            yield target.select(np.arange(start, start + 32))

    stop = Stopping("gain", lambda: 0.625)
    done = adapt_to_batches(source, measured(), trials=target.n, method="frozen", stop=stop, progress=False)

    assert asked == [0, 32, 64]
    assert done.stopped == Stopped("gain", "Enough.", 96, 192, 60.0)
    assert "96 trials of at most 192" in done.summary
    assert str(done.stopped) in str(done)
    assert done.to_json()["stopped"]["rule"] == "gain"

    failing = Stopping("gain", lambda: 0.625, lambda: 100)
    some = adapt_to_batches(source, measured(), trials=target.n, method="frozen", stop=failing, progress=False)
    assert some.stopped is not None
    assert some.stopped.trials == 100  # those that failed took time, too

    whole = adapt_to_batches(source, measured(), trials=96, method="frozen", stop=stop, progress=False)
    assert whole.stopped is None  # nothing was saved


def test_a_wrong_stop_rule_is_refused_before_anything_is_measured(source: CostModel) -> None:
    with pytest.raises(UnknownNameError, match="stop rule"):
        adapt_to_batches(source, iter(()), trials=8, stop=Stopping("gains"), progress=False)
