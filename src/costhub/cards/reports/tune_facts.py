"""Provides the figures in the report of a search: kernels by share, gains, and forms of networks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costhub.dataset.intrinsics import PAIR_CONVOLUTION, PAIR_PRODUCT
from costhub.errors import DataError
from costhub.terminal_text import counted

REQUIRED = ("device", "model", "method", "database", "workloads")
REQUIRED_ROW = ("workload", "trials", "failures", "seconds", "untuned_us", "best_us", "curve")
FORMS = {
    "tuned": "costhub",
    "torch": "PyTorch",
    "torch.compile": "torch.compile",
    "onnxruntime": "ONNX Runtime",
    "openvino-float32": "OpenVINO (float32)",
    "openvino-bfloat16": "OpenVINO (bfloat16)",
    "openvino-float16": "OpenVINO (float16)",
    "untuned": "TVM without tuning",
}
"""Form of a network -> its readable name, in the order of a report; others follow under their own names."""
TUNED, UNTUNED, TORCH = "tuned", "untuned", "torch"
PEAK_SOURCES = {
    "probe": "as costhub probe measured it on this device",
    "index": "from costhub's index of devices, not measured on this machine",
}
"""`peak_source` of a report -> its wording."""
UNSTEADY = 1.4
"""The machine was busy if the slowest of the middle half of the calls took so many times as long as the fastest."""
EQUAL = 0.03
"""Latencies closer than this share are called equal: runs of one program differ by this much."""


def require(mapping: Mapping[str, Any], keys: Sequence[str], what: str) -> None:
    """Rejects a mapping with missing keys.

    Raises:
        DataError: A key is missing.
    """
    missing = [key for key in keys if key not in mapping]
    if missing:
        raise DataError(f"A tuning report needs {', '.join(missing)}, which {what} lacks.")


def kernel_rows(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The workloads of a report, those taking most of their network's time first, with derived figures.

    Args:
        summary: The report.

    Returns:
        Its rows, each with its `share` of the time of the kernels searched with it, `gflops`, `of_peak` of the device
        and `gain` of its last quarter of programs; None where unknown.

    Raises:
        DataError: A field is missing.
    """
    peaks = [summary.get(name) for name in ("peak_gflops", "peak_gflops_bfloat16")]
    rows = []
    for row in summary["workloads"]:
        require(row, REQUIRED_ROW, f"the row of {row.get('workload', '?')}")
        gflops, peak = row.get("gflops"), peaks[multiplies_bfloat16(str(row["workload"]))]
        is_here = row.get("device", summary["device"]) == summary["device"]
        rows.append(
            {
                **row,
                "share": row.get("share_after"),
                "gflops": gflops,
                "of_peak": gflops / peak if gflops and peak and is_here else None,
                "gain": gain_since([row], 0.75),
            }
        )
    return sorted(rows, key=lambda row: -(row["share"] or 0.0))


def multiplies_bfloat16(workload: str) -> bool:
    """Whether a kernel of a network multiplies pairs of bfloat16, by its name.

    Example:
        >>> multiplies_bfloat16("matmul_pairs_add.128x384.48x384x16"), multiplies_bfloat16("row_pairs.128x768")
        (True, False)
    """
    return workload.startswith((PAIR_PRODUCT, PAIR_CONVOLUTION))


def best_at(row: Mapping[str, Any], trials: int) -> float | None:
    """The best latency after some of the trials of a workload; None before any ran, or if it had fewer trials."""
    best: list[float] = [point[-1] for point in row["curve"] if point[0] <= trials]
    return best[-1] if best and row["trials"] >= trials else None


def together_us(rows: Sequence[Mapping[str, Any]], share: float) -> float | None:
    """The latency of all kernels after a share of the programs of each, called as often as their network does.

    Kernels that never ran are left out; None while a kernel that ran later has no program yet.

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
    """The share of time saved by the programs after the first `share` of them; None if nothing had run by then.

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
        points: Maximum number of points.
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
    """The rows of the last search, without those already in its folder."""
    earlier = {(name, search["device"]) for search in summary.get("earlier", ()) for name in search["workloads"]}
    return [row for row in rows if (row["workload"], row.get("device", summary["device"])) not in earlier]


def effort_text(rows: Sequence[Mapping[str, Any]], what: str = "kernel") -> str:
    """How many programs were measured, and how long it took.

    Example:
        >>> effort_text([{"trials": 64, "failures": 1, "seconds": 90.0}])
        '64 programs of 1 kernel measured in 90 s, 1 of them failed'
        >>> effort_text([{"trials": 64, "trials_untimed": 48, "failures": 0, "seconds": 30.0}])
        '64 programs of 1 kernel measured in 30 s, which does not include 48 by runs that were interrupted'
        >>> effort_text([{"trials": 64, "trials_untimed": 64, "failures": 0, "seconds": 5.0}])
        '64 programs of 1 kernel, all measured by runs that were interrupted (this one took 5 s)'
    """
    trials, failures = sum(row["trials"] for row in rows), sum(row["failures"] for row in rows)
    seconds = sum(row["seconds"] for row in rows)
    time = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
    before = sum(row.get("trials_before", 0) for row in rows)
    untimed = sum(row.get("trials_untimed", 0) for row in rows)
    counts = f"{counted(trials, 'program')} of {counted(len(rows), what)}"
    text = f"{counts} measured in {time}"
    if untimed and untimed == trials:
        text = f"{counts}, all measured by runs that were interrupted (this one took {time})"
    elif untimed:
        text += f", which does not include {untimed:,d} by runs that were interrupted"
    elif before:
        text += f", {'all' if before == trials else f'{before:,d}'} of them by earlier searches"
    return f"{text}, {failures} of them failed" if failures else text


def gain_text(rows: Sequence[Mapping[str, Any]], what: str = "kernel") -> str:
    """What the last programs gained, which shows whether more would pay off; empty if unknown."""
    last, half = gain_since(rows, 0.75), gain_since(rows, 0.5)
    if last is None or half is None or max((row["trials"] for row in rows), default=0) < 4:
        return ""
    time = f"the time of all {what}s together" if len(rows) > 1 else "the time"
    # "The programs" of several would be those measured last, of whichever kernel.
    whose = f"each {what}'s" if len(rows) > 1 else "the"
    return f"The last quarter of {whose} programs lowered {time} by {last:.1%}, the last half by {half:.1%}."


def end_text(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Why the last search ended: the sentence of its rule, or that all trials were spent; empty if unknown.

    Args:
        summary: The report; reports of 0.1.0 lack `cap`, the trials of all workloads together.
        rows: The workloads of the last search.

    Example:
        >>> end_text({"cap": 64, "stopped": None}, [{"trials": 32}, {"trials": 32}])
        'The search ended when all 64 trials were spent.'
    """
    if summary.get("stopped"):
        return str(summary["stopped"]["said"])
    cap = summary.get("cap")
    is_spent = bool(cap) and sum(row["trials"] for row in rows) == cap
    return f"The search ended when all {cap:,} trials were spent." if is_spent else ""


def load_text(facts: Mapping[str, Any]) -> str:
    """The load of a machine on which other programs ran; empty if none did, or if unknown.

    Example:
        >>> load_text({"load_average": 9.81, "cores": 2}), load_text({"load_average": 1.9, "cores": 2})
        ('load average 9.8, 2 cores', '')
    """
    load, cores = facts.get("load_average"), facts.get("cores")
    return "" if load is None or not cores or load <= cores else f"load average {load:.1f}, {counted(cores, 'core')}"


def no_result_text(facts: Mapping[str, Any]) -> str:
    """A caveat about the figures in a headline if other programs ran; empty if not, or if unknown.

    Example:
        >>> no_result_text({"load_average": 9.81, "cores": 2})
        'Measured while other programs ran (load average 9.8, 2 cores): no result to cite.'
    """
    load = load_text(facts)
    return f"Measured while other programs ran ({load}): no result to cite." if load else ""


def busy_text(summary: Mapping[str, Any], *, is_network: bool) -> str:
    """How other programs affect the latencies, and how to measure again; empty if none ran, or if unknown.

    Args:
        summary: The report.
        is_network: Whether a whole network was timed, which is repeated with every search.

    Example:
        >>> busy_text({"load_average": 9.81, "cores": 2}, is_network=True)[:66]
        'Other programs were running (load average 9.8, 2 cores) when the s'
    """
    load = load_text(summary)
    if not load:
        return ""
    again = (
        "On an idle machine, the same command times the network again; kernels keep the latencies of this search."
        if is_network
        else "To measure again on an idle machine, run the same command with another --out."
    )
    return (
        f"Other programs were running ({load}) when the search began: they make latencies too high, and not all by "
        f"the same factor. PyTorch usually suffers most, which makes costhub look better than it is. {again}"
    )


def peak_text(summary: Mapping[str, Any]) -> str:
    """The peak of the device and where it comes from; empty if unknown.

    Example:
        >>> peak_text({"peak_gflops": 256.2, "peak_source": "probe"})
        '256 GFLOP/s in float32, as costhub probe measured it on this device'
    """
    peak, source = summary.get("peak_gflops"), PEAK_SOURCES.get(summary.get("peak_source") or "")
    if not peak:
        return ""
    pairs = summary.get("peak_gflops_bfloat16")
    is_used = any(multiplies_bfloat16(str(row.get("workload"))) for row in summary.get("workloads", ()))
    also = f" and {pairs:,.0f} in bfloat16" if pairs and is_used else ""
    return f"{peak:,.0f} GFLOP/s in float32{also}{f', {source}' if source else ''}"


def disturbed_peak_text(rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> str:
    """Says that the peak is too low, if a kernel exceeds it; empty if none does.

    Args:
        rows: Of the kernels.
        summary: The report, of which `peak_source`, `probe` and `on_board` are used.

    Example:
        >>> report = {"probe": "costhub probe --threads 1"}
        >>> disturbed_peak_text([{"of_peak": 1.04}], report)
        'A kernel exceeds the peak, so other programs disturbed its probe: run `costhub probe --threads 1` again.'
        >>> disturbed_peak_text([{"of_peak": 0.9}, {"of_peak": None}], report)
        ''
        >>> disturbed_peak_text([{"of_peak": 1.04}], {"on_board": True})[-39:]
        'run `costhub probe` on the board again.'
    """
    if not any((row["of_peak"] or 0.0) > 1.0 for row in rows):
        return ""
    if summary.get("peak_source") == "index":
        return (
            "A kernel exceeds this peak, which was measured on another machine of this kind: here, the shares of the "
            "peak are too high. Latencies are not affected."
        )
    command = f"`{summary.get('probe') or 'costhub probe'}`{' on the board' if summary.get('on_board') else ''}"
    return f"A kernel exceeds the peak, so other programs disturbed its probe: run {command} again."


def sum_text(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, always: bool = True) -> str:
    """The sum of a network's kernels compared with the network itself; empty if they cannot be compared.

    Args:
        summary: The report; only that of a single search of a single network can be compared.
        rows: All kernels.
        always: Also if they add up to less, which needs no explanation.
    """
    networks = summary.get("networks", ())
    if len(networks) != 1 or summary.get("earlier") or any(row["best_us"] is None for row in rows):
        return ""
    (network,) = networks
    tuned, total = network["latencies"].get(TUNED), together_us(rows, 1.0)
    # More rows than tuned kernels: workloads besides the network, or a schedule that it does not use.
    if tuned is None or total is None or len(rows) > network.get("kernels_tuned", 0):
        return ""
    is_more = total > tuned["median_us"]
    if not is_more and not always:
        return ""
    why = (
        " A kernel is timed alone and at another moment, with the caches, clock and load that it finds, so the sum can "
        "be larger."
    )
    return (
        f"The latencies of the kernels, times their calls, add up to {duration_text(total)}; the network takes "
        f"{duration_text(tuned['median_us'])}.{why * is_more}"
    )


def forms(network: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Form, its name and its latencies, for each form of a network that was timed."""
    timed = network["latencies"]
    for form in [*(form for form in FORMS if form in timed), *(form for form in timed if form not in FORMS)]:
        yield form, FORMS.get(form, form), timed[form]


def on_gpu(network: Mapping[str, Any]) -> bool:
    """Whether a network was tuned for a GPU; reports of 0.1 do not say, and had none."""
    return str(network.get("device_kind", "cpu")) != "cpu"


def where_text(network: Mapping[str, Any]) -> str:
    """What a network computes with, after a noun.

    Example:
        >>> where_text({"threads": 2}), where_text({"threads": 2, "device_kind": "cuda"})
        ('with 2 threads', 'on the GPU')
    """
    return "on the GPU" if on_gpu(network) else f"with {counted(network['threads'], 'thread')}"


def headline(network: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """The result of a network, compared with PyTorch if that was timed and no other programs were running.

    Args:
        network: `FinishedNetwork.to_json`; one from an earlier search contains that search's load.
        summary: The report.

    Example:
        >>> times = {"torch": {"median_us": 9000.0}, "tuned": {"median_us": 3000.0}}
        >>> headline({"network": "net", "error": None, "latencies": times}, {})
        '3.00 ms: 3.0 times as fast as PyTorch (9.00 ms).'
    """
    if network["error"]:
        return f"{str(network['error']).rstrip('.')}."
    us = {form: latency["median_us"] for form, latency in network["latencies"].items()}
    if TUNED not in us:
        return f"{network['network']} was compiled and checked, but it could not be timed."
    caveat = no_result_text({**summary, **network}) or _unsteady_text(network["latencies"][TUNED])
    return f"{_beside_torch(us, is_disturbed=bool(caveat))}. {caveat}".rstrip()


def _unsteady_text(latency: Mapping[str, Any]) -> str:
    """A caveat if the calls took so differently long that other programs, or the host, must have had a part in it."""
    low, high = latency.get("low_us"), latency.get("high_us")
    if not low or not high or high < UNSTEADY * low:
        return ""
    return f"The middle half of the calls took {span_text(latency)}: the machine was busy, so do not cite it."


def span_text(latency: Mapping[str, Any]) -> str:
    """Between which times the middle half of the calls lies; empty if unknown.

    Example:
        >>> span_text({"low_us": 4490.0, "high_us": 7730.0})
        '4.49 ms to 7.73 ms'
    """
    low, high = latency.get("low_us"), latency.get("high_us")
    return f"{duration_text(low)} to {duration_text(high)}" if low and high else ""


def _beside_torch(us: Mapping[str, float], *, is_disturbed: bool) -> str:
    text, torch = duration_text(us[TUNED]), us.get(TORCH)
    if torch is None:
        return f"{text} per call"
    if is_disturbed:
        return f"{text}, PyTorch {duration_text(torch)}"  # Their ratio would be that of the disturbances.
    if abs(torch / us[TUNED] - 1.0) < EQUAL:
        return f"{text}: as fast as PyTorch ({duration_text(torch)})"
    if torch < us[TUNED]:
        return f"{text}: slower than PyTorch ({duration_text(torch)})"
    return f"{text}: {torch / us[TUNED]:.1f} times as fast as PyTorch ({duration_text(torch)})"


def outputs_text(network: Mapping[str, Any]) -> str:
    """Which outputs the tuned network reproduces, and how closely."""
    whose = "PyTorch's" if network["reference"] == TORCH else "those of the network without tuning"
    if network.get("precision") == "bf16":
        error = 100 * (network["error_size"] or 0.0)
        return f"Computed in bfloat16: outputs differ from {whose} by {error:.2g} % of their size (root mean square)."
    error = network.get("error_size")
    size = f"; the root mean square of the differences is {error:.1g} of it" if error else ""
    return f"Outputs equal {whose} (tolerance {network['tolerance']:g} of their size){size}."


def ratio_text(us: float, tuned_us: float | None) -> str:
    """How a form compares with the tuned one.

    Example:
        >>> ratio_text(3000.0, 1000.0), ratio_text(800.0, 1000.0)
        ('3.00 times as long', '0.80 times as long')
    """
    return f"{us / tuned_us:,.{2 if us < 20 * tuned_us else 0}f} times as long" if tuned_us else ""


def duration_text(us: float) -> str:
    """A time with three digits, in a suitable unit.

    Example:
        >>> duration_text(12.34), duration_text(12340.0), duration_text(1.5e6)
        ('12.3 µs', '12.3 ms', '1.50 s')
    """
    unit, size = next(((unit, size) for unit, size in (("s", 1e6), ("ms", 1e3)) if us >= size), ("µs", 1.0))
    value = us / size
    return f"{value:.{max(0, 2 - (value >= 10) - (value >= 100))}f} {unit}"
