"""Provides check_folder: every rule that a data folder must keep, each with an id that does not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from costhub.dataset.check import rules
from costhub.dataset.check.contents import Contents, read_contents


@dataclass(frozen=True)
class Finding:
    """One breach of a rule."""

    rule: str
    where: str
    """File or table, within the data folder."""
    message: str


@dataclass(frozen=True)
class Rule:
    """A rule: what it asks for, and the function that yields (where, message) for every breach."""

    title: str
    find: Callable[[Contents], Iterator[tuple[str, str]]]
    deep: bool = False
    """Whether it takes long, and so is left out unless asked for."""


# Ids are never used again for something else: contributions and their reviews refer to them.
RULES: dict[str, Rule] = {
    "D001": Rule("every shard and journal can be read", rules.unreadable),
    "D002": Rule("every shard has the schema of its table", rules.foreign),
    "D003": Rule("a record_id occurs once", rules.duplicate_records),
    "D004": Rule("every workload_id is in workloads", rules.unknown_workloads),
    "D005": Rule("every device_id is in devices", rules.unknown_devices),
    "D006": Rule("an ok measurement has finite, positive latencies", rules.bad_latencies),
    "D007": Rule("a failed measurement has an error text and no latencies", rules.bad_failures),
    "D008": Rule("trace and target are the JSON that TVM reads", rules.bad_json),
    "D009": Rule("no program is faster than the device can compute", rules.implausible_throughput),
    "D010": Rule("a workload_id is the hash of its module", rules.wrong_workload_ids, deep=True),
    "D011": Rule("no rows are left in a journal", rules.leftover_journals),
    "D012": Rule(
        "shards are named 0 to N-1 of N, and nothing half-written lies beside them", rules.bad_names
    ),
    "D013": Rule("measurements lie in the folder of their device", rules.misplaced),
    "D014": Rule("a program_id is the hash of its workload and trace", rules.wrong_program_ids),
    "D015": Rule("a status is one of the schema's", rules.unknown_statuses),
    "D016": Rule("a device or workload occurs once in its table", rules.duplicate_keys),
}


def check_folder(path: str | Path, *, deep: bool = False) -> list[Finding]:
    """Checks a data folder against every rule.

    Args:
        path: The data folder.
        deep: Also apply the rules that take long: those that load every module into TVM, in a child process.

    Returns:
        The findings, by rule; empty where all is well.

    Raises:
        DataError: There is no data folder at `path`.
    """
    contents = read_contents(path)
    return [
        Finding(rule_id, where, message)
        for rule_id, rule in RULES.items()
        if deep or not rule.deep
        for where, message in rule.find(contents)
    ]
