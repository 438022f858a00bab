"""The script of docs/benchmark.md, run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
[SCRIPT] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/benchmark.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_script_prints_a_figure_of_every_workload(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COSTHUB_CACHE": str(tmp_path)}
    code = SCRIPT.replace("range(1, 6)", "range(1, 3)")  # two folds of five, to be fast

    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    [top_1, workloads] = re.fullmatch(r"top-1 (0\.\d+) of (\d+) workloads", done.stdout.strip()).groups()  # type: ignore[union-attr]
    assert float(top_1) > 0.7  # random order has 0.23
    assert int(workloads) == 20


def test_the_script_is_as_short_as_the_page_promises() -> None:
    assert len(SCRIPT.strip().splitlines()) <= 14
