"""Programs that nobody here wrote, as clients of the loopback hub; each runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., str]
SRC = Path(__file__).parents[3] / "src"


@pytest.fixture
def environment(server: Any, tmp_path: Path) -> dict[str, str]:
    """Settings that name the loopback hub, and nothing of the caller's: a token least of all."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "COSTHUB_"))}
    return env | {
        "HF_ENDPOINT": server.url,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_TOKEN": "of-the-test",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "NO_COLOR": "1",
        "COSTHUB_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(SRC),
    }


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """Runs a command and gives what it prints; None as a setting removes it."""

    def run(*command: str, **settings: str | None) -> str:
        env = {key: value for key, value in (environment | settings).items() if value is not None}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def rows(tmp_path: Path, measured: Any) -> dict[str, bytes]:
    """The files of a data folder with 40 measurements."""
    folder = measured(tmp_path / "rows")
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
