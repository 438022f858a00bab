"""`costhub compile`: from a name to a library with the embedded hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.relax_networks import two_layers


def test_a_held_out_workload_is_compiled_by_the_model_and_near_workloads(costhub: Any, tmp_path: Path) -> None:
    name, out = "matmul.128x128x128", tmp_path / "compiled"
    output = costhub("compile", name, "--without", name, "--pool", "16", "--out", str(out), "--json")

    assert output.code == 0, output.err
    report = json.loads(output.out)
    (row,) = report["workloads"]
    assert row["counts"]["measured"] == 0 < row["counts"]["carried over"]
    assert row["known_workload"] != name
    assert (row["check"], report["without"]) == ("compared", [name])
    assert report["command"].startswith("costhub")
    assert (out / f"{name}.so").is_file()


def test_no_schedule_at_all_is_a_failure(costhub: Any, tmp_path: Path) -> None:
    name = "matmul.128x128x128"
    output = costhub("compile", name, "--without", name, "--source", "measured", "--out", str(tmp_path))

    assert output.code == 2
    assert "No workload got a schedule. The table says why." in output.err
    assert "No source has a schedule for this workload" in " ".join(output.out.split())


@pytest.mark.slow
def test_a_network_that_cannot_be_linked_is_a_failure_with_its_kernels_kept(
    costhub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tvm

    network, out = tmp_path / "net.json", tmp_path / "compiled"
    network.write_text(tvm.ir.save_json(two_layers(512)))
    arm = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}
    monkeypatch.setattr("costhub.search.zero_trials.compile.can_link", lambda _: False)

    output = costhub("compile", str(network), "--device", json.dumps(arm), "--pool", "8", "--out", str(out))

    assert output.code == 1
    assert "net will not be compiled as a whole: no linker for aarch64-linux-gnu is installed" in output.err
    assert "net has no library, since no linker for the target is installed" in output.err
    assert (out / "database_tuning_record.json").read_text()
    assert json.loads((out / "report.json").read_text())["networks"] == []


@pytest.mark.slow
def test_a_space_is_taken_by_name_and_an_unknown_one_refused(costhub: Any, tmp_path: Path) -> None:
    name, out = "matmul.128x128x128", tmp_path / "compiled"
    refused = costhub("compile", name, "--space", "lvm", "--out", str(out))
    assert (refused.code, out.exists()) == (2, False)
    assert "There is no design space named 'lvm'. Did you mean llvm" in refused.err

    output = costhub("compile", name, "--space", "llvm", "--pool", "8", "--out", str(out), "--json")

    assert output.code == 0, output.err
    report = json.loads(output.out)
    assert (report["plan"]["space"], report["workloads"][0]["space"]) == ("llvm", "llvm")


def test_a_command_that_names_nothing_says_so_first(costhub: Any) -> None:
    done = costhub("compile")

    assert done.code == 2
    assert "This does not say what to compile: name a network, a kernel or a file" in done.err
