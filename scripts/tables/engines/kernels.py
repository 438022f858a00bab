"""Tables of the kernels of whole networks, as shares of the CPU's peak, alone and before and after a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costhub.cards.reports.tune_facts import multiplies_bfloat16
from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.hub.catalogue.devices import find_device
from scripts.tables.figures import read, version_of
from scripts.tables.networks import ENGINE_TITLES

NONE = "Not measured yet."
SEARCHED = ("stock", "costhub", "costhub-bf16")
"""Engines that search before they compile."""
_TUNED = ("costhub", "costhub-bf16")
SLOWEST = 10
"""Kernels in a table."""
_FLOAT32, _BFLOAT16 = "float32", "bfloat16"
_OVERHEAD = "runtime overhead"


def titled(engine: str) -> str:
    """The title of an engine's columns, with the precision where costhub does not compute in float32.

    Args:
        engine: As in rows.
    """
    return ENGINE_TITLES[engine] + (f" ({_BFLOAT16})" if engine == "costhub-bf16" else "")


def engine_kernels_table(result: Mapping[str, Any], *, most: int = SLOWEST) -> str:
    """The kernels of costhub's libraries that take most of each network's time, and their shares of the CPU's peak.

    Args:
        result: `profiles` of the benchmark `engines`; a file of an older one, to which operations were added, says in
            `described` how.
        most: How many of each network.
    """
    profiles = [row for row in result["profiles"] if row["engine"] in _TUNED]
    lines = [line for row in profiles for line in kernels_of(row, _peaks(result))[:most]]
    if not lines:
        return NONE
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
    if profile["engine"] not in SEARCHED:
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
    text = f"Peak: {' and '.join(known)}." if known else "The peak of this CPU is not known."
    return f"{text} {result['described']}" if result.get("described") else text


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
        return NONE
    shared.sort(key=lambda about: -found[0][about]["ms"])
    lines = []
    for about in shared[:most]:
        old, new = (each[about] for each in found)
        line = {"network": about[0], "kernel": about[1], "calls": new["calls"], "ratio": new["ms"] / old["ms"]}
        for when, row in (("before", old), ("after", new)):
            line |= {f"{when} {key}": row[key] for key in ("ms", "gflops", "of_peak")}
        lines.append(line)
    titles = ("before", "after") if engines[0] == engines[1] else tuple(map(titled, engines))
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
    when = [
        f"{title}: {each['date'][:10]}, costhub {version_of(each)}. {_peak_text(each, {_FLOAT32})}"
        for title, each in (("Before", before), ("After", after))
    ]
    return f"{kernels_beside_table(before, after)}\n\n{' '.join(when)}"
