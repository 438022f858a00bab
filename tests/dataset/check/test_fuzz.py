"""Damage of many kinds to a small real folder: found, or harmless, and never more than a finding."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts/bench/data/fuzz.py"


def test_no_damage_is_accepted_silently(tmp_path: Path) -> None:
    path = tmp_path / "fuzz.json"
    command = [sys.executable, str(SCRIPT), "--count", "200", "--resealed", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    result = json.loads(path.read_text())
    assert sum(result["total"].values()) == 200
    # The harmless ones change what no reader looks at, and were sealed again by whoever changed them.
    assert result["total"].keys() <= {"found", "harmless"}
    assert all(counts.keys() == {"found"} for kind, counts in result["kinds"].items() if "again" not in kind)
