"""Settings that every test shares."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

# No deadline: a loaded machine is not a failure. Derandomised: a change that passed here passes in CI.
# `pytest --hypothesis-profile=explore` looks for new examples instead.
settings.register_profile("costhub", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("costhub")


@pytest.fixture
def torchrun() -> Callable[..., str]:
    """Runs a command as two processes of `torchrun` on this machine, and gives what they print."""

    def run(*command: str) -> str:
        done = subprocess.run(
            [
                sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1",
                *command,
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def _loopback() -> ModuleType:
    path = Path(__file__).parent / "hub/loopback_hub.py"
    spec = importlib.util.spec_from_file_location("loopback_hub", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their own module up there.
    sys.modules["loopback_hub"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def server() -> Iterator[Any]:
    """A Hugging Face hub on this machine, without repositories."""
    with _loopback().LoopbackHub() as running:
        yield running
