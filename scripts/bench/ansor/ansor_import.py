"""Benchmark `ansor-import`: what becomes of the records in logs of Ansor, by device and operator, and how fast."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import costhub
from costhub.dataset.ansor.replay import replay_sketches
from costhub.errors import CosthubError
from costhub.hub.catalogue.devices import find_device
from scripts.bench.ansor.ansor_logs import logs_option, operators, programs_by_module, spread
from scripts.bench.common import options
from scripts.bench.common.machine import write_result

REASONS = {
    "fetches vectors": "vectors",
    "TVM 0.27 refuses": "refused",
    "its workload is": "unknown",
}
"""Words in the reason of an import -> the count that it goes into; all others are `other`."""
RATE_PROGRAMS = 300


def imported(device: str, operator: str, lines: Sequence[bytes], data: Path) -> dict[str, Any]:
    """What becomes of the records of one operator; those that `data` has are not replayed again."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "operator.jsonl"
        log.write_bytes(b"\n".join(lines) + b"\n")
        try:
            report = costhub.import_ansor(log, data, device=device, workers=1)
        except CosthubError:  # nothing of it can be
            return {"device": device, "operator": operator, "records": len(lines), "rows": 0, "unknown": len(lines)}
    counts = Counter(rows=report.kept, duplicates=report.duplicates)
    for why, count in report.reasons.items():
        counts[next((name for words, name in REASONS.items() if words in why), "other")] += count
    memory = {"workloads": report.workloads, "peak_mib": report.peak_bytes >> 20}
    return {"device": device, "operator": operator, "records": len(lines), **counts, **memory}


def rate(device: str, lines: Sequence[bytes]) -> dict[str, Any]:
    """Programs that one core replays per second: its own time counts, so other work on the machine does not."""
    known = find_device(device)
    assert known is not None
    by_module = programs_by_module(lines)
    for module, steps in list(by_module.items())[:1]:  # what TVM loads for the first program is no part of the rate
        replay_sketches(module, str(known.target), steps[:1])
    begun, count = time.process_time(), 0
    for module, steps in by_module.items():
        reply = replay_sketches(module, str(known.target), steps)
        count += 0 if isinstance(reply, str) else sum(not isinstance(each, str) for each in reply.programs)
    return {"device": device, "programs": count, "cpu_s": time.process_time() - begun}


@click.command()
@options.quick("Few records of each log.")
@options.json_file()
@logs_option
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder with a data folder for each device, in which earlier imports go on; by default a temporary one.",
)
def main(quick: bool, path: Path | None, logs: tuple[tuple[Path, str], ...], data: Path | None) -> None:
    """Imports logs of Ansor, operator by operator."""
    rows, rates = [], []
    with tempfile.TemporaryDirectory() as temporary:
        for log, device in logs:
            by_operator = operators(log)
            sample = list(spread(by_operator, 20 if quick else RATE_PROGRAMS))
            rates.append(rate(device, sample))
            click.echo(json.dumps(rates[-1]))
            for operator, lines in by_operator.items():
                some = lines[:: max(1, len(lines) // 10)] if quick else lines
                rows.append(imported(device, operator, some, (data or Path(temporary)) / device))
                click.echo(json.dumps(rows[-1]))
    write_result(path, {"rows": rows, "rates": rates})
