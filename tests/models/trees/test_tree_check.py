"""What a stranger may put into a file of trees: each form ends in a sentence, before XGBoost sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import costhub
from costhub.errors import ModelError
from costhub.models.folder import load_model
from costhub.models.trees.boosting import read_booster
from costhub.models.trees.tree_check import check_booster
from costhub.models.trees.ubjson import read_ubjson
from tests.hostile_trees import FORMS, mutated, spoiled

ROOT = Path(__file__).parents[3]
SMALL = ROOT / "tests/artefacts/0.1.0/models/gbt"
MUTATIONS = 1000


@pytest.mark.parametrize("form", FORMS)
def test_trees_that_would_lead_xgboost_astray_are_refused_in_a_sentence(form: str, tmp_path: Path) -> None:
    change, sentence = FORMS[form]
    (tmp_path / "config.json").write_bytes((SMALL / "config.json").read_bytes())
    path = tmp_path / "model.ubj"
    path.write_bytes(spoiled((SMALL / "model.ubj").read_bytes(), change))

    with pytest.raises(ModelError, match=sentence) as caught:
        load_model(tmp_path)

    assert str(caught.value).startswith(str(path))
    assert str(caught.value).endswith(". Fetch it again.")


def test_the_shipped_trees_are_sound() -> None:
    shipped = sorted(Path(costhub.__file__).parent.glob("hub/embedded/models/**/*.ubj"))
    assert len(shipped) >= 6

    for path in shipped:
        check_booster(read_ubjson(path.read_bytes()))


@pytest.mark.parametrize("version", ["3.0.0", "3.1.1", "3.2.0"])
@pytest.mark.parametrize("objective", ["regression", "rank", "lambdarank"])
def test_files_of_every_xgboost_that_costhub_asks_for_are_read(version: str, objective: str) -> None:
    booster = read_booster(Path(__file__).parent / f"written_by/xgboost-{version}-{objective}.ubj")

    assert (booster.num_boosted_rounds(), booster.num_features()) == (2, 5)


def test_no_change_at_random_brings_costhub_down(tmp_path: Path) -> None:
    """In a process of its own, which a crash of XGBoost would end."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.models.trees.try_mutations", str(SMALL), "0", str(MUTATIONS)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(costhub.__file__).parents[1]), str(ROOT)])}
        # Threads that wait for each other on a busy machine take longer than the trees.
        | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    outcomes = dict(line.split(" ", 1) for line in run.stdout.splitlines())
    assert run.returncode == 0, f"mutation {run.stdout.splitlines()[-1]} ended the process: {run.stderr[-500:]}"
    assert len(outcomes) == MUTATIONS
    wrong = {seed: outcome for seed, outcome in outcomes.items() if outcome not in ("refused", "harmless")}
    assert not wrong
    # Those that only change a threshold or a leaf a little are models like any other.
    assert 20 < sum(outcome == "harmless" for outcome in outcomes.values()) < MUTATIONS / 4


def test_the_mutations_are_of_many_kinds() -> None:
    data = (SMALL / "model.ubj").read_bytes()

    assert len({mutated(data, seed) for seed in range(200)}) > 190
