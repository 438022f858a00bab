"""A collection in a process of its own, to be killed: says each program's id once its row is written."""

import sys
from pathlib import Path

from costhub.collector.collect import Proposals, collect
from costhub.collector.device.local import find_local
from costhub.collector.measurer import local_measurer
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.session import Rights
from costhub.collector.workloads.suites import find_suites
from costhub.dataset.folder import DataFolder


def main(path: str, trials: str) -> None:
    folder = DataFolder.create(Path(path))
    devices = find_local(["auto"])
    evaluator = Evaluator(repeat=1, min_repeat_ms=1)
    with local_measurer(devices, evaluator=evaluator) as measurer:
        folder.put_device(measurer.devices[0].stored_row)
        collect(
            find_suites(["matmul.128x128x128", "softmax.64x1000"]),
            folder,
            measurer=measurer,
            rights=Rights(),
            proposals=Proposals(int(trials), seed=1),
            budget_s=600,
            on_row=lambda workload, row, progress: print(row["program_id"], flush=True),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
