"""`costhub compile`: from a name to a library with the embedded hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


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


def test_a_command_that_names_nothing_says_so_first(costhub: Any) -> None:
    done = costhub("compile")

    assert done.code == 2
    assert "This does not say what to compile: name a network, a kernel or a file" in done.err
