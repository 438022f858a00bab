"""Tables of Ansor's logs: what an import takes over, what TVM refuses of it and why, and what a trial took."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.figures import read

Result = Mapping[str, Any]

SUB_WARP = "threads of a block, at least a warp"
"""The limit in a result of `ansor-refusals` that MetaSchedule's space has and Ansor's lacks."""
CONFIDENCE = 0.95
_REPLAYED = {
    "replayed": "replayed of those in the space, if all refused ones are as those of the sample",
    "least": f"at least, with a confidence of {CONFIDENCE:.0%}",
}


def ansor_table(result: Result) -> str:
    """One line per device and operator: what became of the records; then one per device, with all, rate and memory."""
    kinds = {"vectors": "vectors", "refused": "refused by TVM", "unknown": "unknown operator", "other": "other"}
    counted = ("records", "rows", "duplicates", "workloads", *kinds)
    rows = [{**dict.fromkeys(counted, 0), **row} for row in result["rows"]]
    for row in rows:
        row["share"] = f"{row['rows'] / (row['records'] - row['duplicates']):.1%}"
        row["replayed"] = _replayed(row)
    columns = [
        TableColumn("device", "device"),
        TableColumn("operator", "key"),
        number("workloads", "workloads", "d"),
        number("records", "records", ",d"),
        number("rows", "rows", ",d"),
        TableColumn("share", "in", align="right"),
        TableColumn("replayed", "of those of its structure", align="right"),
        *(number(name, title, ",d") for name, title in kinds.items()),
    ]
    devices = [
        {
            **{name: sum(row[name] for row in rows if row["device"] == rate["device"]) for name in counted},
            "device": rate["device"],
            "per_s": rate["programs"] / rate["cpu_s"],
            "peak_mib": max(row.get("peak_mib", 0) for row in rows if row["device"] == rate["device"]),
        }
        for rate in result["rates"]
    ]
    for line in devices:
        line["replayed"] = _replayed(line)
    whole = [
        TableColumn("device", "device"),
        *(number(name, name, ",d") for name in ("workloads", "records", "rows", "duplicates")),
        TableColumn("replayed", "of those of its structure", align="right"),
        number("per_s", "programs a second of one core", ",.0f"),
        number("peak_mib", "most memory of a process, the benchmark's own included (MiB)", ",d"),
    ]
    return f"{markdown_table(devices, whole)}\n\n{markdown_table(rows, columns)}"


def _replayed(counts: Mapping[str, Any]) -> str:
    """The share of the programs of MetaSchedule's structure that TVM replays; `-` where none has it."""
    tried = counts["rows"] + counts["refused"]
    return f"{counts['rows'] / tried:.1%}" if tried else "-"


def ansor_refusals_table(result: Result) -> str:
    """One line for each device, operator, check of TVM and limit that programs break."""
    columns = (
        TableColumn("device", "device"),
        TableColumn("operator", "key"),
        number("tried", "programs tried", ",d"),
        TableColumn("check", "refused by"),
        TableColumn("limit", "taken without the limit of"),
        number("refused", "programs refused", ",d"),
    )
    return markdown_table(result["rows"], columns)


def ansor_replayed_table(results: Path) -> str:
    """One line for each device and operator: how much TVM replays of what lies in its space, if the sample is typical.

    Args:
        results: The folder with the results of `ansor-import`, which counts all refused programs, and of
            `ansor-refusals`, which says of a sample what they break.
    """
    imported, sample = read(results, "ansor-import")["rows"], read(results, "ansor_refusals")["rows"]
    lines = []
    for row in imported:
        sampled = [each for each in sample if (each["device"], each["operator"]) == (row["device"], row["operator"])]
        again = sum(each["refused"] for each in sampled)
        if not again:
            continue
        inside = again - sum(each["refused"] for each in sampled if each["limit"] == SUB_WARP)
        shares = inside / again, _most(inside, again)
        replayed = [row["rows"] / (row["rows"] + row["refused"] * share) for share in shares]
        lines.append(
            {
                **row,
                "again": again,
                "outside": again - inside,
                "inside": inside,
                **dict(zip(_REPLAYED, replayed, strict=True)),
            }
        )
    columns = (
        TableColumn("device", "device"),
        TableColumn("operator", "key"),
        number("rows", "rows", ",d"),
        number("refused", "refused by TVM", ",d"),
        number("again", "of these in the sample", ",d"),
        number("outside", "outside the space: fewer threads than a warp", ",d"),
        number("inside", "not shown to be outside", ",d"),
        *(number(key, title, ".1%") for key, title in _REPLAYED.items()),
    )
    return markdown_table(lines, columns)


def _most(found: int, tried: int) -> float:
    """The largest share of which a sample would show so few, by chance (Clopper and Pearson, one-sided)."""
    from scipy.special import betaincinv

    return float(betaincinv(found + 1, tried - found, CONFIDENCE)) if found < tried else 1.0


def trial_costs_table(result: Mapping[str, Any]) -> str:
    """One line for each GPU and operator, and one for all operators of a GPU."""
    columns = (
        TableColumn("device", "device"),
        TableColumn("operator", "key"),
        number("ran", "programs that ran", ",d"),
        number("failed", "that failed", ",d"),
        number("median_s", "build and run, median (s)", ".2f"),
        number("mean_s", "mean (s)", ".2f"),
        number("between_s", "between two results, with Ansor's search (s)", ".2f"),
    )
    return markdown_table(result["rows"], columns)


ANSOR_TABLES: dict[str, Callable[[Result], str]] = {
    "ansor-import": ansor_table,
    "ansor_import_a100": ansor_table,
    "ansor_refusals": ansor_refusals_table,
    "trial_costs": trial_costs_table,
}
"""Name of a result file without its suffix -> its renderer."""
ANSOR_MORE: dict[str, Callable[[Path], str]] = {"ansor_replayed": ansor_replayed_table}
"""Name of a place -> its renderer, which takes the folder of the results."""
