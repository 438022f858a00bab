"""Damages a small real folder in many ways and runs `costhub check` on each."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import click
import numpy as np
import pyarrow.parquet as pq

from costhub.dataset.check.folder import Reader, check_with
from scripts.bench.common import machine
from scripts.bench.data.shard_mutations import MUTATIONS, RESEALED
from scripts.bench.data.small_folder import small_folder


def outcome(reader: Reader, folder: Path, shard: Path, before: object) -> str:
    """The outcome of the check after one of the shards was damaged."""
    start = time.monotonic()
    try:
        findings = check_with(reader, folder)
    except Exception:
        return "crashed"
    if time.monotonic() - start > 10:
        return "over 10 s"
    if findings:
        return "found, its reader died" if any(" died" in f.message for f in findings) else "found"
    return "harmless" if pq.ParquetFile(shard).read().equals(before) else "ACCEPTED SILENTLY"


@click.command()
@click.option("--count", default=200)
@click.option("--seed", default=0)
@click.option("--resealed", is_flag=True, help="Also seal damaged shards again, as a forger would.")
@click.option("--json", "result", type=click.Path(path_type=Path))
def main(count: int, seed: int, resealed: bool, result: Path | None) -> None:
    """Prints a line for every kind of damage."""
    rng, kinds = np.random.default_rng(seed), MUTATIONS | (RESEALED if resealed else {})
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as place, Reader() as reader:
        folder = small_folder(Path(place) / "data")
        shards = [(p, p.read_bytes(), pq.ParquetFile(p).read()) for p in sorted(folder.glob("**/*.parquet"))]
        assert not check_with(reader, folder)
        for number in range(count):
            kind, (path, content, table) = list(kinds)[number % len(kinds)], shards[rng.integers(len(shards))]
            kinds[kind](path, rng)
            outcomes[kind][outcome(reader, folder, path, table)] += 1
            path.write_bytes(content)
    click.echo("\n".join(f"{kind:42}{dict(counts)}" for kind, counts in outcomes.items()))
    if result:
        total = sum(outcomes.values(), Counter())
        result.write_text(json.dumps({**machine.describe(), "total": total, "kinds": outcomes}, indent=1))


if __name__ == "__main__":
    main()
