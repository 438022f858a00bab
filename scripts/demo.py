"""The demonstration behind `make demo`: tune two held-out workloads with the model of the nearest device."""

from __future__ import annotations

import sys
from pathlib import Path

from costhub.cli.main import main

WORKLOADS = ["resnet18.c2", "matmul.1024x1024x1024"]
"""Every shipped model of a CPU holds them out."""

if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-results")
    main(["tune", *WORKLOADS, "--model", "auto", "--trials", "64", "--out", str(out)])
