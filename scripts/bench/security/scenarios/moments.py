"""Scenarios of moments and surroundings: kills, signals, locks, disks, streams and boards.

A scenario works in the folder that it is started in, and says every harm with `steps.harm`. It imports nothing of
costhub, so that any version can be attacked with it.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from scripts.bench.security.scenarios.steps import CLI, alive, children_of, costhub, need, start, tail, wait_until

MODEL = "amd-epyc-zen5-2c"
SOFTMAX, MATMUL = "softmax.64x1000", "matmul.256x256x256"
DATABASE = "database_tuning_record.json"


def _records() -> list[Path]:
    return [path for path in Path("out").rglob(DATABASE) if path.stat().st_size]


def _tune(workload: str, trials: int) -> list[str]:
    return ["tune", workload, "--model", MODEL, "--trials", str(trials), "--out", "out"]


def _sound_databases() -> int:
    lines = [line for path in _records() for line in path.read_text().splitlines()]
    for line in lines:
        json.loads(line)
    return len(lines)


def _gone(pids: list[int], seconds: float = 10.0) -> list[int]:
    end = time.monotonic() + seconds
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def killed_tune() -> None:
    """Kill -9 in the middle of a search: no child stays, the database parses, the next run sweeps and goes on."""
    process = start(*_tune(SOFTMAX, 40))
    wait_until(_records, "a record")
    children = children_of(process.pid)
    process.kill()
    process.wait()
    need(not _gone(children), "children outlived kill -9")
    before = _sound_databases()
    again = costhub(*_tune(SOFTMAX, 44))
    need(again.returncode == 0, f"the next run failed: {tail(again)}")
    need(_sound_databases() >= before, "records were lost")
    # torch makes a folder of its own there as soon as it is imported.
    left = [path.name for path in Path(os.environ["TMPDIR"]).iterdir() if not path.name.startswith("torchinductor_")]
    need(not left, f"left in the temporary folder: {left[:3]}")


def signalled() -> None:
    """SIGTERM of a search and SIGHUP of a collection: a sentence, 130, and no child stays."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, also by what starts from here
    for words, number, begun in (
        (_tune(SOFTMAX, 200), signal.SIGTERM, _records),
        (["collect", "--suite", SOFTMAX, "--trials", "500", "--out", "rows"], signal.SIGHUP, _journals),
    ):
        with open("log.txt", "w+", encoding="utf-8") as log:
            process = start(*words, out=log)
            wait_until(begun, f"the first row of {words[0]}")
            children = children_of(process.pid)
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            need(process.poll() == 130, f"{words[0]} ended with {process.poll()}")
            log.seek(0)
            need("stopped" in log.read(), f"{words[0]} did not say that it stopped")
        need(not _gone([*children, process.pid]), f"{words[0]} left processes")


def _journals() -> list[Path]:
    return [path for path in Path("rows").rglob("journal.jsonl") if path.stat().st_size]


def two_tunes(second: str) -> None:
    """Two searches with one --out: the second is refused, or both are in the report."""
    first = start(*_tune(MATMUL, 24))
    wait_until(lambda: _records() or first.poll() is not None, "a record")
    other = costhub(*_tune(second, 8))
    first.wait(120)
    need(first.returncode == 0, f"the first ended with {first.returncode}")
    _sound_databases()
    report = Path("out/report.json").read_text()
    need(MATMUL in report, "the report lost the first search")
    if other.returncode == 0:
        need(second in report, "the report lost the second search, which ended with 0")
        need(second != MATMUL, "a second search of the same workload was let in")
    print(tail(other))


def two_collections() -> None:
    """A second collection into one folder is refused by a sentence that names the first."""
    first = start("collect", "--suite", SOFTMAX, "--trials", "400", "--out", "rows")
    wait_until(_journals, "a row")
    second = costhub("collect", "--suite", SOFTMAX, "--trials", "2", "--out", "rows")
    need(second.returncode, "a second collection was let in")
    need(str(first.pid) in tail(second), f"the refusal does not name the first: {tail(second)}")
    first.terminate()
    first.wait(60)
    print(tail(second))


def killed_train() -> None:
    """Kill -9 of a training: only OUT.partial stays, for the owner alone, and the next run works."""
    words = ["train", "--data", "d", "--arch", "mlp", "--out", "tr"]
    process = start(*words, "--option", "epochs=4000")
    wait_until(Path("tr.partial").exists, "a partial model")
    time.sleep(1.0)
    process.kill()
    process.wait()
    need(not Path("tr").exists(), "half a model has the final name")
    modes = [oct(path.stat().st_mode & 0o777) for path in Path("tr.partial").rglob("*") if path.is_file()]
    need(all(mode.endswith("00") for mode in modes), f"others may read the partial model: {modes}")
    shutil.rmtree("tr.partial", ignore_errors=True)
    Path("tr.partial").unlink(missing_ok=True)
    again = costhub(*words, "--option", "epochs=2")
    need(again.returncode == 0, f"the next training failed: {tail(again)}")


@contextlib.contextmanager
def _disk(size: str, options: str = "") -> Iterator[Path]:
    disk = Path("disk")
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", "disk"], check=False)
    if done.returncode:
        sys.exit("no small disk can be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", "disk"], check=False)


def full_disk() -> None:
    """A disk of 3 MB: pull to it, and publish with its temporary folder on it."""
    with _disk("3m"):
        pulled = costhub("pull", MODEL, "--arch", "gbt", "--out", "disk/m")
        need(pulled.returncode, "a model of 3.6 MB went onto 3 MB")
        need("space" in tail(pulled).lower(), f"no word of the disk: {tail(pulled)}")
        need(not list(Path("disk").iterdir()), "something was left on the full disk")
        Path("hub").mkdir()
        env = {**os.environ, "TMPDIR": str(Path("disk").resolve())}
        sent = costhub("publish", "m", "--to", "hub", "--as", "a/m", "--yes", env=env)
        need(sent.returncode, "it was published through 3 MB")
        need("space" in tail(sent).lower(), f"no word of the disk: {tail(sent)}")
        need(not list(Path("disk").iterdir()), "something was left in the temporary folder")
        need(not [p for p in Path("hub").rglob("*") if p.is_file()], "half a model was published")
        print(tail(sent))


def read_only() -> None:
    """A read-only disk: its measurements can be evaluated, and nothing can be written to it."""
    with _disk("64m"):
        shutil.copytree("d", "disk/d")
        subprocess.run(["mount", "-o", "remount,ro", "disk"], check=True)
        done = costhub("evaluate", f"{MODEL}-gbt", "--data", "disk/d", "--all")
        need(done.returncode == 0, f"evaluate of read-only data: {tail(done)}")
        for words in (["pull", MODEL, "--out", "disk/m"], ["stats", "d", "--page", "disk/p.html"]):
            done = costhub(*words)
            need(done.returncode, f"{words[0]} wrote to a read-only disk")
            need("ead-only" in tail(done), f"{words[0]}: {tail(done)}")
        done = costhub("pull", MODEL, env={**os.environ, "COSTHUB_CACHE": str(Path("disk/cache").resolve())})
        need(done.returncode and "ead-only" in tail(done), f"pull into a read-only cache: {tail(done)}")


def bare_environment() -> None:
    """No HOME, no TERM, LC_ALL=C; and a HOME where nothing can be written."""
    bare = {k: v for k, v in os.environ.items() if k not in ("HOME", "TERM", "LANG", "COSTHUB_CACHE")}
    for env in ({**bare, "LC_ALL": "C"}, {**bare, "HOME": "/proc"}):
        done = costhub("pull", MODEL, env=env)
        need("Traceback" not in done.stderr and "bug" not in done.stderr, tail(done))
        done = costhub("devices", env=env)
        need(done.returncode == 0, f"devices: {tail(done)}")


def streams() -> None:
    """A reader that stops, closed streams and a full device: no traceback."""
    for redirect in ("| head -1", ">&-", ">/dev/full", "2>&-"):
        line = f'{sys.executable} -c "$CLI" devices {redirect}'
        env = {**os.environ, "CLI": CLI}
        done = subprocess.run(["sh", "-c", line], check=False, capture_output=True, text=True, env=env)
        need("Traceback" not in done.stderr and "a bug" not in done.stderr, f"{redirect}: {done.stderr[-200:]}")


def page_through_link() -> None:
    """Stats --page writes through a link, as every program does, and keeps the link."""
    Path("target.html").write_text("old")
    Path("page.html").symlink_to("target.html")
    done = costhub("stats", "d", "--page", "page.html")
    need(done.returncode == 0, tail(done))
    print("the link is", "kept" if Path("page.html").is_symlink() else "replaced")


def personal_data() -> None:
    """Nothing of what costhub writes says whose machine this is."""
    done = costhub("collect", "--suite", SOFTMAX, "--trials", "3", "--out", "rows")
    need(done.returncode == 0, tail(done))
    done = costhub(*_tune(SOFTMAX, 3))
    need(done.returncode == 0, tail(done))
    here, user = os.getcwd(), getpass.getuser()
    telling = {"the home folder": os.environ["HOME"], "the folder": here}
    short = {"the host": socket.gethostname(), "the user": user}
    telling |= {what: text for what, text in short.items() if len(text) > 4}  # a shorter one is in any file
    for path in [p for root in ("rows", "out") for p in Path(root).rglob("*") if p.is_file()]:
        content = path.read_bytes()
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            content += repr(pq.read_table(path).to_pylist()).encode()
        for what, text in telling.items():
            need(text.encode() not in content, f"{path.name} names {what}")


@contextlib.contextmanager
def _board() -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A tracker and a board on free ports: the board's process, and both ports."""
    ports = []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(free.getsockname()[1])
    tracker = start("board", "tracker", "--port", ports[0])
    board = None
    try:
        wait_until(lambda: _answers(ports[0]), "a tracker")
        board = start("board", "serve", "--tracker", f"127.0.0.1:{ports[0]}", "--key", "k", "--port", ports[1])
        wait_until(lambda: "k: 1" in costhub("board", "list", "--tracker", f"127.0.0.1:{ports[0]}").stdout, "a board")
        yield board, ports[0], ports[1]
    finally:
        for process in (board, tracker):
            if process is not None:
                process.terminate()
                process.wait(20)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def listening() -> None:
    """Trackers and boards listen on this machine only."""
    with _board() as (_, tracker, port):
        tables = [Path(f"/proc/net/tcp{kind}").read_text().splitlines()[1:] for kind in ("", "6")]
        bound = [line.split()[1].split(":") for table in tables for line in table if line.split()[3] == "0A"]
        for wanted in (tracker, port):
            hosts = [host for host, number in bound if int(number, 16) == wanted]
            need(hosts and all(host == "0100007F" for host in hosts), f"port {wanted} is bound to {hosts}")


def stranger_at_board() -> None:
    """Whoever reaches a board's port controls the board, as the documentation says."""
    with _board() as (_, tracker, _port):
        code = (
            f"import tvm.rpc; r = tvm.rpc.connect_tracker('127.0.0.1', {tracker}).request('k'); "
            "print(r.get_function('tvm.rpc.server.download')('/etc/hostname'))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        print("the stranger read a file" if done.returncode == 0 else tail(done))


def garbage_at_board() -> None:
    """Garbage at tracker and board: both go on; kill -9 of the board leaves nothing."""
    magic = (0x2F271).to_bytes(4, "little")
    rubbish = [b"", b"\0" * 64, b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 4096, magic]
    rubbish += [magic + b"\xff\xff\xff\x7f", magic + (9).to_bytes(4, "little") + b"{not json"]
    rubbish += [(0xFF271).to_bytes(4, "little") + b"\xff" * 8]
    with _board() as (board, tracker, port):
        for content in rubbish:
            for number in (tracker, port):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", number), timeout=2) as sent:
                    sent.sendall(content)
                    sent.settimeout(0.2)
                    with contextlib.suppress(OSError):
                        sent.recv(100)
        listed = costhub("board", "list", "--tracker", f"127.0.0.1:{tracker}")
        need("k: 1" in listed.stdout, f"after garbage the tracker says: {tail(listed)}")
        children = children_of(board.pid)
        board.kill()
        board.wait()
        need(not _gone(children), "processes of the board outlived kill -9")
