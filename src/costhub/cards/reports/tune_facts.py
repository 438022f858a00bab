"""Provides what the report of a search says in numbers: kernels by their share, gains, and forms of networks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costhub.cards.tables import counted
from costhub.errors import DataError

REQUIRED = ("device", "model", "method", "database", "workloads")
REQUIRED_ROW = ("workload", "trials", "failures", "seconds", "untuned_us", "best_us", "curve")
FORMS = {
    "tuned": "costhub",
    "torch": "PyTorch",
    "torch.compile": "torch.compile",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "untuned": "TVM without tuning",
}
"""Form of a network -> its name for people, in the order of a report; others follow under their own names."""
TUNED, UNTUNED, TORCH = "tuned", "untuned", "torch"
EQUAL = 0.03
"""Latencies closer than this share are called equal: runs of one program differ by as much."""


def require(mapping: Mapping[str, Any], keys: Sequence[str], what: str) -> None:
    """Refuses a mapping with gaps.

    Raises:
        DataError: A key is missing.
    """
    missing = [key for key in keys if key not in mapping]
    if missing:
        raise DataError(f"A tuning report needs {', '.join(missing)}, which {what} lacks.")


def kernel_rows(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The workloads of a report, those that take most of their network's time first, with what follows from them.

    Args:
        summary: The report.

    Returns:
        Its rows, each with `share` of the time of the kernels searched with it, `gflops`, `of_peak` of the device
        and `gain` of its last quarter of programs; None where unknown.

    Raises:
        DataError: A field is missing.
    """
    peak = summary.get("peak_gflops")
    rows = []
    for row in summary["workloads"]:
        require(row, REQUIRED_ROW, f"the row of {row.get('workload', '?')}")
        gflops = row.get("gflops")
        is_here = row.get("device", summary["device"]) == summary["device"]
        rows.append(
            {
                **row,
                "share": row.get("share_after"),
                "gflops": gflops,
                "of_peak": gflops / peak if gflops and peak and is_here else None,
                "gain": gain_since([row], 0.75),
                "speedup": speedup(row),
            }
        )
    return sorted(rows, key=lambda row: -(row["share"] or 0.0))


def speedup(row: Mapping[str, Any]) -> float | None:
    """Unscheduled over best latency; None if one of them is unknown.

    Example:
        >>> speedup({"untuned_us": 300.0, "best_us": 100.0})
        3.0
    """
    untuned, best = row["untuned_us"], row["best_us"]
    return untuned / best if untuned and best else None


def best_at(row: Mapping[str, Any], trials: int) -> float | None:
    """The best latency after some of the trials of a workload; None while none ran, or if it had fewer."""
    best: list[float] = [point[-1] for point in row["curve"] if point[0] <= trials]
    return best[-1] if best and row["trials"] >= trials else None


def together_us(rows: Sequence[Mapping[str, Any]], share: float) -> float | None:
    """The latency of all kernels after a share of the programs of each, called as often as their network does.

    Kernels of which nothing ran are left out; None while one that ran later had no program yet.

    Example:
        >>> conv = {"weight": 2.0, "trials": 4, "best_us": 5.0, "curve": [(1, 9.0), (4, 5.0)]}
        >>> [together_us([conv], share) for share in (0.0, 0.5, 1.0)]
        [None, 18.0, 10.0]
    """
    known = [row for row in rows if row["best_us"] is not None]
    best = [best_at(row, math.ceil(share * row["trials"])) for row in known]
    if not known or None in best:
        return None
    return sum((row.get("weight") or 1.0) * us for row, us in zip(known, best, strict=True) if us is not None)


def gain_since(rows: Sequence[Mapping[str, Any]], share: float) -> float | None:
    """The share of the time that the programs after a share of them have saved; None if nothing had run by then.

    Example:
        >>> conv = {"weight": 2.0, "trials": 4, "best_us": 5.0, "curve": [(1, 10.0), (4, 5.0)]}
        >>> gain_since([conv], 0.75)
        0.5
    """
    before, after = together_us(rows, share), together_us(rows, 1.0)
    return 1.0 - after / before if before and after is not None else None


def together_curve(rows: Sequence[Mapping[str, Any]], points: int = 64) -> list[tuple[float, float]]:
    """(programs of each kernel on average, latency of all kernels in us) along a search.

    Args:
        rows: The workloads that were searched together.
        points: How many at most.
    """
    known = [row for row in rows if row["best_us"] is not None]
    most = max((row["trials"] for row in known), default=0)
    if not most:
        return []
    mean = statistics.fmean(row["trials"] for row in known)
    steps = min(points, most)
    curve = ((mean * step / steps, together_us(known, step / steps)) for step in range(1, steps + 1))
    return [(trials, us) for trials, us in curve if us is not None]


def own_rows(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of the last search, without those that its folder had before."""
    earlier = {(name, search["device"]) for search in summary.get("earlier", ()) for name in search["workloads"]}
    return [row for row in rows if (row["workload"], row.get("device", summary["device"])) not in earlier]


def effort_text(rows: Sequence[Mapping[str, Any]], what: str = "kernel") -> str:
    """How many programs were measured, in how long.

    Example:
        >>> effort_text([{"trials": 64, "failures": 1, "seconds": 90.0}])
        '64 programs of 1 kernel measured in 90 s, 1 of them failed'
    """
    trials, failures = sum(row["trials"] for row in rows), sum(row["failures"] for row in rows)
    seconds = sum(row["seconds"] for row in rows)
    time = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
    text = f"{counted(trials, 'program')} of {counted(len(rows), what)} measured in {time}"
    return f"{text}, {failures} of them failed" if failures else text


def gain_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the last programs gained, from which a reader sees whether more of them pay; empty if it is unknown."""
    last, half = gain_since(rows, 0.75), gain_since(rows, 0.5)
    if last is None or half is None or max((row["trials"] for row in rows), default=0) < 4:
        return ""
    what = "all kernels together" if len(rows) > 1 else "it"
    return f"The last quarter of the programs made {what} {last:.1%} faster, the last half {half:.1%}."


def busy_text(summary: Mapping[str, Any]) -> str:
    """A warning if other programs were running; empty if not, or if it is unknown.

    Example:
        >>> busy_text({"load_average": 9.81, "cores": 2})[:64]
        'Other programs were running (load average 9.8, 2 cores): the lat'
    """
    load, cores = summary.get("load_average"), summary.get("cores")
    if load is None or not cores or load <= cores:
        return ""
    return (
        f"Other programs were running (load average {load:.1f}, {counted(cores, 'core')}): the latencies are too high, "
        "those of PyTorch most of all. Run the same command again on an idle machine to time it again."
    )


def forms(network: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Form, its name and its latencies, for each form of a network that was timed."""
    timed = network["latencies"]
    for form in [*(form for form in FORMS if form in timed), *(form for form in timed if form not in FORMS)]:
        yield form, FORMS.get(form, form), timed[form]


def headline(network: Mapping[str, Any]) -> str:
    """The result of a network in one sentence, beside PyTorch where that was timed.

    Args:
        network: `FinishedNetwork.to_json`.

    Example:
        >>> times = {"torch": {"median_us": 9000.0}, "tuned": {"median_us": 3000.0}}
        >>> headline({"network": "net", "error": None, "latencies": times})
        '3.00 ms: 3.0 times as fast as PyTorch (9.00 ms)'
    """
    if network["error"]:
        return str(network["error"])
    us = {form: latency["median_us"] for form, latency in network["latencies"].items()}
    if TUNED not in us:
        return f"{network['network']} was compiled and checked, but it could not be timed"
    text, torch = duration_text(us[TUNED]), us.get(TORCH)
    if torch is None:
        return f"{text} per call"
    if abs(torch / us[TUNED] - 1.0) < EQUAL:
        return f"{text}: as fast as PyTorch ({duration_text(torch)})"
    if torch < us[TUNED]:
        return f"{text}: slower than PyTorch ({duration_text(torch)})"
    return f"{text}: {torch / us[TUNED]:.1f} times as fast as PyTorch ({duration_text(torch)})"


def outputs_text(network: Mapping[str, Any]) -> str:
    """Whose outputs the tuned network has, and how closely."""
    whose = "PyTorch's" if network["reference"] == TORCH else "those of the network without tuning"
    return f"Outputs equal {whose} within {network['tolerance']:g} of their size."


def ratio_text(us: float, tuned_us: float | None) -> str:
    """How a form compares with the tuned one.

    Example:
        >>> ratio_text(3000.0, 1000.0), ratio_text(800.0, 1000.0)
        ('3.00 times as long', '0.80 times as long')
    """
    return f"{us / tuned_us:,.{2 if us < 20 * tuned_us else 0}f} times as long" if tuned_us else ""


def duration_text(us: float) -> str:
    """A time with three digits, in a unit that suits it.

    Example:
        >>> duration_text(12.34), duration_text(12340.0), duration_text(1.5e6)
        ('12.3 µs', '12.3 ms', '1.50 s')
    """
    unit, size = next(((unit, size) for unit, size in (("s", 1e6), ("ms", 1e3)) if us >= size), ("µs", 1.0))
    value = us / size
    return f"{value:.{max(0, 2 - (value >= 10) - (value >= 100))}f} {unit}"
