"""`@huggingface/hub`, the client in JavaScript, which shares no code with the one in Python.

It is not installed by the tests: `npm install --prefix FOLDER @huggingface/hub`, and
COSTHUB_NODE_MODULES=FOLDER/node_modules.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

Run = Callable[..., str]
VARIABLE = "COSTHUB_NODE_MODULES"
SCRIPTS = Path(__file__).parent
SHARD = "measurements/amd-epyc-zen5-1c/train-00000-of-00001.parquet"


@pytest.fixture
def node(run: Run, server: Any) -> Run:
    """Runs a script with the hub and the package as its first arguments."""
    library = Path(os.environ.get(VARIABLE, "")) / "@huggingface/hub/dist/index.mjs"
    if shutil.which("node") is None:
        pytest.skip("there is no node on this machine")
    if not library.is_file():
        pytest.skip(f"{VARIABLE} names no folder with @huggingface/hub")
    return lambda script, *arguments: run("node", str(SCRIPTS / script), server.url, str(library), *arguments)


def test_it_uploads_lists_reads_offers_and_searches(node: Run, server: Any) -> None:
    said = json.loads(node("upload_and_read.mjs"))

    parquet = "measurements/cpu0/train-00000-of-00001.parquet"
    assert parquet in dict(said["listed"])
    assert dict(said["listed"])[parquet] == 80000
    assert (said["same"], said["missing"]) == (True, None)
    assert said["pullRequest"] == f"{server.url}/datasets/acme/js/discussions/1"
    assert said["found"] == ["acme/js"]
    assert said["exists"] == [True, False]
    assert server.files("datasets/acme/js")[parquet] == b"PAR1" * 20000
    assert server.files("datasets/acme/js", "refs/pr/1")["more.json"] == b"{}"


def test_what_costhub_publishes_it_reads_byte_for_byte(
    node: Run, run: Run, server: Any, measured: Any, tmp_path: Path
) -> None:
    folder = measured(tmp_path / "data")
    code = "from costhub.cli.main import main; main(['publish', {!r}, '--to', 'hf-hub:acme/data', '--yes'])"
    run(sys.executable, "-W", "ignore", "-c", code.format(str(folder)))

    node("download.mjs", "acme/data", SHARD, str(tmp_path / "down"))

    assert (tmp_path / "down").read_bytes() == (folder / SHARD).read_bytes()
