"""The examples of docs/loading.md, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/loading.md").read_text(encoding="utf-8"), re.DOTALL)
# A repository on the real hub is no part of a test.
HERE = [code for code in EXAMPLES if "hf-hub:" not in code]


def test_the_page_has_examples() -> None:
    assert len(HERE) >= 6
    assert len(EXAMPLES) == len(HERE) + 1


@pytest.mark.parametrize("code", HERE, ids=lambda code: code.split()[1])
def test_the_example_runs(code: str, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "HF_HOME": str(tmp_path),
        "COSTHUB_CACHE": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": "1",
    }

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
