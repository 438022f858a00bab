"""The report files of `costhub tune`, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

from costhub.cli.tune_report import TuneReport, told
from costhub.transfer.network.contest import Latency
from costhub.transfer.network.finish import FinishedNetwork
from costhub.transfer.search.result import TuneResult

RESULTS = [
    TuneResult("conv", 2, 0, 1.0, 9.0, 5.0, [(1, 0.1, 7.0), (2, 0.2, 5.0)], stages={"running": 1.0}),
    TuneResult("<b>relu</b>".replace("/", ""), 1, 0, 1.0, 3.0, 2.0, [(1, 0.1, 2.0)], stages={"other": 1.0}),
]
NETWORK = FinishedNetwork(
    "net", 2, library="out/net.so", inputs=(("float32", (1, 3)),), kernels=4, kernels_tuned=2,
    latencies={"untuned": Latency(90.0, 80.0, 99.0, 7), "tuned": Latency(30.0, 29.0, 31.0, 9)},
    notes=("torch.compile was not timed.",),
)  # fmt: skip
DEVICE = {"device_id": "acme", "model_name": "ACME", "cores": 2, "memory_bytes": 1 << 30}


def test_three_reports_are_written_that_say_the_same(tmp_path: Path) -> None:
    weights = {RESULTS[0].workload: 3.0, RESULTS[1].workload: 1.0}
    report = TuneReport(
        RESULTS, tmp_path, weights, ["conv", RESULTS[1].workload, "conv"], DEVICE,
        {"model": "m", "model_reason": "why", "method": "how"},
    )  # fmt: skip
    report.draw()
    summary = report.write([NETWORK])

    assert json.loads((tmp_path / "report.json").read_text()) == json.loads(json.dumps(summary))
    assert summary["networks"][0]["latencies"]["tuned"]["median_us"] == 30.0
    assert summary["estimate"] == [(0, 30.0), (1, 24.0), (2, 23.0), (3, 17.0)]
    assert summary["workloads"][0]["share_before"] == 0.9
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "90.0 µs before, 30.0 µs after, 3.0 times as fast" in text
        assert "ACME, 2 cores, 1 GiB" in text or name == "report.md"
    assert "<b>relu" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_end_of_the_command_says_where_the_network_is(tmp_path: Path) -> None:
    text = told(RESULTS, [NETWORK], tmp_path)

    assert "equal torch's" in text
    assert "network   out/net.so" in text
    assert "torch.compile was not timed." in text


def test_a_wrong_network_is_said_to_differ(tmp_path: Path) -> None:
    from dataclasses import replace

    text = told(RESULTS, [replace(NETWORK, error="Wrong.", library=None)], tmp_path)

    assert "see below" in text
    assert "network   " not in text
