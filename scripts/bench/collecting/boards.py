"""One tracker and four servers on the loopback: how they share work while two are killed and one is slow."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from costhub.collector.boards.boards import Boards
from costhub.collector.boards.server import RunningServer, board_server, tracker_server
from costhub.collector.boards.tracker import Tracker
from costhub.collector.build.builder import Builder
from costhub.collector.device.identity import identify
from costhub.collector.device.local import local_target
from costhub.collector.propose.sampler import Sampler
from costhub.collector.workloads.suites import find_suites
from scripts.bench.common import machine, options

WORKLOADS = ("matmul.128x128x128", "softmax.64x1000", "depthwise.28x256", "pointwise.14x96x576")
PORT = 19590
WAIT_S = 0.3  # stands for a board and a network that are slower than the loopback: spent asleep
STOPPED_S, RUNNING_S = 0.4, 0.2  # how long the slow board stands still and runs, in turn
NOTE = (
    "All servers share the cores of this machine, so more of them cannot compute more; the time asleep "
    "stands for boards and networks of their own, and shows how the work is shared."
)
WAITING = "#include <unistd.h>\n__attribute__((constructor)) static void asleep(void) {{ usleep({}); }}\n"


def with_wait(artifact: str) -> str:
    """A library that sleeps while it is loaded and then runs the program."""
    path = artifact.replace(".so", "-wait.so")
    source = Path(path).with_suffix(".c")
    source.write_text(WAITING.format(int(WAIT_S * 1e6)))
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", path, str(source), artifact], check=True)
    return path


def slow_down(server: RunningServer, stop: threading.Event) -> None:
    """Freezes a server and its sessions two thirds of the time."""
    while not stop.wait(RUNNING_S):
        os.killpg(server.child.pid or 0, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.killpg(server.child.pid or 0, signal.SIGCONT)


def measure(
    title: str, tracker: Tracker, work: list[tuple[str, Any]], servers: list[RunningServer], *, trouble: bool
) -> dict[str, Any]:
    """Runs all programs on the boards; `trouble` kills the first two meanwhile and slows the third down."""
    ran, stop = [], threading.Event()
    # No repetition on drift: servers that share two cores disturb each other, as boards of their own do not.
    boards = Boards(tracker.host, tracker.port, "bench", timeout_s=20.0, most_drift=math.inf)
    with boards, ThreadPoolExecutor(len(servers)) as threads:
        list(threads.map(lambda _: boards.reference_s(), servers))  # start-up is not what is measured
        if trouble:
            threading.Thread(target=slow_down, args=(servers[2], stop), daemon=True).start()
        start = time.perf_counter()
        for future in as_completed([threads.submit(boards.run, *program) for program in work]):
            ran.append(future.result())
            if trouble and len(ran) in (len(work) // 4, len(work) // 2):
                os.killpg(servers[4 * len(ran) // len(work) - 1].child.pid or 0, signal.SIGKILL)
        seconds = time.perf_counter() - start
        stop.set()
    good = sum(r.status == "ok" for r in ran)
    rate, share = good / seconds, Counter(str(r.board) for r in ran)
    click.echo(f"{title:44} {good:3} of {len(work)} good  {rate:6.2f} / s  {dict(share)}")
    row = {"title": title, "programs": len(work), "results": len(ran), "good": good, "good_per_s": rate}
    return {**row, "share": dict(share), "errors": [r.error for r in ran if r.error]}


@click.command()
@options.quick("Fewer programs.")
@options.json_file()
def main(quick: bool, path: Path | None) -> None:
    """Compares one server with four, two of which are killed."""
    target, tracker = local_target(), Tracker("127.0.0.1", PORT)
    rows: list[dict[str, Any]] = []
    identity = {"device": identify(), "target": target}
    with Builder(json.dumps(target)) as builder, tracker_server(port=PORT):
        work = []
        for workload in find_suites(WORKLOADS):
            programs = Sampler(workload.module(), json.dumps(target), seed=7).random(4 if quick else 12)
            built = builder.build([p.module_json for p in programs])
            work += [(b.artifact, p.arguments) for b, p in zip(built, programs, strict=True) if b.artifact]
        waiting = [(with_wait(artifact), arguments) for artifact, arguments in work]
        for own, what in ((work, "loopback only"), (waiting, f"{WAIT_S} s asleep per program")):
            for count, trouble in ((1, False), (4, False), (4, True)):
                with ExitStack() as stack:
                    ports = range(PORT + 1, PORT + 1 + count)
                    servers = [
                        stack.enter_context(board_server(tracker, "bench", port=p, identity=identity)) for p in ports
                    ]
                    title = f"{count} servers{', 2 killed, 1 slow' if trouble else ''}, {what}"
                    rows.append(measure(title, tracker, own, servers, trouble=trouble))
                one = rows[(len(rows) - 1) // 3 * 3]["good_per_s"]
                rows[-1]["ratio_to_one"] = rows[-1]["good_per_s"] / one
    machine.write_result(path, {"note": NOTE, "rows": rows})
