"""Renders the table of docs/networks.md: the kernels of each network of the zoo."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import click

from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.collector.device.local import local_target
from costhub.collector.workloads.network_kernels import NetworkReport, network_workloads
from costhub.collector.workloads.zoo.networks import NETWORKS
from scripts.bench.common.machine import ROOT, write_result

PAGE = ROOT / "docs" / "networks.md"
START, END = "<!-- networks -->\n", "<!-- end of networks -->"
COLUMNS = [
    TableColumn("name", "`--network`"),
    TableColumn("file", "file of the zoo"),
    TableColumn("input", "input"),
    number("parameters", "parameters", ",d"),
    number("functions", "kernel calls", "d"),
    number("tasks", "distinct", "d"),
    number("kept", "measured", "d"),
    TableColumn("families", "of these"),
]


@click.command()
@click.option("--json", "path", required=True, type=click.Path(path_type=Path), help="Where the figures go.")
def main(path: Path) -> None:
    """Extracts every network, writes the figures, and the table into docs/networks.md."""
    reports: dict[str, NetworkReport] = {}
    workloads = network_workloads(
        ["all"], target=json.dumps(local_target()), on_network=lambda r: reports.update({r.network: r})
    )
    rows = []
    for network in NETWORKS.values():
        report = reports[network.label]
        families = Counter(w.family for w in workloads if network.label in dict(w.networks))
        rows.append(
            {
                "name": network.name,
                "file": network.module,
                "input": network.inputs,
                "parameters": network.parameters,
                "functions": report.functions,
                "tasks": report.tasks,
                "kept": report.kept,
                "families": ", ".join(f"{count} {family}" for family, count in families.most_common()),
                "left_out": report.left_out,
                "seconds": report.seconds,
            }
        )
    write_result(path, {"workloads": len(workloads), "rows": rows})
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    table = f"\n{markdown_table(rows, COLUMNS)}\n\n{len(workloads)} distinct workloads in all.\n\n"
    PAGE.write_text(f"{before}{START}{table}{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
