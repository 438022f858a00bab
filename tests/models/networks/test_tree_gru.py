from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.features.loop_context import COLUMN_NAMES, LOOP_CONTEXT, PARENT
from costhub.dataset.programs import Programs
from costhub.models.evaluation.evaluate import evaluate
from costhub.models.networks.mlp import Mlp, MlpOptions
from costhub.models.networks.tree_gru import TreeGru, TreeGruOptions
from costhub.testing import check_cost_model

SMALL = TreeGruOptions(hidden=16, slots=2, bins=0, epochs=30, batch=32, chunk=16, learning_rate=5e-3)
EXTENT, REDUCTION = COLUMN_NAMES.index("extent"), COLUMN_NAMES.index("is_reduction")


def nested(workloads: int, each: int, *, seed: int) -> Programs:
    """Programs of a root, a short loop, a long loop, and a reduction in one of the two; the long one is slow.

    The short and the long loop come in either order, so that the rows of a program without the tree are those
    of any other.
    """
    rng = np.random.default_rng(seed)
    n = workloads * each
    rows = np.zeros((n, 4, len(COLUMN_NAMES)), np.float32)
    rows[:, :, PARENT] = -1.0, 0.0, 0.0, 0.0
    rows[:, 3, PARENT] = rng.integers(1, 3, n)
    long_first = rng.integers(0, 2, n)
    rows[:, 1, EXTENT], rows[:, 2, EXTENT] = 2.0 + 6.0 * long_first, 8.0 - 6.0 * long_first
    rows[:, 3, REDUCTION] = 1.0
    in_long = (rows[:, 3, PARENT] == 1.0) == (long_first == 1)
    latency_s = 1e-3 * np.exp(1.0 * in_long + 0.01 * rng.normal(size=n))
    workload = np.repeat(np.arange(workloads), each)
    ids = tuple(f"{seed}-{i}" for i in range(workloads))
    return Programs(rows.reshape(4 * n, -1), np.full(n, 4), workload, ids, latency_s)


@pytest.fixture(scope="module")
def model() -> TreeGru:
    model = TreeGru(feature_spec=LOOP_CONTEXT, options=SMALL)
    model.fit(nested(6, 40, seed=0), None, seed=0, progress=False)
    return model


def test_what_only_the_tree_shows_is_learned(model: TreeGru) -> None:
    rows_only = Mlp(
        feature_spec=LOOP_CONTEXT,
        options=MlpOptions(hidden=16, epochs=30, batch=32, chunk=16, learning_rate=5e-3),
    )
    rows_only.fit(nested(6, 40, seed=0), None, seed=0, progress=False)
    unseen = nested(3, 40, seed=1)

    # Programs of one kind differ by 1 % at random, and count as equal.
    assert evaluate(model, unseen, noise_floor=0.2).pairwise > 0.99
    assert evaluate(rows_only, unseen, noise_floor=0.2).pairwise < 0.6


def test_scores_do_not_depend_on_the_order_of_the_programs_or_their_number(model: TreeGru) -> None:
    programs = nested(1, 30, seed=2)
    order = np.random.default_rng(0).permutation(programs.n)
    found = model.predict(programs.rows, programs.counts)

    shuffled, first = programs.select(order), programs.select(np.arange(7))

    np.testing.assert_allclose(model.predict(shuffled.rows, shuffled.counts), found[order], rtol=1e-11)
    np.testing.assert_allclose(model.predict(first.rows, first.counts), found[:7], rtol=1e-11)


def test_weights_come_back_as_they_were(model: TreeGru, tmp_path: Path) -> None:
    programs, loaded = nested(1, 30, seed=2), TreeGru(feature_spec=LOOP_CONTEXT)
    model.save_weights(tmp_path)

    loaded.load_weights(tmp_path, model.config())

    found = loaded.predict(programs.rows, programs.counts)
    np.testing.assert_array_equal(found, model.predict(programs.rows, programs.counts))


def test_equal_seeds_give_equal_models() -> None:
    options = TreeGruOptions(hidden=8, slots=2, bins=0, epochs=2)
    programs = nested(2, 20, seed=0)
    found = []
    for seed in (0, 0, 1):
        model = TreeGru(feature_spec=LOOP_CONTEXT, options=options)
        model.fit(programs, None, seed=seed, progress=False)
        found.append(model.predict(programs.rows, programs.counts))

    np.testing.assert_array_equal(found[0], found[1])
    assert not np.allclose(found[0], found[2])


def test_rows_of_other_specs_are_nodes_without_a_tree(train: Programs, unseen: Programs) -> None:
    model = TreeGru(feature_spec="demo@1", options=SMALL)
    model.fit(train, None, seed=0, progress=False)

    assert model.raw == ()
    assert evaluate(model, unseen).pairwise > 0.8


@pytest.mark.parametrize("option", ["hidden", "slots"])
def test_options_out_of_range_are_refused(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} must be between 1 and"):
        TreeGruOptions(**{option: 0})


@pytest.mark.slow
def test_it_is_a_good_cost_model_of_the_rows_it_is_made_for() -> None:
    check_cost_model(lambda: TreeGru(feature_spec=LOOP_CONTEXT, options=SMALL))
