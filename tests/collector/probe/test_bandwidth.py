"""Bandwidth of arrays of growing size, and of each cache."""

from __future__ import annotations

import json
import os
from itertools import pairwise

import numpy as np

from costhub.collector.probe.bandwidth import ladder_sizes, level_gbs, read_function, read_gbs
from costhub.collector.probe.kernels import ProbeDevice, assembly_of, compile_for

KIB, MIB = 1 << 10, 1 << 20
CACHES = {"kind": "cpu", "l1d_bytes": 32 * KIB, "l2_bytes": MIB, "l3_bytes": 16 * MIB}


def test_the_ladder_doubles_from_the_first_cache_to_far_beyond_the_last() -> None:
    sizes = ladder_sizes({**CACHES, "memory_bytes": 64 << 30}, 2)

    assert sizes[0] == 8 * KIB
    assert sizes[-1] == 256 * MIB
    assert all(after == 2 * before for before, after in pairwise(sizes))


def test_a_large_cache_makes_the_ladder_longer_and_a_small_memory_shorter() -> None:
    assert ladder_sizes({**CACHES, "l3_bytes": 256 * MIB}, 2)[-1] == 2048 * MIB
    assert ladder_sizes({**CACHES, "memory_bytes": 512 * MIB}, 2)[-1] == 128 * MIB


def test_many_cores_start_higher_so_that_each_has_something_to_read() -> None:
    assert ladder_sizes(CACHES, 64)[0] == 256 * KIB
    assert ladder_sizes({"kind": "cuda"}, 132)[0] == 16 * MIB


def test_each_level_takes_the_best_rung_inside_it() -> None:
    rungs = {16: 400, 32: 390, 64: 100, 128: 180, 1024: 200, 4096: 60, 8192: 70, 32768: 30, 131072: 20}
    ladder = [{"bytes": size * KIB, "gbs": float(gbs)} for size, gbs in rungs.items()]

    # Two cores: 64 KiB of L1 together, 2 MiB of L2; 64 KiB is at its edge, 128 KiB not yet beyond it.
    assert level_gbs(ladder, CACHES, 2) == {
        "l1_gbs": 400.0,
        "l2_gbs": 200.0,
        "l3_gbs": 70.0,
        "dram_gbs": 20.0,
    }


def test_a_level_of_unknown_size_is_none_and_memory_is_not() -> None:
    found = level_gbs([{"bytes": 64 * MIB, "gbs": 9.0}], {}, 1)

    assert found == {"l1_gbs": None, "l2_gbs": None, "l3_gbs": None, "dram_gbs": 9.0}


def test_the_second_level_of_a_gpu_is_shared() -> None:
    gpu = {"kind": "cuda", "l2_bytes": 60 * MIB}

    assert level_gbs([{"bytes": 64 * MIB, "gbs": 9.0}], gpu, 132)["l2_gbs"] is None
    assert level_gbs([{"bytes": 32 * MIB, "gbs": 9.0}], gpu, 132)["l2_gbs"] == 9.0


def test_every_number_is_read_once_a_round_and_by_one_worker_only(target: str) -> None:
    import tvm

    lanes, chains, blocks, rounds = 4, 8, 5, 3
    size = 2 * blocks * chains * lanes
    numbers = np.arange(size, dtype="float32")
    out = tvm.runtime.tensor(np.zeros((2, chains * lanes), "float32"))
    kernel = compile_for(read_function(lanes, chains, 1), ProbeDevice(target, "cpu", 2))

    kernel.seconds((2, blocks, rounds, tvm.runtime.tensor(numbers), out))

    assert out.numpy().sum() == rounds * numbers.sum()
    assert out.numpy()[0].sum() == rounds * numbers[: size // 2].sum()


def test_sums_stay_in_registers() -> None:
    target = '{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v4"}'

    lines = assembly_of(read_function(16, 16, 1), target).splitlines()

    adding = [line for line in lines if "\tvaddps\t" in line]
    assert len(adding) >= 16
    assert all(line.split()[1].startswith(("(", *"0123456789-")) and "%zmm" in line for line in adding)


def test_a_cache_is_faster_than_memory(target: str) -> None:
    cores = min(2, len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else 1
    bench = ProbeDevice(target, "cpu", cores)

    small, fast = read_gbs(bench, 16 * KIB, largest=64 * MIB, budget_s=0.2)
    large, slow = read_gbs(bench, 64 * MIB, largest=64 * MIB, budget_s=0.2)

    assert (small, large) == (16 * KIB, 64 * MIB)
    assert fast > slow > 0.1


def test_a_size_below_what_the_workers_read_at_once_is_rounded_up(target: str) -> None:
    size, _ = read_gbs(ProbeDevice(json.dumps(json.loads(target)), "cpu", 2), 1, largest=MIB, budget_s=0.0)

    assert size >= 2 * 4 * 4 * 8
