"""A process that appends measurements until it is killed; run by test_writer.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from costhub.dataset.shards.writer import MeasurementWriter


def main(folder: Path, acknowledged: Path) -> None:
    report = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with MeasurementWriter(folder, "cpu0", compact_rows=10) as writer:
        number = len(writer.record_keys)
        while True:
            writer.append(
                {
                    "record_id": str(number),
                    "program_id": "p",
                    "workload_id": f"w{number % 3}",
                    "device_id": "cpu0",
                    "target": "{}",
                    "trace": "[[],[]]",
                    "status": "ok",
                    "run_s": [float(number)],
                    "proposed_by": "random",
                }
            )
            os.write(report, f"{number}\n".encode())
            number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
