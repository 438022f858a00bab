"""Runs a benchmark: `python -m scripts.bench search --quick`; without words, lists them."""

from __future__ import annotations

import click

from scripts.bench.common.fresh import run_module
from scripts.commands import LazyCommands

BENCHMARKS = {
    "memory": "command_line.memory",
    "mistakes": "command_line.mistakes",
    "network-seconds": "command_line.network_seconds",
    "newcomer": "command_line.newcomer",
    "collector": "collecting.collector",
    "boards": "collecting.boards",
    "cluster": "collecting.cluster",
    "dense-pools": "collecting.dense",
    "noise": "collecting.noise",
    "repeats": "collecting.repeats",
    "probe": "collecting.probe",
    "active-learning": "collecting.active_learning",
    "torture": "collecting.torture",
    "kill": "collecting.kill",
    "kills": "collecting.kills",
    "dataset": "data.dataset",
    "rows": "data.rows",
    "features": "data.features",
    "cuts": "data.cuts",
    "doctor": "data.doctor",
    "conventions": "data.conventions",
    "agreement": "data.agreement",
    "register-tiles": "data.register_tiles",
    "pull": "data.pull",
    "models": "models.compare",
    "model-search": "models.model_search",
    "calibration": "models.ensembles",
    "conditioned": "models.conditioned",
    "unseen-chip": "models.unseen_chip",
    "value-of-accuracy": "ceilings.value_of_accuracy",
    "feature-ceiling": "ceilings.feature_ceiling",
    "shipped": "ceilings.shipped",
    "verify-stage": "ceilings.verify_stage",
    "feature-specs": "validated.feature_specs",
    "top-losses": "validated.top_losses",
    "stacking": "validated.stacking",
    "estimates": "models.estimates",
    "training": "models.training",
    "hidden": "models.hidden",
    "sources": "transfer.sources",
    "mixture": "transfer.mixture",
    "selection": "transfer.selection",
    "controller": "transfer.controller",
    "transfer": "transfer.transfer",
    "gpus": "transfer.gpus",
    "gpu-mixtures": "transfer.gpu_mixtures",
    "bfloat16-kernels": "ceilings.bfloat16_kernels",
    "layouts": "transfer.layouts",
    "device-vector": "transfer.device_vector",
    "new-chip": "transfer.new_chip",
    "stopping": "transfer.stopping",
    "moses": "transfer.moses",
    "live-transfer": "transfer.live_transfer",
    "convolutions": "transfer.convolutions",
    "search": "search.search",
    "networks": "search.networks",
    "engines": "engines.compare",
    "parts": "engines.parts",
    "operators": "search.operators",
    "strategies": "search.strategies",
    "proposals": "evolving.proposals",
    "evolution": "evolving.evolution",
    "replay": "search.replay",
    "live-ranks": "search.live_ranks",
    "search-stopping": "search.stopping",
    "zero-trials": "search.zero_trials",
    "queries": "search.queries",
    "composition": "search.composition",
    "speed": "search.speed",
    "attacks": "security.attacks",
    "measurer": "search.measurer",
}
"""Command -> module below this package. Each takes `--quick` and `--json`, and needs neither."""

OTHERS = {
    "fuzz": "data.fuzz",
    "old-workloads": "data.old_workloads",
    "ansor-import": "ansor.ansor_import",
    "ansor-refusals": "ansor.ansor_refusals",
    "trial-costs": "ansor.trial_costs",
    "old-databases": "data.old_databases",
    "gpu-code": "collecting.gpu_code",
    "model-report": "models.report",
    "whole-estimates": "models.whole_estimates",
    "more-data": "evolving.more_data",
    "picked-again": "search.picked_again",
    "passes": "search.passes",
    "ppo": "search.ppo",
}
"""Commands that read the results of others, or have no quick form."""

commands = LazyCommands("scripts.bench", BENCHMARKS | OTHERS, "Benchmarks of costhub beside their baselines.")


@commands.command("quick")
def quick() -> None:
    """Run the quick form of every benchmark, each in a process of its own."""
    for name in BENCHMARKS:
        click.echo(f"== {name}")
        run_module("scripts.bench", name, "--quick")


if __name__ == "__main__":
    commands(prog_name="python -m scripts.bench")
