"""Tables of kernels as shares of the peak, and before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.tables.engines.kernels import (
    beside_stock_table,
    engine_kernels_table,
    kernels_beside_table,
    two_dates_table,
)

NONE = "Not measured yet."
ABOUT = {"device": "toaster", "peaks": {"float32": 200.0, "bfloat16": 400.0}}


def kernel(title: str, us: float, flop: float | None, *, calls: int = 1, name: str = "fused_it") -> dict[str, Any]:
    kind = "runtime overhead" if name.startswith("vm.") else "matmul"
    return {"name": name, "title": title, "kind": kind, "calls": calls, "us": us, "flop": flop}


def profiled(*kernels: dict[str, Any], engine: str = "costhub", network: str = "net") -> dict[str, Any]:
    about = {"network": network, "engine": engine, "precision": "float32", "whole_us": 1000.0}
    return {**about, "kernels": list(kernels)}


def test_kernels_with_the_same_product_are_added_up_and_compared_with_the_peak() -> None:
    kernels = [
        kernel("small", 10.0, 1e6),
        kernel("matmul", 30.0, 1e6, calls=3),
        kernel("matmul", 20.0, 2e6),
        kernel("copy", 5.0, 0.0),
        kernel("overhead", 900.0, None, name="vm.builtin.alloc_tensor"),
    ]

    shown = engine_kernels_table({**ABOUT, "profiles": [profiled(*kernels)]}).splitlines()

    assert shown[0] == "| network | kernel | calls | ms | of the network's time | GFLOP/s | of the peak |"
    # Three calls of 1e6 and one of 2e6 operations in 50 us, and a peak of 200.
    assert shown[2:5] == [
        "| net | matmul | 4 | 0.05 | 5% | 100 | 50% |",
        "| net | small | 1 | 0.01 | 1% | 100 | 50% |",
        "| net | copy | 1 | 0.01 | 0% | - | - |",
    ]
    assert shown[-1] == "Peak: 200 GFLOP/s in float32."


def test_only_kernels_that_multiply_in_bfloat16_have_its_peak() -> None:
    kernels = [kernel("a", 20.0, 2e6, name="fused_matmul_pairs_add"), kernel("b", 10.0, 1e6, name="matmul_heads")]

    shown = engine_kernels_table({**ABOUT, "profiles": [profiled(*kernels, engine="costhub-bf16")]}).splitlines()

    assert [line.split(" | ")[2::5] for line in shown[2:4]] == [["bfloat16", "25% |"], ["float32", "50% |"]]
    assert shown[-1] == "Peak: 200 GFLOP/s in float32 and 400 GFLOP/s in bfloat16."


def test_the_slowest_kernels_of_each_network_are_shown() -> None:
    profiles = [
        profiled(*(kernel(f"k{n}", 1.0 + n, 1e3) for n in range(5)), network="a"),
        profiled(kernel("k0", 1.0, 1e3), network="b"),
        profiled(kernel("k9", 9.0, 1e3), engine="torch"),
    ]

    shown = engine_kernels_table({**ABOUT, "profiles": profiles}, most=2).splitlines()[2:5]

    assert [line.split(" | ")[:2] for line in shown] == [["| a", "k4"], ["| a", "k3"], ["| b", "k0"]]


def test_without_a_measured_peak_that_of_the_index_counts() -> None:
    result = {"device": "nvidia-a100", "profiles": [profiled(kernel("a", 1.0, 1e6))]}  # 19,500 GFLOP/s

    assert engine_kernels_table(result).splitlines()[2].endswith("| 1,000 | 5% |")
    described = {**result, "device": "toaster", "described": "Counted later."}
    assert engine_kernels_table(described).splitlines()[-1] == "The peak of this CPU is not known. Counted later."


def test_before_and_after_are_joined_by_network_and_kernel() -> None:
    before = {
        **ABOUT,
        "profiles": [
            profiled(kernel("shared", 40.0, 2e6), kernel("gone", 90.0, 1e6)),
            profiled(kernel("shared", 80.0, 2e6), network="other"),
        ],
    }
    new = [kernel("shared", 20.0, 2e6), kernel("new", 5.0, 1e6)]
    after = {**ABOUT, "profiles": [profiled(*new), profiled(*new, network="other")]}

    shown = kernels_beside_table(before, after).splitlines()

    assert shown[0] == (
        "| network | kernel | calls | before (ms) | GFLOP/s | of the peak "
        "| after (ms) | GFLOP/s | of the peak | after / before |"
    )
    assert shown[2:] == [
        "| other | shared | 1 | 0.08 | 25 | 12% | 0.02 | 100 | 50% | 0.25 |",
        "| net | shared | 1 | 0.04 | 50 | 25% | 0.02 | 100 | 50% | 0.50 |",
    ]
    assert len(kernels_beside_table(before, after, most=1).splitlines()) == 3


def test_stock_stands_beside_costhub_in_one_file() -> None:
    profiles = [profiled(kernel("a", 40.0, 2e6), engine="stock"), profiled(kernel("a", 20.0, 2e6))]

    head, _, line = beside_stock_table({**ABOUT, "profiles": profiles}).splitlines()

    assert "| stock TVM (ms) |" in head
    assert head.endswith("| costhub / stock TVM |")
    assert line.endswith("| 0.50 |")


def test_two_files_are_read_by_their_names(tmp_path: Path) -> None:
    for name, us, day in (("old", 40.0, "01"), ("new", 10.0, "02")):
        about = {**ABOUT, "date": f"2026-01-{day}T00:00", "versions": {"costhub": "1.0"}}
        (tmp_path / f"{name}.json").write_text(json.dumps({**about, "profiles": [profiled(kernel("a", us, 2e6))]}))

    shown = two_dates_table(("old", "new"), tmp_path).splitlines()

    assert shown[2].endswith("| 0.25 |")
    peak = "Peak: 200 GFLOP/s in float32."
    assert shown[-1] == f"Before: 2026-01-01, costhub 1.0. {peak} After: 2026-01-02, costhub 1.0. {peak}"


def test_files_without_these_figures_are_not_measured() -> None:
    profile = profiled(kernel("", 1.0, None))
    del profile["kernels"][0]["title"], profile["kernels"][0]["flop"]
    for profiles in ([], [profile], [{"network": "net", "engine": "costhub", "error": "died"}]):
        result = {"device": "toaster", "profiles": profiles}
        assert engine_kernels_table(result) == beside_stock_table(result) == NONE
