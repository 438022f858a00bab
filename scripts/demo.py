"""The demonstration behind `make demo`: tunes MobileNet-V2 for this machine, beside PyTorch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from costhub.cli.main import run

NETWORK = "mobilenet_v2"
TRIALS_PER_KERNEL = 12
"""The whole demonstration takes two to four minutes on two idle cores."""
BEFORE = """\
MobileNet-V2 for this machine, beside PyTorch: 31 kernels, {trials} programs each.
This takes two to four minutes on two idle cores; other programs make it longer and its latencies wrong.
"""
AFTER = """
Next, a network of your own. Export it from PyTorch:

    torch.export.save(torch.export.export(network.eval(), (example_input,)), "my_network.pt2")

and tune it, by default with more programs for each kernel:

    {costhub} tune my_network.pt2 --out tuned/
"""


def demo(out: Path) -> int:
    """Tunes the network into a folder and says what to do next; returns the exit code of `costhub tune`."""
    print(BEFORE.format(trials=TRIALS_PER_KERNEL), file=sys.stderr)
    arguments = ["tune", NETWORK, "--trials-per-workload", str(TRIALS_PER_KERNEL), "--out", str(out)]
    sys.argv = ["costhub", *arguments]  # what the report says was typed
    code = run(arguments)
    if code == 0:
        print(AFTER.format(costhub=os.path.relpath(Path(sys.executable).with_name("costhub"))))
    return code


if __name__ == "__main__":
    sys.exit(demo(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-results")))
