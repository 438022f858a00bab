"""Runs a module in a fresh process, so that no search profits from another's imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def result_of(script: str, *words: object) -> Any:
    """What a script beside this one prints in its last line, as JSON.

    Args:
        script: Its file name.
        words: Its arguments.
    """
    command = [sys.executable, Path(__file__).with_name(script), *words]
    done = subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])
