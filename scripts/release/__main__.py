"""Runs a step of a release: `python -m scripts.release check --help`; docs/releasing.md has the checklist."""

from __future__ import annotations

from scripts.commands import LazyCommands

STEPS = {
    "collect": "collect",
    "train": "train",
    "train-latency": "train_latency",
    "cards": "cards",
    "check": "check",
    "reproduce": "reproduce",
    "walk": "walk_package",
    "first-network": "first_network",
    "artefacts": "write_artefacts",
    "rewrite": "rewrite_shards",
    "lost-workloads": "lost_workloads",
    "benchmark": "benchmark",
    "tvm-names": "tvm_names",
    "terminal-picture": "terminal_picture",
    "page-picture": "page_picture",
    "notebook": "run_notebook",
    "mutations": "mutations",
}
"""Command -> module of this package."""

commands = LazyCommands("scripts.release", STEPS, "Steps of a release of costhub.")

if __name__ == "__main__":
    commands(prog_name="python -m scripts.release")
