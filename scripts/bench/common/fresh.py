"""Runs a module in a fresh process, so that nothing of this one is in its times or its memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from scripts.bench.common.machine import ROOT


def run_module(
    module: str, *words: object, check: bool = True, variables: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs ``python -m module words``, with the code of this checkout from any folder.

    Args:
        module: Its dotted name.
        words: Its arguments.
        check: Whether a failure raises.
        variables: Of the environment, beside those of this process.
        options: Of `subprocess.run`, such as ``stdout``.
    """
    command = [sys.executable, "-m", module, *map(str, words)]
    environment = {**os.environ, **checkout_path(), **(variables or {})}
    return subprocess.run(command, check=check, env=environment, text=True, **options)


def checkout_path() -> dict[str, str]:
    """The variable by which new processes of Python find the scripts of this checkout, for their environments."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


def result_of(module: str, *words: object, **options: Any) -> Any:
    """The last line that a module prints, read as JSON.

    Args:
        module: Its dotted name.
        words: Its arguments.
        options: As of `run_module`.
    """
    done = run_module(module, *words, stdout=subprocess.PIPE, **options)
    return json.loads(done.stdout.strip().splitlines()[-1])
