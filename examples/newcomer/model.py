"""A cost model of one's own: ridge regression on costhub's features, one for CPUs and one for GPUs."""

import numpy as np

import costhub
from costhub.dataset.features.specs import find_spec

LEARNED = {"cpu": ("amd-epyc-zen5-2c", "workload-40-seed0"), "gpu": ("nvidia-h200", "workload-12-seed0")}
"""Kind of device -> the device and the split whose train side is learned from."""
SCORED = {
    "nvidia-v100": "workload-12-seed0",
    "nvidia-k80": "workload-12-seed0",
    "amd-mi50": "workload-12-seed0",
    "nvidia-a100": "workload-18-seed0",
    "intel-xeon-emeraldrapids-2c-avx2": "workload-40-seed0",
    "amd-epyc-zen5-1c": "workload-40-seed0",
}
"""The splits of the replay benchmark. Nothing on a test side of any is learned from, on whichever device."""
WORKLOADS = 30
"""How many of each train side: enough for a linear model, and their features take a minute."""
PENALTY = 100.0
"""Of the squared weights; a guess that was not tuned."""
THREADS = find_spec("tiles@1").columns.index("thread")
"""The column that says over how many threads of a GPU a statement runs, as log2(n + 1)."""


class Ridge:
    """Predicts the log throughput of a program, compared with the other programs of its workload.

    Play it with ``costhub bench search --model examples/newcomer/model.py:Ridge``. Making it trains it.
    """

    feature_spec = "tiles@1"

    def __init__(self):
        scored = {each for device, split in SCORED.items() for each in costhub.load_split(device, split).test}
        self.weights = {}
        for kind, (device, split) in LEARNED.items():
            side = set(costhub.load_split(device, split).train) - scored
            self.weights[kind] = fitted(costhub.load_programs(device, workloads=set(sorted(side)[:WORKLOADS])))

    def predict(self, rows, counts):
        """(n,) scores, higher is faster."""
        columns = summary(rows, counts)
        is_gpu = columns[:, THREADS] > 1.0  # log2(1 + 1): a single thread
        return np.where(is_gpu, columns @ self.weights["gpu"], columns @ self.weights["cpu"])


def summary(rows, counts):
    """(n, 2 d): the row of each program with the most operations, which is its first, and the mean of all."""
    found = np.zeros((len(counts), 2 * rows.shape[1]))
    some = np.flatnonzero(counts)  # a program may have no rows
    first = (np.cumsum(counts) - counts)[some]
    mean = np.add.reduceat(rows, first, axis=0) / counts[some, None]
    found[some] = np.concatenate([rows[first], mean], axis=1)
    return found


def fitted(programs):
    """(2 d,) the weights of ridge regression on what programs of one workload and device differ in."""
    x = centred(summary(programs.rows, programs.counts), programs.group)
    y = centred(np.log(programs.throughput())[:, None], programs.group)[:, 0]
    scale = x.std(axis=0) + 1e-3
    x = x / scale
    return np.linalg.solve(x.T @ x + PENALTY * np.eye(x.shape[1]), x.T @ y) / scale


def centred(values, group):
    """The values less the mean of their group: latencies are comparable only within a workload on a device."""
    sums = np.zeros((group.max() + 1, values.shape[1]))
    np.add.at(sums, group, values)
    return values - (sums / np.bincount(group)[:, None])[group]
