"""Renders the findings of an examination of a MetaSchedule database, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.doctor.coverage import KernelCoverage, NetworkCoverage
from costhub.dataset.doctor.database_rules import DATABASE_RULES
from costhub.dataset.doctor.examine import Examination
from costhub.terminal_text import clean, counted

_PLACES_SHOWN = 3
_WORKLOADS_SHOWN = 20
_NAME_CHARACTERS = 100
_TEXT_CHARACTERS = 300

_WORKLOADS = (
    TableColumn("name", "workload"),
    TableColumn("tvm", "TVM"),
    number("records", "records", ",d"),
    number("failed", "failed", ",d"),
    number("best_us", "best (us)", ",.1f"),
)
_KERNELS = (
    TableColumn("name", "kernel"),
    number("calls", "calls", ",.0f"),
    number("flop_share", "of FLOP", ".1%"),
    number("time_share", "of time", ".1%"),
    number("trial_share", "of trials", ".1%"),
    number("trials", "trials", ",d"),
    number("best_us", "best (us)", ",.1f"),
)


def doctor_text(examination: Examination, coverage: NetworkCoverage | None) -> str:
    """Renders contents, findings by rule and the coverage of a network.

    Args:
        examination: Examination of a database.
        coverage: Coverage of a network, if one was given.
    """
    sections = [_contents(examination), _workloads(examination), *_findings(examination)]
    if coverage is not None:
        sections.append("\n".join(_coverage(coverage)))
    return "\n\n".join([*sections, _verdict(examination)])


def _contents(found: Examination) -> str:
    failed = sum(record.failed for record in found.records)
    versions = Counter(each.examined.tvm_version or "an unknown version" for each in found.distinct)
    lines = [
        f"{counted(found.lines, 'line')}: {counted(len(found.records), 'good record')} of "
        f"{counted(len(found.distinct), 'workload')}, {failed:,} of programs that failed",
        *(f"target {clean(target, _TEXT_CHARACTERS)} ({count:,})" for target, count in found.targets.most_common()),
        *(
            f"left out, target {clean(target, _TEXT_CHARACTERS)} ({count:,})"
            for target, count in found.other_targets.most_common()
        ),
        *(f"TVM {clean(version, 40)} ({counted(count, 'workload')})" for version, count in sorted(versions.items())),
        f"identity {found.identity}",
    ]
    if not found.is_replayed:
        lines.append("schedules not replayed")
    return "\n".join(lines)


def _workloads(found: Examination) -> str:
    most = sorted(found.distinct, key=lambda each: (-each.records, each.number))[:_WORKLOADS_SHOWN]
    rows = [
        {
            "name": clean(each.shown_name, _NAME_CHARACTERS),
            "tvm": clean(each.examined.tvm_version or "?", 20),
            "records": each.records,
            "failed": each.failed,
            "best_us": None if each.best_s is None else each.best_s * 1e6,
        }
        for each in most
    ]
    left = len(found.distinct) - len(most)
    return plain_table(rows, _WORKLOADS) + (f"\n... and {left:,} more; --json lists them all" if left else "")


def _findings(found: Examination) -> Iterator[str]:
    for rule_id, places in sorted(found.log.kept.items()):
        rule, count = DATABASE_RULES[rule_id], found.log.counts[rule_id]
        lines = [f'{rule.id} {rule.severity}, {counted(count, "breach", "breaches")} of the rule "{rule.title}"']
        for each in places[:_PLACES_SHOWN]:
            lines.append(f"  {clean(each.where, 120)}: {clean(each.message, _TEXT_CHARACTERS)}")
        if count > _PLACES_SHOWN:
            listed = f"only the first {len(places):,} of {count:,}" if len(places) < count else "them"
            lines.append(f"  ... and {count - _PLACES_SHOWN:,} more; --json lists {listed}")
        if rule.severity != "note":
            lines.append(f"  To do: {rule.fix}")
        yield "\n".join(lines)


def _coverage(coverage: NetworkCoverage) -> Iterator[str]:
    count = len(coverage.kernels)
    yield (
        f"{clean(coverage.network, 80)}: {coverage.tuned:,} of {counted(count, 'kernel')} tuned, "
        f"{coverage.tuned_flop_share:.1%} of the arithmetic"
    )
    wasted = {
        "kernels with under 1 % of the arithmetic each": coverage.idle_trials,
        "workloads that the network lacks": coverage.foreign_trials,
    }
    went = [f"{trials / coverage.trials:.1%} to {where}" for where, trials in wasted.items() if trials]
    if went:
        yield f"of the trials, {' and '.join(went)}"
    for why, number_left in sorted(coverage.left_out.items()):
        yield f"nothing to tune: {counted(number_left, 'function')} ({why})"
    for why, number_left in sorted(coverage.default_schedule.items()):
        yield f"left to the default schedule, as by costhub tune: {counted(number_left, 'kernel')} ({why})"
    yield plain_table([_kernel_row(kernel) for kernel in coverage.kernels], _KERNELS)


def _kernel_row(kernel: KernelCoverage) -> dict[str, Any]:
    return {
        "name": clean(kernel.name, _NAME_CHARACTERS),
        "calls": kernel.calls,
        "flop_share": kernel.flop_share,
        "time_share": kernel.time_share,
        "trial_share": kernel.trial_share,
        "trials": kernel.trials,
        "best_us": kernel.best_us,
    }


def _verdict(found: Examination) -> str:
    log = found.log
    counts = [counted(log.count(severity), severity) for severity in ("error", "warning", "note")]
    return f"{clean(str(found.folder), 200)}: {', '.join(counts)}."
