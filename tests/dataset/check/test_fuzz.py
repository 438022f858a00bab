"""Damage of many kinds to a small real folder: found, or harmless, and never more than a finding."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.bench.common.fresh import run_module


def test_no_damage_is_accepted_silently(tmp_path: Path) -> None:
    path = tmp_path / "fuzz.json"
    words = ("--count", "200", "--resealed", "--json", path)
    done = run_module("scripts.bench", "fuzz", *words, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr

    result = json.loads(path.read_text())
    assert sum(result["total"].values()) == 200
    # The harmless ones change what no reader looks at, and were sealed again by whoever changed them.
    assert result["total"].keys() <= {"found", "harmless"}
    assert all(counts.keys() == {"found"} for kind, counts in result["kinds"].items() if "again" not in kind)
