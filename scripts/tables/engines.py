"""Tables of networks beside other engines: the seconds until they run, and kernels as shares of the CPU's peak."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from costhub.cards.reports.tune_facts import multiplies_bfloat16
from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.hub.catalogue.devices import find_device
from scripts.tables.figures import read
from scripts.tables.networks import ENGINE_CHIPS, ENGINE_TITLES

_NONE = "Not measured yet."
_SEARCHED = ("stock", "costhub", "costhub-bf16")
"""Engines that search before they compile."""
_TUNED = ("costhub", "costhub-bf16")
SLOWEST = 10
"""Kernels in a table."""
_FLOAT32, _BFLOAT16 = "float32", "bfloat16"
_OVERHEAD = "runtime overhead"


def engine_seconds_table(result: Mapping[str, Any]) -> str:
    """One line per network: the seconds from the start of an empty process until the first call has returned.

    Engines that search have three columns: one for what happens once, from the file of the network to a library, and
    two for loading that, with and without torch, which TVM imports where it is installed.

    Args:
        result: `rows` of the benchmark `engines`.
    """
    rows = [row for row in result["rows"] if row.get("ready_s") is not None]
    if not rows:
        return _NONE
    engines = [engine for engine in ENGINE_TITLES if any(row["engine"] == engine for row in rows)]
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        line = lines.setdefault(row["network"], {"network": row["network"]})
        line[row["engine"]] = row["ready_s"]
        line[f"{row['engine']} alone"] = row.get("ready_without_torch_s")
        if row.get("compile_s") is not None:
            line[f"{row['engine']} once"] = row["reading_s"] + row["seconds"] + row["compile_s"]
    columns = [TableColumn("network", "seconds")]
    for engine in engines:
        title = _title(engine)
        if engine in _SEARCHED:
            columns.append(number(f"{engine} once", f"{title}: search and compilation, once", ",.0f"))
            columns.append(number(engine, f"{title}: loading", ",.1f"))
            columns.append(number(f"{engine} alone", f"{title}: loading without PyTorch", ",.1f"))
        else:
            columns.append(number(engine, title, ",.1f"))
    table = markdown_table(list(lines.values()), columns)
    if result.get("empty_s") is None:
        return table
    return f"{table}\n\nA process that loads no engine takes {result['empty_s']:.1f} s, which are in every figure."


def _title(engine: str) -> str:
    return ENGINE_TITLES[engine] + (f" ({_BFLOAT16})" if engine == "costhub-bf16" else "")


def engine_kernels_table(result: Mapping[str, Any], *, most: int = SLOWEST) -> str:
    """The kernels of costhub's libraries that take most of each network's time, and their shares of the CPU's peak.

    Args:
        result: `profiles` of the benchmark `engines`.
        most: How many of each network.
    """
    profiles = [row for row in result["profiles"] if row["engine"] in _TUNED]
    lines = [line for row in profiles for line in kernels_of(row, _peaks(result))[:most]]
    if not lines:
        return _NONE
    columns = [
        TableColumn("network", "network"),
        TableColumn("kernel", "kernel"),
        *([TableColumn("precision", "precision")] if any(row["precision"] == _BFLOAT16 for row in lines) else []),
        number("calls", "calls", "d"),
        number("ms", "ms", ".2f"),
        number("share", "of the network's time", ".0%"),
        number("gflops", "GFLOP/s", ",.0f"),
        number("of_peak", "of the peak", ".0%"),
    ]
    return f"{markdown_table(lines, columns)}\n\n{_peak_text(result, {line['precision'] for line in lines})}"


def kernels_of(profile: Mapping[str, Any], peaks: Mapping[str, float | None]) -> list[dict[str, Any]]:
    """The kernels of a profile by title, the slowest first; those with the same product are added up.

    Args:
        profile: A row of `profiles`; without kernels that have titles there are none.
        peaks: Precision -> the highest GFLOP/s of the CPU.

    Example:
        >>> kernel = {"name": "fused_matmul", "title": "matmul, 2 x 2 x 2", "kind": "matmul", "us": 2.0}
        >>> profile = {"network": "net", "engine": "costhub", "precision": "float32", "whole_us": 8.0}
        >>> (line,) = kernels_of({**profile, "kernels": [{**kernel, "calls": 2, "flop": 1e5}]}, {"float32": 200.0})
        >>> line["ms"], line["share"], line["gflops"], line["of_peak"]
        (0.002, 0.25, 100.0, 0.5)
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for kernel in profile.get("kernels", ()):
        if kernel.get("title") and kernel["kind"] != _OVERHEAD:
            groups.setdefault((kernel["title"], _precision(kernel, profile)), []).append(kernel)
    lines = []
    for (title, precision), kernels in groups.items():
        us, flops = sum(each["us"] for each in kernels), [each["flop"] for each in kernels]
        # Kernels that only move numbers compute nothing, which is no rate.
        flop = None if None in flops else sum(each["calls"] * each["flop"] for each in kernels)
        gflops, peak = flop / us / 1e3 if flop else None, peaks.get(precision)
        lines.append(
            {
                "network": profile["network"],
                "kernel": title,
                "precision": precision,
                "calls": sum(each["calls"] for each in kernels),
                "ms": us / 1e3,
                "share": us / profile["whole_us"],
                "gflops": gflops,
                "of_peak": gflops / peak if gflops and peak else None,
            }
        )
    return sorted(lines, key=lambda line: -line["ms"])


def _precision(kernel: Mapping[str, Any], profile: Mapping[str, Any]) -> str:
    """What a kernel multiplies in: of costhub's networks in bfloat16, not all kernels do."""
    if profile["engine"] not in _SEARCHED:
        return str(profile["precision"])
    return _BFLOAT16 if multiplies_bfloat16(kernel["name"].removeprefix("fused_")) else _FLOAT32


def _peaks(result: Mapping[str, Any]) -> Mapping[str, float | None]:
    """Those that the benchmark measured, or else those of the device in the index."""
    if result.get("peaks"):
        found: Mapping[str, float | None] = result["peaks"]
        return found
    device = find_device(result["device"])
    return {_FLOAT32: device.peak_gflops, _BFLOAT16: device.peak_gflops_bfloat16} if device else {}


def _peak_text(result: Mapping[str, Any], precisions: set[str]) -> str:
    peaks = _peaks(result)
    known = [f"{peaks[each]:,.0f} GFLOP/s in {each}" for each in sorted(precisions, reverse=True) if peaks.get(each)]
    return f"Peak: {' and '.join(known)}." if known else "The peak of this CPU is not known."


def kernels_beside_table(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    engines: tuple[str, str] = ("costhub", "costhub"),
    most: int = SLOWEST,
) -> str:
    """The kernels that took most of the time before, with their shares of the peak before and after.

    A kernel stands for all with the same operator and sizes in its network; one that is not in both is left out.

    Args:
        before: A result of the benchmark `engines` with `profiles`.
        after: Another, or the same one.
        engines: Which of them is before and which after, such as ``stock`` and ``costhub``.
        most: How many kernels, of all networks together.
    """
    results = (before, after)
    found = [_by_title(result, engine) for result, engine in zip(results, engines, strict=True)]
    shared = [about for about in found[0] if about in found[1]]
    if not shared:
        return _NONE
    shared.sort(key=lambda about: -found[0][about]["ms"])
    lines = []
    for about in shared[:most]:
        old, new = (each[about] for each in found)
        line = {"network": about[0], "kernel": about[1], "calls": new["calls"], "ratio": new["ms"] / old["ms"]}
        for when, row in (("before", old), ("after", new)):
            line |= {f"{when} {key}": row[key] for key in ("ms", "gflops", "of_peak")}
        lines.append(line)
    titles = ("before", "after") if engines[0] == engines[1] else tuple(map(_title, engines))
    columns = [TableColumn("network", "network"), TableColumn("kernel", "kernel"), number("calls", "calls", "d")]
    for when, title in zip(("before", "after"), titles, strict=True):
        columns += [number(f"{when} ms", f"{title} (ms)", ".2f"), number(f"{when} gflops", "GFLOP/s", ",.0f")]
        columns.append(number(f"{when} of_peak", "of the peak", ".0%"))
    return markdown_table(lines, [*columns, number("ratio", f"{titles[1]} / {titles[0]}", ".2f")])


def _by_title(result: Mapping[str, Any], engine: str) -> dict[tuple[str, str], dict[str, Any]]:
    """(network, kernel) -> its line."""
    peaks = _peaks(result)
    profiles = [row for row in result["profiles"] if row["engine"] == engine]
    return {(line["network"], line["kernel"]): line for row in profiles for line in kernels_of(row, peaks)}


def beside_stock_table(result: Mapping[str, Any]) -> str:
    """The kernels of stock TVM's default space beside costhub's; `result` is of the benchmark with ``--stock``."""
    return kernels_beside_table(result, result, engines=("stock", "costhub"))


def two_dates_table(names: Sequence[str], results: Path) -> str:
    """`kernels_beside_table` of two files.

    Args:
        names: Of the result files, the earlier one first.
        results: The folder of result files.
    """
    before, after = (read(results, name) for name in names)
    dates = f"Before: {before['date'][:10]}, costhub {before['versions']['costhub']}; after: {after['date'][:10]}."
    return f"{kernels_beside_table(before, after)}\n\n{dates}"


_ENGINE_VIEWS = {
    "_seconds": engine_seconds_table,
    "_kernels": engine_kernels_table,
    "_kernels_stock": beside_stock_table,
}
ENGINE_TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    f"{chip}{end}": table for chip in ENGINE_CHIPS for end, table in _ENGINE_VIEWS.items()
}
ENGINE_VIEWS = {f"{chip}{end}": chip for chip in ENGINE_CHIPS for end in _ENGINE_VIEWS}
"""Views of one file, see `scripts.tables.results`."""
ENGINE_PAIRS: dict[str, Callable[[Path], str]] = {
    f"{before}_kernels_beside": partial(two_dates_table, (before, after))
    for before, after in (("engines_emeraldrapids", "engines_emeraldrapids_now"),)
}
"""Tables of two files: the same chip before and after."""
