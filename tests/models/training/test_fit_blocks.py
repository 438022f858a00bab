from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError
from costhub.models.architectures import new_model
from costhub.models.evaluation.evaluate import evaluate
from costhub.models.train import data_hash, describe_model, train_model
from costhub.models.training.fit_blocks import evaluate_blocks, fit_blocks


def blocks_of(programs: Programs) -> list[Programs]:
    """A block for each workload."""
    return [programs.of_workloads({name}) for name in programs.workload_ids]


@pytest.mark.parametrize(("arch", "options"), [("gbt", {"rounds": 20}), ("mlp", {"epochs": 30, "batch": 64})])
def test_models_are_trained_and_evaluated_by_blocks(
    arch: str, options: dict[str, int], train: Programs, unseen: Programs
) -> None:
    model = train_model(
        blocks_of(train), arch, valid=unseen, progress=False, feature_spec="demo@1", options=options
    )

    # A failed program is not evaluated, in blocks either.
    failed = dataclasses.replace(
        unseen, latency_s=np.where(np.arange(unseen.n) % 9, unseen.latency_s, np.inf)
    )
    assert evaluate_blocks(model, blocks_of(failed)) == evaluate(model, failed)
    assert evaluate(model, unseen).pairwise > 0.7


def test_a_model_says_the_same_of_blocks_as_of_all_programs_at_once(train: Programs) -> None:
    model = new_model("gbt", feature_spec="demo@1")

    whole, blocks = (
        describe_model(model, found, device_id="a", seed=0, licence="MIT", test_workloads=("t",))
        for found in (train, blocks_of(train))
    )

    assert dataclasses.replace(blocks, created="") == dataclasses.replace(whole, created="")
    assert whole.data_hash == data_hash(train)
    assert whole.data_rows == train.n


def test_an_architecture_that_needs_all_programs_says_so(train: Programs) -> None:
    with pytest.raises(ModelError, match="architecture conditioned learns from programs in memory only"):
        fit_blocks(
            new_model("conditioned", feature_spec="demo@1"), blocks_of(train), None, seed=0, progress=False
        )


def test_no_blocks_cannot_be_evaluated_or_learned_from(train: Programs) -> None:
    model = train_model(train, "gbt", progress=False, feature_spec="demo@1", options={"rounds": 2})

    with pytest.raises(DataError, match="nothing to rank"):
        evaluate_blocks(model, [])
    with pytest.raises(DataError):
        train_model([], "mlp", progress=False, feature_spec="demo@1")
    with pytest.raises(DataError):
        train_model([], "gbt", progress=False, feature_spec="demo@1")
