from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.features.per_store import PER_STORE
from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError, UnknownNameError
from costhub.models.architectures import new_model
from costhub.models.evaluate import evaluate, evaluate_blocks
from costhub.models.train import data_hash, describe_model, hold_out, train_model


def rows(**families: int) -> list[dict[str, str]]:
    return [
        {"workload_id": f"{family}{i}", "operator": family} for family, size in families.items() for i in range(size)
    ]


def test_a_trained_model_reads_the_features_of_tvm_unless_told_otherwise(train: Programs) -> None:
    model = train_model(train, "gbt", progress=False)

    assert model.feature_spec == PER_STORE
    assert np.isfinite(model.predict(train.rows, train.counts)).all()


def test_a_trained_model_reads_the_features_that_its_programs_name(train: Programs) -> None:
    assert train_model(replace(train, spec="demo@1"), "gbt", progress=False).feature_spec == "demo@1"


@pytest.mark.parametrize(("share", "held_out"), [(None, 2), (0.5, 3), (0.0, 0)])
def test_workloads_are_held_out_to_tell_when_to_stop(share: float | None, held_out: int, train: Programs) -> None:
    options, given = {"hidden": 8, "epochs": 4}, {} if share is None else {"valid": share}
    expected = new_model("mlp", feature_spec=PER_STORE, options=options)
    rest, valid = train.split_off(0.1 if share is None else share, seed=3)

    model = train_model(train, "mlp", options=options, seed=3, progress=False, **given)

    assert len(np.unique(rest.workload)) == 6 - held_out
    expected.fit(rest, valid, seed=3, progress=False)
    np.testing.assert_array_equal(model.predict(train.rows, train.counts), expected.predict(train.rows, train.counts))


def test_validation_reaches_the_model(train: Programs, unseen: Programs) -> None:
    with_it = train_model(train, "gbt", valid=unseen, progress=False)
    without = train_model(train, "gbt", progress=False, valid=0.0)

    assert not np.allclose(with_it.predict(train.rows, train.counts), without.predict(train.rows, train.counts))


def test_an_unknown_architecture_is_refused(train: Programs) -> None:
    with pytest.raises(UnknownNameError, match="architecture named 'mpl'"):
        train_model(train, "mpl")


def test_options_reach_the_model(train: Programs) -> None:
    model = train_model(train, "mlp", options={"hidden": "8", "epochs": 1}, progress=False)

    assert (model.config()["hidden"], model.config()["epochs"]) == (8, 1)


@pytest.mark.parametrize(
    ("arch", "options", "kept", "other"),
    [
        ("mlp", {"hidden": 8, "epochs": 2}, "member_0.safetensors", {"hidden": 8}),
        ("gbt", {"rounds": 5}, "model.ubj", {"rounds": 6}),
    ],
)
def test_a_training_goes_on_from_its_checkpoint(
    arch: str, options: dict[str, int], kept: str, other: dict[str, int], train: Programs, tmp_path: Path
) -> None:
    first = train_model(train, arch, options=options, progress=False, checkpoint=tmp_path / "partial")
    again = train_model(train, arch, options=options, progress=False, checkpoint=str(tmp_path / "partial"))

    assert (tmp_path / "partial" / kept).is_file()
    np.testing.assert_array_equal(first.predict(train.rows, train.counts), again.predict(train.rows, train.counts))
    with pytest.raises(ModelError, match="progress of another training"):
        train_model(train, arch, options=other, checkpoint=tmp_path / "partial", progress=False)


def test_a_fifth_is_held_out_and_every_family_that_can_spare_one_is_tested() -> None:
    split = hold_out(rows(conv2d=30, matmul=8, softmax=2, pool=1), seed=0)

    families = {name.rstrip("0123456789") for name in split.test}
    assert families == {"conv2d", "matmul", "softmax"}
    assert len(split.test) == 8
    assert "pool0" in split.train


def test_small_families_are_tested_even_if_that_is_more_than_the_share() -> None:
    assert len(hold_out(rows(a=2, b=2, c=2), seed=0).test) == 3


@pytest.mark.parametrize("families", [{}, {"a": 1}, {"a": 1, "b": 1}])
def test_nothing_is_held_out_where_no_family_can_spare_one(families: dict[str, int]) -> None:
    split = hold_out(rows(**families), seed=0)

    assert (len(split.train), split.test) == (len(families), ())


def test_the_info_of_a_model_says_what_it_learned_from(train: Programs) -> None:
    part = train.of_workloads({"0-1", "0-3"})
    model = train_model(part, "gbt", progress=False, feature_spec="demo@1")

    info = describe_model(
        model,
        part,
        device_id="acme-one",
        seed=4,
        licence="MIT",
        metrics={"top_1": 0.5},
        test_workloads=["b", "a"],
    )

    assert (info.arch, info.feature_spec, info.device_id, info.seed) == ("gbt", "demo@1", "acme-one", 4)
    assert (info.data_rows, info.train_workloads, info.test_workloads) == (80, ("0-1", "0-3"), ("a", "b"))
    assert {"costhub", "python", "torch", "xgboost", "numpy"} <= set(info.versions)
    assert info.data_hash == data_hash(part)


def test_the_hash_changes_with_the_data_and_not_with_their_order(train: Programs) -> None:
    order = np.random.default_rng(0).permutation(train.n)
    slower, other_rows = train.latency_s.copy(), train.rows.copy()
    slower[3] *= 1.1
    other_rows[5, 0] += 1.0
    changed = [
        replace(train, latency_s=slower),
        replace(train, rows=other_rows),
        replace(train, workload_ids=(*train.workload_ids[:-1], "other")),
        train.select(np.arange(train.n - 1)),
    ]

    assert data_hash(train.select(order)) == data_hash(train)
    assert len({data_hash(programs) for programs in (train, *changed)}) == 5


def blocks_of(programs: Programs) -> list[Programs]:
    """A block for each workload."""
    return [programs.of_workloads({name}) for name in programs.workload_ids]


@pytest.mark.parametrize(("arch", "options"), [("gbt", {"rounds": 20}), ("mlp", {"epochs": 30, "batch": 64})])
def test_models_are_trained_and_evaluated_by_blocks(
    arch: str, options: dict[str, int], train: Programs, unseen: Programs
) -> None:
    model = train_model(blocks_of(train), arch, valid=unseen, progress=False, feature_spec="demo@1", options=options)

    # A failed program is not evaluated, in blocks either.
    failed = dataclasses.replace(unseen, latency_s=np.where(np.arange(unseen.n) % 9, unseen.latency_s, np.inf))
    assert evaluate_blocks(blocks_of(failed), model.predict_programs) == evaluate(model, failed)
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
        new_model("conditioned", feature_spec="demo@1").fit_blocks(blocks_of(train), None, seed=0, progress=False)


def test_no_blocks_cannot_be_evaluated_or_learned_from(train: Programs) -> None:
    model = train_model(train, "gbt", progress=False, feature_spec="demo@1", options={"rounds": 2})

    with pytest.raises(DataError, match="no program to evaluate on"):
        evaluate_blocks([], model.predict_programs)
    with pytest.raises(DataError):
        train_model([], "mlp", progress=False, feature_spec="demo@1")
    with pytest.raises(DataError):
        train_model([], "gbt", progress=False, feature_spec="demo@1")
