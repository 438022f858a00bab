"""Tabulates how fast, how precisely and how safely programs are measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.models.comparison import plus_minus

Result = Mapping[str, Any]

_COLLECTORS = {
    "costhub": "costhub",
    "stock": "TVM's LocalBuilder + LocalRunner",
    "stock_light_import": "the same, importing only the CPU's intrinsics",
}
_STAGES = ("llvm", "run", "lower", "sample", "link", "reference", "wait", "repeat", "other")
_DEVICE = TableColumn("device", "device")
_KILLED = {"import": "import metaschedule", "doctor": "doctor --fix"}


def collector_table(result: Result) -> str:
    """Rates of costhub's collector and of TVM's builder and runner on the same candidates, by batch size.

    The ratio is to unchanged TVM with the batch that MetaSchedule measures at a time.
    """
    stock = next(
        row["good_per_s"] for row in result["rows"] if row["collector"] == "stock" and row["batch"] == result["batch"]
    )
    rows = [
        {
            **row,
            "name": _COLLECTORS[row["collector"]],
            "ratio": row["good_per_s"] / stock,
            "floor": 100 * row["floor_share"] if "floor_share" in row else None,
        }
        for row in result["rows"]
    ]
    columns = [
        TableColumn("name", "collector"),
        number("batch", "programs in a batch", "d"),
        number("good", f"good of {result['candidates']}", "d"),
        number("good_per_s", "good / s", ".2f"),
        number("ratio", "times stock", ".1f"),
        number("floor", "floor, % of the time", ".0f"),
    ]
    return markdown_table(rows, columns)


def cluster_table(result: Result) -> str:
    """One line per set of workers: whether all rows arrived, once each, and how fast."""
    columns = [
        TableColumn("title", "workers"),
        number("workloads", "workloads", "d"),
        number("rows", "rows", "d"),
        number("short", "workloads with fewer rows than trials", "d"),
        number("repeated", "programs measured twice", "d"),
        number("good_per_s", "good / s", ".2f"),
    ]
    return markdown_table(result["rows"], columns)


def cluster_limits_table(result: Result) -> str:
    """One line per number of machines: the rate that the service times allow, and what limits it."""
    service = result["service"]
    columns = [
        number("count", "machines or boards", ",d"),
        number("boards_per_s", "boards at a tracker: programs / s", ",.1f"),
        TableColumn("boards_limit", "limited by"),
        number("cluster_per_s", "machines of a cluster: programs / s", ",.0f"),
        TableColumn("cluster_limit", "limited by"),
    ]
    note = (
        f"Measured on one machine with {service['cores']:.0f} cores: {1e3 * service['build_core_s']:.0f} ms of a core "
        f"to propose and build a program, {1e3 * service['run_s']:.0f} ms to run it with its share of the reference "
        f"kernel, {service['machine_per_s']:.1f} good programs a second in all, {1e3 * service['store_s']:.2f} ms to "
        "store a row."
    )
    return f"{markdown_table(result['limits'], columns)}\n\n{note}"


def gpu_code_table(result: Result) -> str:
    """One line per dataset or network and architecture: how many programs or kernels become machine code."""
    rows = [{**row, "kind": f"`{row['of']}`", "kib": row["code_bytes"] / 1024 or None} for row in result["rows"]]
    for row in rows:
        # What TVM generates for AMD's is an object already; nothing compiled it.
        row["compiled"] = row["compiled"] if row["kib"] else None
    columns = [
        TableColumn("kind", "recorded programs of, or network"),
        TableColumn("arch", "for"),
        number("drawn", "programs or kernels", "d"),
        number("generated", "in CUDA", "d"),
        number("compiled", "compiled", "d"),
        number("kib", "KiB of machine code", ",.0f"),
    ]
    return markdown_table(rows, columns)


def collection_table(result: Result) -> str:
    """One line per collection: its rows, its rate, and the share of the cores' time that each stage took.

    Results without `wait` and `repeat` have both in `reference`; where no row tells them, neither does the table.
    """
    rows = []
    for collection in result["rows"]:
        profile = collection["profile"]
        total = profile["wall_s"] * profile["cores"]
        shares = {stage: 100 * seconds / total for stage, seconds in profile["core_seconds"].items()}
        rows.append(
            {
                "device": " and ".join(collection["devices"]),
                "good": collection["good"],
                "failed": collection["failed"],
                "good_per_s": profile["good_per_s"],
                "floor": 100 * profile["floor_share"],
                **shares,
            }
        )
    columns = [
        _DEVICE,
        number("good", "good", ",d"),
        number("failed", "failed", ",d"),
        number("good_per_s", "good / s", ".1f"),
        number("floor", "floor, % of the time", ".0f"),
        *(number(stage, f"{stage} %", ".1f") for stage in _STAGES if any(stage in row for row in rows)),
    ]
    return markdown_table(rows, columns)


def dense_collection_table(result: Result) -> str:
    """The same line for the collection of the densely measured pools."""
    return collection_table({"rows": [result["collection"]]})


def noise_table(result: Result) -> str:
    """One line per device: how two passes over the same programs differ."""
    rows = [
        {
            **row,
            **{key: 100 * row[key] for key in ("median_gap", "p90_gap", "best_changed", "mean_regret")},
        }
        for row in result["rows"]
    ]
    columns = [
        _DEVICE,
        number("programs", "programs", ",d"),
        number("median_gap", "median difference, %", ".2f"),
        number("p90_gap", "90th percentile, %", ".1f"),
        number("spearman", "spearman", ".4f"),
        number("best_changed", "another best, % of workloads", ".0f"),
        number("mean_regret", "and its cost, %", ".2f"),
    ]
    return markdown_table(rows, columns)


def probe_table(result: Result) -> str:
    """One line per device: peaks and bandwidths, and their ratios to other measurements."""
    rows = [{**row, "device": row["device_id"]} for row in result["probe"]]
    columns = [
        _DEVICE,
        number("peak_gflops", "float32 GFLOP/s", ",.0f"),
        number("peak_gflops_float64", "float64", ",.0f"),
        number("peak_gops_int8", "int8 GOP/s", ",.0f"),
        *(number(f"{level}_gbs", f"{level.upper()} GB/s", ",.0f") for level in ("l1", "l2", "l3", "dram")),
        number("launch_overhead_us", "launch, µs", ".2f"),
        number("peak_of_vendor", "peak / vendor's", ".2f"),
        number("sgemm_of_peak", "OpenBLAS / peak", ".2f"),
        *(number(f"{level}_of_c", f"{level.upper()} / C", ".2f") for level in ("l1", "l2", "l3", "dram")),
        number("probe_s", "probe, s", ".0f"),
    ]
    return markdown_table(rows, columns)


def torture_table(result: Result) -> str:
    """One line per kind of program: how many were planted, and how many gave the expected row."""
    rows = [
        {"kind": kind, "planned": count, "found": result["as_expected"].get(kind, 0)}
        for kind, count in result["planned"].items()
    ]
    end = result["at_the_end"]
    left = f"Left over: {end['zombies']} zombies, {end['children']} processes, {end['files']} files."
    columns = [
        TableColumn("kind", "program"),
        number("planned", "planted", ",d"),
        number("found", "as expected", ",d"),
    ]
    return f"{markdown_table(rows, columns)}\n\n{left}"


def kill_table(result: Result) -> str:
    """One line per kind of process that was killed, and the state of the rows afterwards."""
    rows = [{"kind": kind, "count": count} for kind, count in result["killed"].items()]
    outcome = (
        f"{result['acknowledged']:,} rows acknowledged: {result['lost']} lost, {result['doubled']} doubled; "
        f"{len(result['orphans'])} orphans, {result['temporary_files_left']} temporary files left. "
        f"`costhub check` on the folder afterwards: {_findings(result['check_rules'])}."
    )
    table = markdown_table(rows, [TableColumn("kind", "killed with -9"), number("count", "times", "d")])
    return f"{table}\n\n{outcome}"


def _findings(rules: Mapping[str, int]) -> str:
    return ", ".join(f"{rule} {count} times" for rule, count in rules.items()) or "nothing found"


def kills_table(result: Result) -> str:
    """One line per command: how often it was killed at which of its processes, and what was wrong in the end."""
    rows = [
        {
            **row,
            "name": f"`costhub {_KILLED.get(row['verb'], row['verb'])}`",
            "parent": row["killed"].get("parent", 0),
            "child": row["killed"].get("child", 0),
            **{name: len(row[name]) for name in ("orphans", "tracebacks", "different", "left")},
        }
        for row in result["rows"]
    ]
    columns = [
        TableColumn("name", "command"),
        number("seconds", "s without a kill", ",.0f"),
        number("parent", "killed with -9", "d"),
        number("child", "a child killed", "d"),
        number("ended_before", "runs that had ended", "d"),
        number("different", "other results", "d"),
        number("doubled", "doubled records", "d"),
        number("tracebacks", "tracebacks", "d"),
        number("orphans", "orphans", "d"),
        number("left", "temporary files left", "d"),
    ]
    return markdown_table(rows, columns)


def boards_table(result: Result) -> str:
    """One line per set of servers: whether all programs were measured, and how fast."""
    rows = [{**row, "boards": len(row["share"])} for row in result["rows"]]
    columns = [
        TableColumn("title", "servers"),
        number("good", "good", "d"),
        number("programs", "of", "d"),
        number("boards", "boards that took part", "d"),
        number("good_per_s", "good / s", ".1f"),
        number("ratio_to_one", "times one server", ".1f"),
    ]
    return f"{markdown_table(rows, columns)}\n\n{result['note']}"


def active_learning_table(result: Result) -> str:
    """One table per device and model: what each way of choosing gives, and how many programs at random give as much."""
    rows: Sequence[Result] = result["summary"]
    columns = [
        TableColumn("strategy", "what is measured"),
        number("share", "of the pool", ".0%"),
        number("programs", "programs", ",.0f"),
        *(TableColumn(f"{name}_text", _METRICS[name], align="right") for name in _METRICS),
        TableColumn("gain_text", "pairs, gain over random", align="right"),
        *(TableColumn(f"{name}_equal_text", f"random, same {_METRICS[name]}", align="right") for name in _COUNTED),
        TableColumn("saved_text", "saved", align="right"),
    ]
    parts = []
    for pool in result["pools"]:
        for model in dict.fromkeys(row["model"] for row in rows):
            own = [row for row in rows if (row["device"], row["model"]) == (pool["device"], model)]
            at_random = [round(row["programs"]) for row in own if row["strategy"] == result["random"]]
            lines = [_chosen(row, min(at_random), max(at_random)) for row in own]
            parts.append(f"**{pool['device']}**, {model}. {_pool(pool)}\n\n{markdown_table(lines, columns)}")
    note = (
        f"Means over {result['seeds']} seeds, on {result['workloads']} held-out workloads; ± is the standard error "
        f"over these, of a gain that of the differences. In brackets is what {result['level']:.0%} of "
        f"{result['resamples']:,} bootstraps of the workloads give. Programs are saved against as many at random as "
        "have the same pairs."
    )
    return "\n\n".join([*parts, note])


_METRICS = {"top_1": "top-1", "top_5": "top-5", "pairwise": "pairs"}
_COUNTED = ("pairwise", "top_1")
"""Metrics for which the programs at random are counted."""


def _chosen(row: Result, least: int, most: int) -> dict[str, Any]:
    """A line, with signs where no smaller or larger number of programs was drawn at random."""
    line = {**row, **{f"{name}_text": plus_minus(row[name], row[f"{name}_se"]) for name in _METRICS}}
    if "pairwise_equal" not in row:
        return line
    signs = {}
    for name in _COUNTED:
        equal, low, high = (round(row[f"{name}_{key}"]) for key in ("equal", "low", "high"))
        signs[name] = "≤ " if equal <= least else "≥ " if equal >= most else ""
        line[f"{name}_equal_text"] = f"{signs[name]}{equal:,} ({low:,} to {high:,})"
    gain, error = row["pairwise_gain"], row["pairwise_gain_se"]
    line["gain_text"] = f"{gain:+.3f}" if error is None else f"{gain:+.3f} ± {error:.3f}"
    line["saved_text"] = f"{signs['pairwise']}{row['pairwise_saved']:.0%}"
    return line


def _pool(pool: Result) -> str:
    return (
        f"The pool has {pool['pool_programs']:,.0f} programs of {pool['pool_workloads']:.0f} workloads. What chooses "
        f"has learned from {pool['learned_programs']:,.0f} programs of these workloads on "
        f"{pool['learned_devices']:.0f} devices of other chips, where {pool['shared']:.0%} of the pool were measured "
        f"too; it orders {pool['chooser_pairwise']:.3f} of the pool's pairs."
    )


COLLECTOR_TABLES: dict[str, Callable[[Result], str]] = {
    "collector": collector_table,
    "collection": collection_table,
    "collection_chip": collection_table,
    "collection_zen3": collection_table,
    "collection_emeraldrapids": collection_table,
    "collection_dense": dense_collection_table,
    "noise": noise_table,
    "probe": probe_table,
    "torture": torture_table,
    "kill": kill_table,
    "kills": kills_table,
    "boards": boards_table,
    "cluster": cluster_table,
    "cluster_limits": cluster_limits_table,
    "gpu_code": gpu_code_table,
    "active_learning": active_learning_table,
}
"""Name of a result file without its suffix, or of a view -> its renderer."""
COLLECTOR_VIEWS = {"cluster_limits": "cluster", "collection_dense": "dense_pools"}
"""View -> its result file."""
