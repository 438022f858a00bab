"""The examples of docs/testing.md, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/testing.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    ("code", "said"), list(zip(EXAMPLES, ["keeps every property", "batch_independence"], strict=True))
)
def test_the_example_runs(code: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert said in done.stdout
