from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from costhub.dataset.programs import Programs
from costhub.errors import CosthubError
from costhub.models.evaluate import evaluate
from costhub.models.trees.gbt import Gbt, GbtOptions
from scripts.bench.models.dask_trees import fit_trees_dask

if TYPE_CHECKING:
    from distributed import Client


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A cluster of two processes on this machine, reachable from this machine only."""
    distributed = pytest.importorskip("distributed", reason="needs Dask")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def blocks_of(programs: Programs) -> list[Programs]:
    """A block for each workload."""
    return [programs.of_workloads({name}) for name in programs.workload_ids]


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["regression", "rank"])
def test_trees_of_two_workers_rank_as_those_of_one_process(
    objective: str, client: Client, train: Programs, unseen: Programs
) -> None:
    options = GbtOptions(objective=objective, rounds=40, learning_rate=0.2)
    alone, together = (Gbt(feature_spec="demo@1", options=options) for _ in range(2))
    alone.fit(train, None, seed=0, progress=False)

    fit_trees_dask(together, blocks_of(train), None, client=client, seed=0)

    assert len(client.scheduler_info()["workers"]) == 2
    assert evaluate(together, unseen).pairwise > 0.75
    assert abs(evaluate(together, unseen).pairwise - evaluate(alone, unseen).pairwise) < 0.05


@pytest.mark.slow
def test_training_stops_on_validation(client: Client, train: Programs) -> None:
    model = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=300, learning_rate=0.5, patience=3))

    valid = train.of_workloads({train.workload_ids[0]})

    fit_trees_dask(model, blocks_of(train)[1:], valid, client=client, seed=0)

    assert model.booster is not None
    assert model.booster.num_boosted_rounds() < 300


def test_without_dask_the_message_says_what_to_install(train: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost.dask", None)

    with pytest.raises(CosthubError, match=r"pip install 'dask\[array,dataframe\]' distributed"):
        fit_trees_dask(Gbt(feature_spec="demo@1"), [train], None, client=None, seed=0)  # type: ignore[arg-type]
