from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from costhub.dataset.memory_limit import limit_memory
limit_memory(1 << 28)
held = bytearray(1 << 26)
print("some")
try:
    bytearray(1 << 29)
except MemoryError:
    print("not more")
"""


def test_a_process_gets_what_it_was_granted_and_not_more() -> None:
    printed = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout

    assert printed.split("\n")[:2] == ["some", "not more"]
