from __future__ import annotations

import subprocess
import sys


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "costhub", "splti"], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "`costhub --help` shows its usage" in done.stderr  # not `__main__.py --help`
