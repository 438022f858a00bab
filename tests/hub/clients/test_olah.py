"""olah, a caching mirror of the hub: costhub reads through it, and is told where it wants to write.

It is not installed by the tests: `pip install olah` into an environment of its own, and
COSTHUB_OLAH=ENVIRONMENT/bin/olah-cli.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

Run = Callable[..., str]
VARIABLE = "COSTHUB_OLAH"
MAIN = "from costhub.cli.main import main; main({!r})"
LOAD = "import costhub; print(costhub.load_measurements({!r}).num_rows)"
PATIENCE_S = 60.0


@pytest.fixture
def mirror(server: Any, tmp_path: Path) -> Iterator[str]:
    """The address of olah in front of the loopback hub."""
    command = os.environ.get(VARIABLE) or shutil.which("olah-cli")
    if command is None:
        pytest.skip(f"there is no olah-cli on PATH, and {VARIABLE} names none")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    upstream, here = server.url.removeprefix("http://"), f"127.0.0.1:{port}"
    places = ["--repos-path", str(tmp_path / "mirrored"), "--log-path", str(tmp_path / "logs")]
    behind = ["--hf-scheme", "http", "--hf-netloc", upstream, "--hf-lfs-netloc", upstream]
    before = ["--mirror-scheme", "http", "--mirror-netloc", here, "--mirror-lfs-netloc", here]
    # Its own environment must not find our packages.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "COSTHUB_", "PYTHON"))}
    with (tmp_path / "olah.txt").open("w") as said:
        olah = subprocess.Popen(
            [command, "--host", "127.0.0.1", "--port", str(port), *behind, *before, *places],
            cwd=tmp_path,
            env=env,
            stdout=said,
            stderr=said,
        )
        try:
            _wait_for(port, olah)
            yield f"http://{here}"
        finally:
            olah.terminate()
            olah.wait()


def _wait_for(port: int, olah: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        assert olah.poll() is None, "olah ended by itself"
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("olah does not listen")


def test_a_model_is_pulled_through_it_and_the_second_time_out_of_its_cache(
    mirror: str, run: Run, server: Any, sound_model: Any, tmp_path: Path
) -> None:
    folder = sound_model("gbt", manifest=True)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    server.commit("acme/model", files)

    for name in ("first", "second"):
        server.requests.clear()
        command = MAIN.format(["pull", "hf-hub:acme/model", "--out", str(tmp_path / name)])
        run(sys.executable, "-c", command, HF_ENDPOINT=mirror, HF_HOME=str(tmp_path / f"{name}-hf"))
        assert {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} == files
    assert [request for request in server.requests if request.startswith("GET") and "resolve" in request] == []


def test_measurements_are_read_through_it_by_range(mirror: str, run: Run, server: Any, rows: dict[str, bytes]) -> None:
    server.commit("datasets/acme/data", rows)

    assert run(sys.executable, "-c", LOAD.format("hf-hub:acme/data"), HF_ENDPOINT=mirror).strip() == "40"


@pytest.mark.parametrize("verb", ["publish", "contribute"])
def test_a_mirror_takes_no_writes_and_that_is_a_sentence(
    mirror: str,
    environment: dict[str, str],
    server: Any,
    rows: dict[str, bytes],
    measured: Any,
    tmp_path: Path,
    verb: str,
) -> None:
    if verb == "contribute":
        server.commit("datasets/acme/data", rows)
    before = dict(server.refs)
    command = MAIN.format([verb, str(measured(tmp_path / "mine", 100)), "--to", "hf-hub:acme/data", "--yes"])

    done = subprocess.run(
        [sys.executable, "-c", command],
        env={**environment, "HF_ENDPOINT": mirror},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 1
    assert "read-only server, such as a mirror. Set HF_ENDPOINT to the hub itself." in done.stderr
    assert server.refs == before
