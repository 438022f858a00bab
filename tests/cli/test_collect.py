"""`costhub collect`: real measurements from the command line, and refusals in one sentence."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from costhub.collector.device.identity import identify
from costhub.dataset.check.latencies import MOST_USUAL_SPREAD
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.shard import read_shard


def test_it_measures_and_goes_on(costhub: Any, tmp_path: Path) -> None:
    out = str(tmp_path / "data")
    first = costhub("collect", "--suite", "softmax.64x1000", "--trials", "4", "--out", out, "--json")
    second = costhub("collect", "softmax.64x1000", "--trials", "6", "--out", out, "--json")

    assert (first.code, second.code) == (0, 0)
    assert json.loads(first.out)["measured"] == 4
    told = json.loads(first.out)["profile"]["core_seconds"]
    assert told["reference"] > 0
    assert list(told)[-4:] == ["reference", "wait", "repeat", "other"]
    assert json.loads(second.out)["measured"] == 2
    assert costhub("check", out).code == 0
    again = costhub("collect", "--suite", "softmax.64x1000", "--trials", "6", "--out", out)
    assert again.out.startswith(f"Nothing was left to measure: {out} already holds these programs of")


@pytest.mark.slow
def test_the_summary_says_how_noisy_the_repeats_are_and_what_watching_took(costhub: Any, tmp_path: Path) -> None:
    out = tmp_path / "data"
    said = costhub("collect", "--suite", "softmax.64x1000", "--trials-per-workload", "2", "--out", str(out)).out
    runs = [run_s for run_s in DataFolder.open(out).measurements()["run_s"].to_pylist() if len(run_s) > 1]

    spreads = [max(run_s) / min(run_s) for run_s in runs]
    above = sum(spread > MOST_USUAL_SPREAD for spread in spreads)
    assert f"the slowest takes {np.median(spreads):.2f} times as long as the fastest; {above} of" in said
    assert re.findall(r"^  (\w+) .* core-s", said, re.MULTILINE)[-4:] == ["reference", "wait", "repeat", "other"]


@pytest.mark.slow
def test_a_request_to_end_leaves_all_rows_in_a_shard_and_no_process(tmp_path: Path) -> None:
    out = tmp_path / "data"
    arguments = ["collect", "--suite", "softmax.64x1000", "--trials", "5000", "--out", str(out)]
    code = f"from costhub.cli.main import main; main({arguments!r})"
    # A session of its own: the signal goes to the whole group, as `timeout` and service managers send it.
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as collector:
        while len(journal_lines(out)) < 5 and collector.poll() is None:
            time.sleep(0.05)
        children = psutil.Process(collector.pid).children(recursive=True)
        acknowledged = journal_lines(out)
        for _ in range(2):
            os.killpg(collector.pid, signal.SIGTERM)
        _, said = collector.communicate()

    assert collector.returncode == 130
    assert "Traceback" not in said
    assert journal_lines(out) == []
    shards = [read_shard(path) for path in (out / "measurements").glob("*/*.parquet")]
    found = {record_id for shard in shards for record_id in shard["record_id"].to_pylist()}
    assert {json.loads(line)["record_id"] for line in acknowledged} <= found
    kept = f"costhub: stopped; {out} holds {len(found)} measurements, and the same command continues from there."
    assert said.splitlines()[-1] == kept
    assert len(acknowledged) >= 5
    assert [child for child in children if child.is_running()] == []


def test_a_collection_that_is_stopped_says_what_is_kept(
    costhub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    out, words = tmp_path / "data", ("collect", "--suite", "softmax.64x1000", "--out")
    costhub(*words, str(out), "--trials-per-workload", "2")
    monkeypatch.setattr("costhub.cli.collect.collect", stop)
    before, after = costhub(*words, str(tmp_path / "new")), costhub(*words, str(out))

    assert (before.code, after.code) == (130, 130)
    assert before.err == "\ncosthub: stopped; nothing has been measured yet.\n"
    assert f"costhub: stopped; {out} holds 2 measurements, and the same command continues" in after.err


def test_an_interruption_that_comes_out_of_tvm_as_an_error_says_it_too(
    costhub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt as error:
            raise RuntimeError("TVM carries it through its C++ like this") from error

    monkeypatch.setattr("costhub.cli.collect.collect", stop)

    done = costhub("collect", "--suite", "softmax.64x1000", "--out", str(tmp_path / "new"))

    assert (done.code, done.err) == (130, "\ncosthub: stopped; nothing has been measured yet.\n")


def journal_lines(folder: Path) -> list[str]:
    """The whole lines: a row is acknowledged once its line has ended."""
    texts = [path.read_text() for path in folder.glob("measurements/*/journal.jsonl")]
    return [line for text in texts for line in text[: text.rfind("\n") + 1].splitlines()]


def test_what_a_probe_measured_of_the_device_stays(costhub: Any, tmp_path: Path) -> None:
    folder = DataFolder.create(tmp_path / "data")
    folder.put_device({**identify(), "peak_gflops": 12.5})
    costhub("collect", "--suite", "softmax.64x1000", "--budget", "0s", "--out", str(folder.path))
    assert folder.devices()["peak_gflops"].to_pylist() == [12.5]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--suite", "resnet81"], "resnet18"),
        (["--suite", "resnet18", "--device", "raspberry-pi-5"], "no device named 'raspberry-pi-5'"),
        (["--suite", "resnet18", "--device", "nvidia-h2000"], "NVIDIA GPU"),
        (["--suite", "resnet18", "--budget", "soon"], "30m"),
        ([], "name a workload, as in resnet18.c7, or use --suite or --network"),
        (["resnet18.c99"], "resnet18.c"),
        (["resnet51"], "resnet50"),
        (["softmax.64x1000", "nothing.json"], "The file nothing.json does not exist"),
        (["--suite", "resnet18", "--key", "pi4"], "--tracker"),
        (
            ["--suite", "resnet18", "--tracker", "127.0.0.1:9", "--key", "pi4", "--device", "cuda"],
            "--device selects a device of this machine; leave it out with --tracker.",
        ),
        (["--suite", "resnet18", "--shares", "random=2"], "sum to 1"),
        (["--suite", "resnet18", "--shares", "random=0.5,model=0.5"], "--model"),
        (["--suite", "softmax.64x1000", "--space", "nowhere"], "design space"),
        (["--network", "resnet18", "--precision", "bf16"], "give --space blocked"),
        (
            ["--suite", "softmax.64x1000", "--space", "blocked", "--precision", "bf16"],
            "--precision (precision= in Python) change how",
        ),
        (["--network", "resnet51"], "resnet50"),
        (["--network", "nothing.pt2"], "nothing.pt2"),
    ],
)
def test_bad_input_is_one_sentence(costhub: Any, tmp_path: Path, arguments: list[str], words: str) -> None:
    output = costhub("collect", *arguments, "--out", str(tmp_path / "data"))
    assert output.code in (1, 2)
    assert words in output.err
    assert "Traceback" not in output.err


@pytest.mark.slow
def test_a_folder_of_something_else_is_left_alone(costhub: Any, tmp_path: Path) -> None:
    shard = tmp_path / "data" / "measurements" / "d" / "train-00000-of-00001.parquet"
    shard.parent.mkdir(parents=True)
    shard.write_bytes(b"PAR1 not really")
    output = costhub("collect", "--suite", "softmax.64x1000", "--trials", "2", "--out", str(tmp_path / "data"))
    assert shard.read_bytes() == b"PAR1 not really"
    assert "Traceback" not in output.err
