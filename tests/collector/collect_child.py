"""A collection in a process of its own, to be killed: says each program's id once its row is written."""

import json
import sys
from pathlib import Path

from costhub.collector.builder import Builder
from costhub.collector.collect import collect
from costhub.collector.device import identify
from costhub.collector.row import Session
from costhub.collector.run_service import Evaluator
from costhub.collector.runner import Runner
from costhub.collector.suite import find_suites
from costhub.collector.target import local_target
from costhub.dataset.folder import DataFolder


def main(path: str, trials: str) -> None:
    folder = DataFolder.create(Path(path))
    device, target = identify(), local_target()
    folder.put_device({**device, "target": json.dumps(target)})
    session = Session(
        device["device_id"], target, Evaluator(repeat=1, min_repeat_ms=1), "test", "CC-BY-4.0", None
    )
    with (
        Builder(json.dumps(target)) as builder,
        Runner(json.dumps(target), evaluator=session.evaluator) as runner,
    ):
        collect(
            find_suites(["matmul.128x128x128", "softmax.64x1000"]),
            folder,
            session=session,
            trials=int(trials),
            budget_s=600,
            builder=builder,
            runner=runner,
            seed=1,
            on_outcome=lambda plan, outcome, progress: print(outcome.program.program_id, flush=True),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
