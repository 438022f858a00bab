"""What each process of tests/models/networks/test_neural.py does; `torchrun` starts it.

python -m torch.distributed.run ... joined_training.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from costhub.dataset.programs import Programs
from costhub.models.networks.mlp import Mlp
from costhub.models.networks.network_options import MlpOptions
from costhub.models.networks.processes import all_gather, all_mean, all_min, joined_processes


def main(folder: Path) -> None:
    """Trains on every other workload, and writes the weights and what the functions returned."""
    with np.load(folder / "programs.npz") as found, joined_processes() as (number, of):
        arrays = {name: found[name] for name in ("rows", "counts", "workload", "latency_s")}
        ids = tuple(f"w{i}" for i in range(int(arrays["workload"].max()) + 1))
        programs = Programs(workload_ids=ids, **arrays)
        valid = programs.of_workloads({ids[-1]})
        # One process has three workloads and the other two.
        mine = [programs.of_workloads({name}) for name in ids[number:-1:of]]
        model = Mlp(feature_spec="demo@1", options=MlpOptions(hidden=32, epochs=30, batch=64, chunk=16))
        model.fit_blocks(mine, valid, seed=0, progress=False)
        own = folder / f"process_{number}"
        own.mkdir()
        model.save_weights(own)
        told = {
            "mean": np.array([all_mean(float(number))]),
            "least": np.array([all_min(10 + number)]),
            "gathered": all_gather(np.full((number + 1, 2), number)),
        }
    # A thread that outlives its group aborts the process if it lets go of a tensor while Python exits.
    told["threads"] = np.array([len(gloo_threads())])
    save_file(told, own / "told.safetensors")


def gloo_threads() -> list[str]:
    """Names of the threads of this process that carry out what is sent and received."""
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    return [name for name in names if "gloo" in name]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
