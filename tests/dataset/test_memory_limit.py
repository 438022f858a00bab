from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
from costhub.isolation.limits import limit_memory
limit_memory(1 << 28, beyond_tvm={beyond_tvm})
held = bytearray(1 << 26)
print("some")
try:
    bytearray(1 << 29)
except MemoryError:
    print("not more")
"""


@pytest.mark.parametrize("beyond_tvm", [True, False])
def test_a_process_gets_what_it_was_granted_and_not_more(beyond_tvm: bool) -> None:
    command = [sys.executable, "-c", CODE.format(beyond_tvm=beyond_tvm)]

    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert printed.split("\n")[:2] == ["some", "not more"]
