"""python try_mutations.py FOLDER FIRST LAST: what becomes of a model whose trees were changed at random.

Prints the number of each mutation before it is tried, since a crash of XGBoost ends the process, and its outcome.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.folder import load_model
from tests.hostile_trees import mutated


def outcome(folder: Path, programs: Programs) -> str:
    try:
        model, _ = load_model(folder)
    except ModelError as error:
        return "refused" if str(error).endswith(".") else f"no sentence: {error}"
    before = model.predict(programs.rows, programs.counts)
    model.update(programs, seed=0)
    after = model.predict(programs.rows, programs.counts)
    return "harmless" if np.isfinite([before, after]).all() else "not finite"


def main(folder: Path, first: int, last: int) -> None:
    rng = np.random.default_rng(0)
    columns = json.loads((folder / "config.json").read_text())["options"]["columns"]
    rows = rng.normal(size=(64, columns)).astype(np.float32) * 10.0 ** rng.integers(-30, 30, (64, columns))
    ones = np.ones(64, np.int64)
    programs = Programs(rows.astype(np.float32), ones, 0 * ones, ("w",), rng.uniform(1e-3, 1e-2, 64))
    sound = (folder / "model.ubj").read_bytes()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        (place / "config.json").write_bytes((folder / "config.json").read_bytes())
        for seed in range(first, last):
            (place / "model.ubj").write_bytes(mutated(sound, seed))
            print(seed, end=" ", flush=True)
            print(outcome(place, programs), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
