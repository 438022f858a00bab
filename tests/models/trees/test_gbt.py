from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError
from costhub.models.evaluate import evaluate
from costhub.models.folder import load_model
from costhub.models.parts import take_parts
from costhub.models.trees.boosting import centred
from costhub.models.trees.gbt import CORRECTION_ROUNDS, OBJECTIVES, WEIGHTS, Gbt, GbtOptions
from costhub.testing import made_programs

SMALL = GbtOptions(rounds=12, learning_rate=0.3, depth=3)


@pytest.fixture(scope="module")
def model(train: Programs) -> Gbt:
    model = Gbt(feature_spec="demo@1", options=SMALL)
    model.fit(train, None, seed=0, progress=False)
    return model


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_learns_from_workloads_in_any_order(objective: str, train: Programs, unseen: Programs) -> None:
    mixed = train.select(np.random.default_rng(0).permutation(train.n))
    model = Gbt(feature_spec="demo@1", options=GbtOptions(objective=objective, rounds=40, learning_rate=0.2))
    model.fit(mixed, None, seed=0, progress=False)

    assert evaluate(model, unseen).pairwise > 0.75


LATENCY_S = np.array([1.0, 8.0, 1.25, 4.0])
THROUGHPUT = np.array([1.0, 0.125, 0.8, 0.25])


def scores_after_one_tree(objective: str, *, pairs: int = 32, grades: float = 0.0) -> np.ndarray:
    """Of four programs of a workload, each in a leaf of its own: what the derivatives of the objective ask for."""
    options = GbtOptions(
        objective=objective,
        rounds=1,
        learning_rate=1.0,
        min_child_weight=0.0,
        subsample=1.0,
        colsample=1.0,
        pairs=pairs,
        grades=grades,
    )
    rows, ones = np.arange(4, dtype=np.float32)[:, None], np.ones(4, np.int64)
    model = Gbt(feature_spec="demo@1", options=options)
    model.fit(Programs(rows, ones, 0 * ones, ("w",), LATENCY_S), None, seed=0, progress=False)
    return model.predict(rows, ones)


@pytest.mark.parametrize(("objective", "wanted"), [("regression", THROUGHPUT), ("log", np.log(THROUGHPUT))])
def test_squared_errors_are_those_of_what_the_objective_names(objective: str, wanted: np.ndarray) -> None:
    """Half of the way from the mean to what is wanted: the error, over its curvature and the penalty, both 1."""
    np.testing.assert_allclose(scores_after_one_tree(objective), (wanted.mean() + wanted) / 2, rtol=1e-5)


def test_under_rank_all_pairs_pull_alike() -> None:
    """Between equal scores, the pull on a program is the slower ones less the faster ones, by AutoTVM's eq. 2."""
    found = scores_after_one_tree("rank")

    assert found[0] > 0
    np.testing.assert_allclose(found / found[0], [1, -1, 1 / 3, -1 / 3], rtol=1e-4)


@pytest.mark.parametrize("sizes", [(8,), (2, 5, 40)])
def test_the_trees_of_rank_follow_the_loss_of_autotvm_round_by_round(sizes: tuple[int, ...]) -> None:
    """Each leaf is what the derivatives of eq. 2 ask for, by hand, at the scores that the trees before it gave.

    At the first tree all scores are equal, so a loss that divides by their distance shows from the second on only.
    """
    n = sum(sizes)
    rng = np.random.default_rng(0)
    latency_s, ones = rng.uniform(1.0, 9.0, n), np.ones(n, np.int64)
    group = np.repeat(np.arange(len(sizes)), sizes)
    options = GbtOptions(
        objective="rank", rounds=3, learning_rate=1.0, depth=8, min_child_weight=0.0, subsample=1.0, colsample=1.0
    )
    model = Gbt(feature_spec="demo@1", options=options)
    rows = rng.permutation(n).astype(np.float32)[:, None]
    programs = Programs(rows, ones, group, tuple(map(str, range(len(sizes)))), latency_s)
    model.fit(programs, None, seed=0, progress=False)
    assert model.booster is not None
    matrix = model._matrix(programs)
    leaves = model.booster.predict(matrix, pred_leaf=True)
    after = [model.booster[: tree + 1].predict(matrix, output_margin=True) for tree in range(3)]

    faster = (latency_s[:, None] < latency_s[None, :]) & (group[:, None] == group[None, :])
    before = np.zeros(n)
    for tree in range(3):
        wrong = 1 / (1 + np.exp(before[:, None] - before[None, :]))  # of a pair whose first is the faster one
        pull = np.where(faster, wrong, 0.0)
        gradient = pull.T.sum(axis=1) - pull.sum(axis=1)
        curved = np.where(faster, 2 * wrong * (1 - wrong), 0.0)  # XGBoost counts a pair's second derivative twice
        curvature = curved.sum(axis=1) + curved.sum(axis=0)
        for leaf in np.unique(leaves[:, tree]):
            own = leaves[:, tree] == leaf
            wanted = -gradient[own].sum() / (curvature[own].sum() + 1.0)
            np.testing.assert_allclose((after[tree] - before)[own], wanted, rtol=1e-3, atol=1e-4)
        before = after[tree].astype(np.float64)
    assert len(np.unique(leaves[:, 1])) > 2


def test_only_pairs_with_the_top_pull_where_the_top_is_asked_for() -> None:
    """Between equal scores the first program is the top one, and the fastest here: all others lose to it alike."""
    found = scores_after_one_tree("rank", pairs=1)

    assert found[0] > 0 > found[1]
    np.testing.assert_allclose(found[1:], found[1], rtol=1e-4)


@pytest.mark.parametrize(("grades", "gain"), [(0.0, THROUGHPUT), (0.5, 2 ** (0.5 * THROUGHPUT) - 1)])
def test_under_lambdarank_a_pair_pulls_by_what_its_swap_gains(grades: float, gain: np.ndarray) -> None:
    """Burges, 2010; equal scores rank as they stand. XGBoost scales a group by a factor, told from one program."""
    discount = 1 / np.log2(2.0 + np.arange(4))
    swap = np.abs(np.subtract.outer(gain, gain) * np.subtract.outer(discount, discount))
    swap /= (np.sort(gain)[::-1] * discount).sum()
    pull = (np.sign(np.subtract.outer(gain, gain)) * swap).sum(axis=1) / 2
    curvature, penalty = swap.sum(axis=1) / 2, 0.02

    found = scores_after_one_tree("lambdarank", grades=grades)

    scale = penalty * found[0] / (pull[0] - curvature[0] * found[0])
    assert scale > 0
    np.testing.assert_allclose(found, scale * pull / (scale * curvature + penalty), rtol=1e-3)


def test_grades_change_no_objective_but_lambdarank() -> None:
    for objective in set(OBJECTIVES) - {"lambdarank"}:
        np.testing.assert_array_equal(
            scores_after_one_tree(objective, grades=4.0), scores_after_one_tree(objective, grades=0.0)
        )


def test_a_failed_program_is_no_throughput_or_a_thousandth_of_the_best() -> None:
    ones = np.ones(3, np.int64)
    programs = Programs(np.ones((3, 1), np.float32), ones, 0 * ones, ("w",), np.array([2.0, np.inf, 1.0]))
    labels = {
        name: Gbt(feature_spec="demo@1", options=GbtOptions(objective=name)).labels(programs) for name in OBJECTIVES
    }

    np.testing.assert_allclose(labels.pop("log"), np.log([0.5, 0.001, 1.0]))
    for found in labels.values():
        np.testing.assert_allclose(found, [0.5, 0.0, 1.0])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_stops_on_validation_and_keeps_the_best_trees(objective: str, train: Programs) -> None:
    options = GbtOptions(objective=objective, rounds=300, learning_rate=0.3, patience=3)
    noise = Programs(
        train.rows,
        train.counts,
        train.workload,
        train.workload_ids,
        np.random.default_rng(0).uniform(1e-3, 2e-3, size=train.n),
    )
    model = Gbt(feature_spec="demo@1", options=options)
    model.fit(train, noise, seed=0, progress=False)

    assert model.booster is not None
    assert model.booster.num_boosted_rounds() < 20


def test_an_update_adds_trees_to_those_that_are_there(train: Programs, unseen: Programs) -> None:
    model = Gbt(feature_spec="demo@1", options=SMALL)
    model.fit(train, None, seed=0, progress=False)
    assert model.booster is not None
    before = model.booster

    model.update(unseen, seed=0)

    rounds = SMALL.rounds + SMALL.update_rounds
    assert (before.num_boosted_rounds(), model.booster.num_boosted_rounds()) == (SMALL.rounds, rounds)


def test_a_file_with_another_number_of_features_is_refused(model: Gbt, tmp_path: Path) -> None:
    model.save_weights(tmp_path)

    with pytest.raises(ModelError, match=r"reads 19 features, but config\.json describes 22"):
        Gbt(feature_spec="demo@1").load_weights(tmp_path, {**model.config(), "columns": 7})


def test_a_missing_file_is_named(model: Gbt, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks model\.ubj"):
        Gbt(feature_spec="demo@1").load_weights(tmp_path, model.config())


def test_a_file_beyond_any_cost_model_is_not_read(model: Gbt, tmp_path: Path) -> None:
    model.save_weights(tmp_path)
    os.truncate(tmp_path / WEIGHTS, 1 << 40)

    with pytest.raises(ModelError, match=r"has 1,099,511,627,776 bytes\. At most 268,435,456 are read"):
        Gbt(feature_spec="demo@1").load_weights(tmp_path, model.config())


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_refused_in_a_sentence(model: Gbt, tmp_path: Path, share: float) -> None:
    model.save_weights(tmp_path)
    whole = (tmp_path / WEIGHTS).read_bytes()
    (tmp_path / WEIGHTS).write_bytes(whole[: int(share * len(whole))])

    with pytest.raises(ModelError, match="cannot be read as an XGBoost model") as error:
        Gbt(feature_spec="demo@1").load_weights(tmp_path, model.config())
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_model_are_refused(model: Gbt, tmp_path: Path) -> None:
    for seed in range(10):
        (tmp_path / WEIGHTS).write_bytes(random.Random(seed).randbytes(1000))
        with pytest.raises(ModelError, match="cannot be read as an XGBoost model"):
            Gbt(feature_spec="demo@1").load_weights(tmp_path, model.config())


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(ValueError, match="objective must be one of regression, log, rank, lambdarank, got 'best'"):
        GbtOptions(objective="best")


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_failed_programs_are_scored_below_the_others(objective: str, train: Programs, unseen: Programs) -> None:
    # What fails is told by a column that says nothing of the speed.
    def with_failures(programs: Programs) -> Programs:
        highest = np.full(programs.n, -np.inf)
        np.maximum.at(highest, np.repeat(np.arange(programs.n), programs.counts), programs.rows[:, 4])
        return replace(programs, latency_s=np.where(highest > 1.0, np.inf, programs.latency_s))

    model = Gbt(feature_spec="demo@1", options=GbtOptions(objective=objective, rounds=40, learning_rate=0.2))
    model.fit(with_failures(train), None, seed=0, progress=False)

    scores, failed = model.predict(unseen.rows, unseen.counts), ~with_failures(unseen).is_ok
    assert 0.1 < failed.mean() < 0.5
    assert np.mean(scores[failed][:, None] < scores[~failed]) > 0.85


@pytest.mark.parametrize("objective", ["rank", "lambdarank"])
def test_programs_are_compared_on_one_device_only(objective: str, train: Programs) -> None:
    devices = replace(train, device=np.arange(train.n) % 3 // 2, device_ids=("a", "b"))
    mixed = devices.select(np.random.default_rng(0).permutation(train.n))

    matrix = Gbt(feature_spec="demo@1", options=GbtOptions(objective=objective))._matrix(mixed)

    np.testing.assert_array_equal(np.diff(matrix.get_uint_info("group_ptr")), np.bincount(mixed.group))
    np.testing.assert_allclose(matrix.get_label(), mixed.throughput()[np.argsort(mixed.group, kind="stable")])


def test_every_part_of_a_composite_spec_is_read() -> None:
    spec = "trace_tokens@1+relation@1"
    train, unseen = (made_programs(spec, workloads=5, each=60, seed=seed) for seed in (0, 1))
    scores = {}
    for part in (spec, "trace_tokens@1", "relation@1"):
        model = Gbt(feature_spec=part, options=GbtOptions(rounds=40, learning_rate=0.2, depth=4))
        own = [take(programs, part) for programs in (train, unseen)]
        model.fit(own[0], None, seed=0, progress=False)
        scores[part] = evaluate(model, own[1]).pairwise

    # Half of the latency is explained by each part.
    assert scores[spec] > max(scores["trace_tokens@1"], scores["relation@1"]) + 0.05


def take(programs: Programs, part: str) -> Programs:
    ((rows, counts),) = take_parts(programs.rows, programs.counts, feature_spec=programs.spec, specs=[part])
    return replace(programs, rows=rows, counts=counts, spec=part)


def test_rows_that_are_not_of_the_composite_spec_are_refused(train: Programs) -> None:
    with pytest.raises(ModelError, match="have 173 columns, got 6"):
        Gbt(feature_spec="per_store@1+relation@1").fit(train, None, seed=0, progress=False)


SHIPPED = {
    "amd-epyc-zen5-2c-gbt": [
        -1.8038557767868042,
        -2.7168526649475098,
        -2.4199044704437256,
        -2.9265544414520264,
    ],
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_model_scores_as_it_did_when_it_was_released(name: str) -> None:
    folder = resources.files("costhub.hub") / "embedded/models/costhub" / name
    model, _ = load_model(str(folder))
    rng = np.random.default_rng(0)
    counts = np.array([1, 0, 3, 2])

    found = model.predict(rng.uniform(0.0, 20.0, size=(6, 104)).astype(np.float32), counts)

    np.testing.assert_allclose(found, SHIPPED[name], rtol=1e-6)


def test_a_folder_from_before_an_option_was_added_is_read(model: Gbt, unseen: Programs, tmp_path: Path) -> None:
    model.save_weights(tmp_path)
    old = {name: value for name, value in model.config().items() if name not in ("pairs", "grades")}
    loaded = Gbt(feature_spec="demo@1")

    loaded.load_weights(tmp_path, json.loads(json.dumps(old)))

    assert loaded.options == replace(SMALL, pairs=32)  # what such a folder has learned with


LOG = GbtOptions(objective="log", rounds=40, learning_rate=0.2)


def changed(programs: Programs, *, each: int) -> Programs:
    """Some programs of each workload on a device that also dislikes another column."""
    per_program = np.zeros(programs.n)
    np.add.at(per_program, np.repeat(np.arange(programs.n), programs.counts), programs.rows[:, 3])
    slower = replace(programs, latency_s=programs.latency_s * np.exp(0.5 * per_program))
    places = np.flatnonzero(np.arange(programs.n) % 40 < each)
    return slower.select(places)


def test_corrected_trees_rank_better_what_has_changed(train: Programs, unseen: Programs) -> None:
    model = Gbt(feature_spec="demo@1", options=LOG)
    model.fit(train, None, seed=0, progress=False)
    before = evaluate(model, changed(unseen, each=40)).pairwise

    model.correct(changed(train, each=30), seed=0)

    assert evaluate(model, changed(unseen, each=40)).pairwise > before + 0.05
    assert model.booster is not None
    assert model.booster.num_boosted_rounds() == LOG.rounds + CORRECTION_ROUNDS


def test_a_correction_of_less_weight_moves_scores_less(train: Programs) -> None:
    target, moved = changed(train, each=30), []
    for weight in (0.0, 0.2, 1.0):
        model = Gbt(feature_spec="demo@1", options=LOG)
        model.fit(train, None, seed=0, progress=False)
        before = model.predict(target.rows, target.counts)
        model.correct(target, weight=weight, seed=0)
        moved.append(float(np.abs(model.predict(target.rows, target.counts) - before).mean()))

    assert moved[0] == 0.0
    assert 0.0 < moved[1] < moved[2]


def test_the_scores_of_another_model_are_corrected_from_scratch(train: Programs) -> None:
    target, model = changed(train, each=40), Gbt(feature_spec="demo@1", options=LOG)
    scores = np.log(train.throughput())

    model.correct(target, scores=scores, seed=0)

    together = scores + model.predict(target.rows, target.counts)
    wanted = np.log(target.throughput())
    assert np.std(centred(together - wanted, target.group)) < 0.7 * np.std(centred(scores - wanted, target.group))


def test_scores_that_are_off_by_the_level_of_their_workload_need_no_correction(train: Programs) -> None:
    model, level = Gbt(feature_spec="demo@1", options=LOG), np.arange(train.group.max() + 1.0)

    model.correct(train, scores=np.log(train.throughput()) + level[train.group], seed=0)

    np.testing.assert_allclose(model.predict(train.rows, train.counts), 0.0, atol=1e-5)


def test_trees_whose_scores_have_no_scale_are_not_corrected(model: Gbt, train: Programs) -> None:
    with pytest.raises(ModelError, match="objective log can be corrected, not regression"):
        model.correct(train, seed=0)


def blocks_of(programs: Programs) -> list[Programs]:
    """A block for each workload."""
    return [programs.of_workloads({name}) for name in programs.workload_ids]


@pytest.mark.parametrize("external", [True, False])
@pytest.mark.parametrize("objective", ["regression", "rank", "lambdarank"])
def test_trees_from_blocks_rank_as_those_of_all_programs_at_once(
    objective: str, external: bool, train: Programs, unseen: Programs, tmp_path: Path
) -> None:
    options = GbtOptions(objective=objective, rounds=40, learning_rate=0.2)
    whole, streamed = (Gbt(feature_spec="demo@1", options=options) for _ in range(2))
    whole.fit(train, None, seed=0, progress=False)

    streamed.fit_blocks(blocks_of(train), None, seed=0, external=external, cache=tmp_path, progress=False)

    assert evaluate(streamed, unseen).pairwise > 0.75
    assert abs(evaluate(streamed, unseen).pairwise - evaluate(whole, unseen).pairwise) < 0.05
    assert list(tmp_path.iterdir()) == [], "the files go when training ends"


def test_equal_seeds_give_equal_trees(train: Programs, unseen: Programs) -> None:
    scores = []
    for _ in range(2):
        model = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=12))
        model.fit_blocks(blocks_of(train), unseen, seed=3, progress=False)
        scores.append(model.predict(unseen.rows, unseen.counts))

    assert np.array_equal(*scores)


def test_training_stops_on_validation(train: Programs) -> None:
    noise = Programs(
        train.rows,
        train.counts,
        train.workload,
        train.workload_ids,
        np.random.default_rng(0).uniform(1e-3, 2e-3, size=train.n),
    )
    model = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=300, learning_rate=0.3, patience=3))

    model.fit_blocks(blocks_of(train), noise, seed=0, progress=False)

    assert model.booster is not None
    assert model.booster.num_boosted_rounds() < 20


def test_a_streamed_model_is_saved_and_loaded_like_any(train: Programs, tmp_path: Path) -> None:
    model = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=5))
    model.fit_blocks(blocks_of(train), None, seed=0, progress=False)
    model.save_weights(tmp_path)
    loaded = Gbt(feature_spec="demo@1")
    loaded.load_weights(tmp_path, model.config())

    assert np.array_equal(loaded.predict(train.rows, train.counts), model.predict(train.rows, train.counts))


def test_programs_that_tell_nothing_are_refused(train: Programs) -> None:
    alone = [train.select(np.array([place])) for place in (0, 40, 80)]

    with pytest.raises(DataError, match="nothing to learn from 3 programs"):
        Gbt(feature_spec="demo@1").fit_blocks(alone, None, seed=0, progress=False)


def test_an_error_while_a_block_is_read_is_the_one_that_is_raised(train: Programs) -> None:
    class Broken(list[Programs]):
        def __getitem__(self, number: int) -> Programs:  # type: ignore[override]
            raise DataError("The parts keep breaking.")

    with pytest.raises(DataError, match="keep breaking"):
        Gbt(feature_spec="demo@1").fit_blocks(Broken([train]), None, seed=0, progress=False)
