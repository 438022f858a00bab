"""Probes this CPU under three instruction sets, on one core and on all, beside OpenBLAS and STREAM."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from costhub.cards.reports.device_plots import plot_ladders
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.collector.device.identity import identify
from costhub.collector.device.local import local_target
from costhub.collector.probe.bandwidth import level_gbs
from costhub.collector.probe.probe import probe
from scripts.bench.common import machine, options

# OpenBLAS's names for CPUs whose kernels use a register width, and gcc's names for the instruction sets.
OPENBLAS = {512: "SkylakeX", 256: "Haswell", 128: "Nehalem"}
GCC = {512: "x86-64-v4", 256: "x86-64-v3", 128: "x86-64-v2"}
FLOP_PER_CYCLE = {"zen5": {512: 64, 256: 32, 128: 16}, "zen4": {512: 32, 256: 32, 128: 16}}
"""Of one core in float32: AMD, Software Optimization Guide of family 1Ah (57647) and 19h (56665)."""

SGEMM = """
import sys, time
import numpy as np
n, seconds = int(sys.argv[1]), float(sys.argv[2])
a = np.random.default_rng(0).random((n, n), dtype=np.float32)
out, best, end = np.empty_like(a), 1e9, time.perf_counter() + seconds
while time.perf_counter() < end:
    start = time.perf_counter()
    np.matmul(a, a, out=out)
    best = min(best, time.perf_counter() - start)
print(2 * n**3 / best / 1e9)
"""

# Read: each thread sums up its part, again and again.
# Triad: a = b + s c, counted as 3 arrays (McCalpin, "STREAM", 1995).
STREAM = r"""
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
typedef float vec __attribute__((vector_size(WIDTH)));
enum { K = 8 };
static double read_pass(const vec *a, long n, long rounds) {
  double start = omp_get_wtime();
  #pragma omp parallel
  {
    long each = n / omp_get_num_threads() / K * K;
    const vec *p = a + each * omp_get_thread_num();
    vec s[K] = {};
    for (long r = 0; r < rounds; r++) {
      for (long i = 0; i < each; i += K)
        for (int k = 0; k < K; k++) s[k] += p[i + k];
      __asm__ volatile("" ::: "memory");
    }
    for (int k = 0; k < K; k++) __asm__ volatile("" :: "m"(s[k]));
  }
  return omp_get_wtime() - start;
}
static double triad_pass(vec *a, const vec *b, const vec *c, long n, long rounds) {
  double start = omp_get_wtime();
  for (long r = 0; r < rounds; r++) {
    #pragma omp parallel for
    for (long i = 0; i < n; i++) a[i] = b[i] + 3.0f * c[i];
  }
  return omp_get_wtime() - start;
}
int main(int argc, char **argv) {
  double seconds = atof(argv[1]);
  for (int j = 2; j < argc; j++) {
    long bytes = atol(argv[j]), triad = bytes < 0, n = labs(bytes) / WIDTH, rounds = 1;
    double counted = triad ? 3.0 * n * WIDTH : (double)n * WIDTH, best = 0;
    vec *a[3];
    for (int i = 0; i < 3; i++) {
      a[i] = aligned_alloc(4096, (n * WIDTH + 4095) / 4096 * 4096);
      #pragma omp parallel for
      for (long k = 0; k < n; k++) a[i][k] = (vec){} + 1;
      if (!triad) break;
    }
    for (double end = omp_get_wtime() + seconds; omp_get_wtime() < end;) {
      double t = triad ? triad_pass(a[0], a[1], a[2], n, rounds) : read_pass(a[0], n, rounds);
      if (t < 0.0025) { rounds *= 2; continue; }
      if (rounds * counted / t > best) best = rounds * counted / t;
    }
    printf("%.3f\n", best / 1e9);
    for (int i = 0; i < (triad ? 3 : 1); i++) free(a[i]);
  }
}
"""
COLUMNS = (
    TableColumn("device_id", "device"),
    number("clock_ghz", "GHz", ".2f"),
    number("peak_gflops", "float32 GFLOP/s", ",.0f"),
    number("peak_of_vendor", "of vendor", ".3f"),
    number("sgemm_of_peak", "sgemm of peak", ".3f"),
    *(number(f"{level}_gbs", f"{level.upper()} GB/s", ",.0f") for level in ("l1", "l2", "l3", "dram")),
    *(number(f"{level}_of_c", f"{level.upper()} of C", ".3f") for level in ("l1", "l2", "l3", "dram")),
    number("triad_of_dram", "triad of DRAM", ".3f"),
    number("probe_s", "s", ".1f"),
)


def sgemm_gflops(width: int, threads: int, *, seconds: float, size: int) -> float:
    """GFLOP/s of numpy's float32 matrix product, by the kernels of OpenBLAS for a register width."""
    number = str(threads)
    settings = {
        "OPENBLAS_CORETYPE": OPENBLAS[width],
        "OPENBLAS_NUM_THREADS": number,
        "OMP_NUM_THREADS": number,
    }
    command = [sys.executable, "-c", SGEMM, str(size), str(seconds)]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=True)
    return float(done.stdout)


def stream_gbs(width: int, threads: int, sizes: list[int], *, folder: str, seconds: float) -> list[float]:
    """GB/s of reading arrays of these sizes in bytes, in C; a negative size is that of the triad's arrays."""
    source, program = Path(folder, "stream.c"), Path(folder, f"stream{width}")
    source.write_text(STREAM)
    flags = [f"-march={GCC[width]}", f"-DWIDTH={width // 8}", "-O3", "-fopenmp", "-Wno-psabi"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(program)], check=True)
    settings = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "true"}
    command = [str(program), str(seconds), *map(str, sizes)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]


def row_of(isa: str | None, threads: int, folder: str, quick: bool) -> dict[str, Any]:
    """One device: what the probe measures, what other programs measure, and the ratios."""
    device = identify(isa=isa, threads=threads)
    start = time.perf_counter()
    probed = probe(local_target(isa=isa, threads=threads), device=device, budget_s=8.0 if quick else 25.0)
    row = {**device, **probed, "probe_s": time.perf_counter() - start}
    width, seconds = device["simd_bits"], 0.1 if quick else 0.5
    clock = float(re.findall(r"([\d.]+) GHz", row["probe_method"])[0])
    sgemm = sgemm_gflops(width, threads, seconds=10 * seconds, size=1024 if quick else 4096)
    sizes = [rung["bytes"] for rung in row["bandwidth_ladder"]]
    *read, triad = stream_gbs(width, threads, [*sizes, -sizes[-1]], folder=folder, seconds=seconds)
    ladder = [{"bytes": size, "gbs": gbs} for size, gbs in zip(sizes, read, strict=True)]
    ratios = {
        f"{key.removesuffix('_gbs')}_of_c": row[key] / other if row[key] and other else None
        for key, other in level_gbs(ladder, device, threads).items()
    }
    per_cycle = FLOP_PER_CYCLE.get(device["microarchitecture"], {}).get(width)
    ratios["peak_of_vendor"] = row["peak_gflops"] / (clock * threads * per_cycle) if per_cycle else None
    ratios |= {"sgemm_of_peak": sgemm / row["peak_gflops"], "triad_of_dram": triad / row["dram_gbs"]}
    measured = {"clock_ghz": clock, "sgemm_gflops": sgemm, "triad_gbs": triad, "c_ladder": ladder}
    return {**row, **measured, **ratios}


@click.command()
@options.quick("About two minutes instead of five.")
@options.json_file()
def main(quick: bool, path: Path | None) -> None:
    """Run it with nothing else on the machine; gcc and an x86 CPU are needed."""
    cores = identify()["cores"]
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(isa, threads) for isa in (None, "avx2", "sse4.2") for threads in sorted({1, cores})]
        rows = [row_of(isa, threads, folder, quick) for isa, threads in pairs]
    click.echo(plain_table(rows, COLUMNS))
    if path:
        machine.write_result(path, {"probe": rows}, default=str)
        plot_ladders([row for row in rows if row["cores"] == 1], path.with_suffix(".png"))
