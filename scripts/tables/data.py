"""Tables of data and of the hub: how reading and writing grow, how fast features are, what a bad connection does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.hub.sources.catalogue import load_sources

Result = Mapping[str, Any]

_REAL = {"shards": "costhub's shards", "tvm_json": "TVM's JSON database"}
_TOGETHER = "all"
"""The damage of the benchmark `doctor` that is all of them at once."""
_STAGES = {
    "write": "write",
    "check": "check, all rules but the deep ones",
    "stats": "stats",
    "filter_workload": "filter one workload",
    "filter_pyarrow": "the same with bare pyarrow",
    "load_features": "load the features of one device (a quarter of the rows)",
}


def dataset_table(result: Result) -> str:
    """One line per stage: seconds by number of rows, growth, and the peak memory with the most rows."""
    cells: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in result["rows"]:
        if row["stage"] in _STAGES:
            cells.setdefault(row["stage"], {})[row["rows"]] = row
    sizes = sorted({row["rows"] for row in result["rows"]})
    rows = [
        {
            "stage": _STAGES[stage],
            **{str(size): f"{by_size[size]['seconds']:.3g}" for size in sizes},
            "growth": _exponent(by_size[sizes[0]], by_size[sizes[-1]]),
            "peak": by_size[sizes[-1]]["peak_gib"],
        }
        for stage, by_size in cells.items()
    ]
    columns = [TableColumn("stage", "stage")]
    columns += [TableColumn(str(size), f"{size:,} rows (s)", align="right") for size in sizes]
    columns += [
        TableColumn("growth", "seconds ~ rows^", align="right"),
        number("peak", "peak memory (GiB)", ".2f"),
    ]
    return f"{markdown_table(rows, columns)}\n\n{formats_table(result)}"


def formats_table(result: Result) -> str:
    """One line per format: what a real measurement takes on disk, and how long all take to load."""
    rows = [{**row, "format": _REAL[row["stage"]]} for row in result["rows"] if row["stage"] in _REAL]
    columns = [
        TableColumn("format", "format"),
        number("found", "measurements", ",d"),
        number("bytes_per_row", "bytes each", ",.0f"),
        number("seconds", "load (s)", ".2f"),
    ]
    return markdown_table(rows, columns)


def features_table(result: Result) -> str:
    """One line per feature spec: programs featurised in a second, here and by a plain loop."""
    columns = [
        TableColumn("spec", "features"),
        number("per_s", "programs / s", ",.0f"),
        number("ratio_to_loop", "times the loop", ".2f"),
    ]
    cache = result["cache"]
    read = "Out of the cache: {gb_per_s:.2f} GB/s; bare pyarrow on the same files: {pyarrow_gb_per_s:.2f}."
    return f"{markdown_table(result['features'], columns)}\n\n{read.format(**cache)}"


def _exponent(first: Mapping[str, Any], last: Mapping[str, Any]) -> str:
    if first["rows"] == last["rows"]:
        return "-"
    return f"{math.log(last['seconds'] / first['seconds']) / math.log(last['rows'] / first['rows']):.2f}"


def cuts_table(result: Result) -> str:
    """One line per command: how it was disturbed, and what it was like after it had been run again."""
    rows = result["rows"]
    columns = [
        TableColumn("command", "command"),
        number("cut", "cut once", "d"),
        number("away", "cut, and the server stays away", "d"),
        number("kill", "killed with -9", "d"),
        number("first_done", "succeeded anyway", "d"),
        number("arrived", "failed, but had arrived", "d"),
        number("again_done", "second run done", "d"),
        number("identical", "result identical", "d"),
    ]
    total = {key: sum(row[key] for row in rows) for key in ("half", "lost", "doubled", "no_sentence", "left")}
    leftovers = (
        f"{total['half']} half files under a final name, {total['lost']} versions lost on the server, "
        f"{total['doubled']} pull requests opened twice, {total['no_sentence']} failures without a sentence, "
        f"{total['left']} temporary folders left by killed clients."
    )
    return f"{markdown_table(rows, columns)}\n\n{leftovers}"


def pull_table(result: Result) -> str:
    """One line per way to a model: seconds from the start of a process to scores, and where they went."""
    stages = {"pull": "pull (s)", "load": "load (s)", "score": "score (s)"}
    columns = [
        TableColumn("way", "from"),
        number("seconds", "start to scores (s)", ".2f"),
        number("range", "slowest (s)", ".2f"),
        *(number(key, title, ".2f") for key, title in stages.items()),
    ]
    note = (
        f"Medians of {len(result['rows']) // len(result['summary'])} new processes with empty caches; "
        f"{result['programs']} programs of {result['scored']} are scored. The rest is Python's own start."
    )
    return f"{markdown_table(result['summary'], columns)}\n\n{note}"


def agreement_table(result: Result) -> str:
    """One line for every two devices of one kind, without parts of one chip.

    Args:
        result: `rows` of the benchmark `agreement`. A pair without programs shares none.
    """
    columns = (
        TableColumn("measured", "latencies"),
        TableColumn("one", "device"),
        TableColumn("other", "and"),
        number("shared", "programs of both", ",d"),
        number("workloads", "workloads with several", ",d"),
        number("programs", "programs of these", ",d"),
        number("pairwise", "pairs in the same order", ".3f"),
        number("top_1", "top-1 by the other's order", ".3f"),
    )
    parts = ("-1c", "-avx2", "-sse4.2")
    rows = [row for row in result["rows"] if not any(part in row["one"] + row["other"] for part in parts)]
    return markdown_table(rows, columns)


def register_tiles_table(result: Result) -> str:
    """One line for each device and limit of the sums in a register tile: what it leaves out, and what that costs.

    Args:
        result: `rows` of the benchmark `register-tiles`; those of one core, which say the same, are left out.
    """
    columns = (
        TableColumn("device_id", "device"),
        number("limit", "most vectors of sums", "d"),
        number("workloads", "workloads", "d"),
        number("programs", "programs", ",d"),
        number("left_out", "programs left out", ".1%"),
        number("best_left_out", "workloads whose best is left out", ".1%"),
        number("loss", "latency of the best of the rest", ".3f"),
    )
    return markdown_table([row for row in result["rows"] if not row["device_id"].endswith("-1c")], columns)


def old_databases_table(result: Result) -> str:
    """One line per database: who wrote it, its licence in the catalogue of sources, and what came in."""
    licences = {source.contributor: source.licence for source in load_sources()}
    columns = [
        TableColumn("origin", "database"),
        TableColumn("licence", "licence"),
        TableColumn("tvm", "TVM"),
        TableColumn("form", "form"),
        number("workloads", "workloads", ",d"),
        number("ok", "ran", ",d"),
        number("failed", "failed", ",d"),
        number("duplicates", "copies", ",d"),
        number("refused", "refused", ",d"),
    ]
    reasons = [
        f"- {row['origin']}, {count:,} refused: {why.rstrip('.')}."
        for row in result["rows"]
        for why, count in row["reasons"].items()
    ]
    rows = [{**row, "licence": licences.get(row["origin"])} for row in result["rows"]]
    return "\n\n".join([markdown_table(rows, columns), *(["\n".join(reasons)] if reasons else [])])


def doctor_table(result: Result) -> str:
    """One line per database: what was found and what was lost when it was damaged; one per damage; then of networks."""
    rows = [_doctor_folder(folder, result["rows"]) for folder in result["folders"]]
    folders = [
        TableColumn("folder", "database"),
        TableColumn("kind", "target"),
        TableColumn("tvm", "TVM"),
        number("workloads", "workloads", ",d"),
        TableColumn("records", "records", align="right"),
        number("good", "good", ",d"),
        TableColumn("found", "damages found, one at a time", align="right"),
        TableColumn("together", "findings, all at once", align="right"),
        number("lost", "good records lost", ",d"),
        number("left", "damaged ones kept", ",d"),
        number("seconds", "examined in (s)", ",.1f"),
    ]
    names = list(dict.fromkeys(row["damage"] for row in result["rows"] if row["damage"] != _TOGETHER))
    damages = [
        TableColumn("damage", "damage"),
        TableColumn("found", "found", align="right"),
        number("lost", "good records lost", ",d"),
        TableColumn("stock", "TVM by itself"),
    ]
    table = markdown_table([_doctor_damage(name, result["rows"]) for name in names], damages)
    copies, alarms = [row["loads"] for row in result["rows"]], sum(len(row["false_alarms"]) for row in result["rows"])
    said = f"TVM loads every record of {sum(copies):,} of {len(copies):,} clean copies; false alarms: {alarms:,}."
    more = [_coverage_table(result["coverage"])] if result.get("coverage") else []
    more += [_merges_table(result["merges"])] if result.get("merges") else []
    return "\n\n".join([markdown_table(rows, folders), said, table, *more])


def _coverage_table(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = [
        TableColumn("what", "folder of a search of a network"),
        TableColumn("tuned", "kernels tuned", align="right"),
        number("flop_share", "of the arithmetic", ".1%"),
        TableColumn("foreign", "trials on foreign kernels", align="right"),
        TableColumn("right", "as it is"),
        number("seconds", "examined in (s)", ",.1f"),
    ]
    shown = [
        {
            **row,
            "tuned": f"{row['tuned']:,} of {row['kernels']:,}",
            "foreign": f"{row['foreign']:,} of {row['trials']:,}",
            "right": "; ".join(row["wrong"]) or "yes",
        }
        for row in rows
    ]
    return markdown_table(shown, columns)


def _merges_table(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = [
        TableColumn("what", "merged"),
        number("folders", "folders", ",d"),
        number("records", "records", ",d"),
        number("joined", "joined", ",d"),
        number("duplicates", "left out, since several hold them", ",d"),
        number("lost", "lost", ",d"),
        TableColumn("outcome", "outcome"),
    ]
    shown = [{**row, "outcome": _outcome(row)} for row in rows]
    return markdown_table(shown, columns)


def _outcome(row: Mapping[str, Any]) -> str:
    """Whether TVM loads what was joined, or the beginning of the sentence that refuses it: the targets are long."""
    if row["refused"]:
        return f"refused: {row['refused'].partition(':')[0]}"
    return "TVM loads every record" if row["loads"] else "TVM does not load it"


def _doctor_folder(folder: Mapping[str, Any], all_rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = [row for row in all_rows if row["folder"] == folder["folder"]]
    single = [row for row in rows if row["damage"] != _TOGETHER and not row["harmless"]]
    together = [row for row in rows if row["damage"] == _TOGETHER]
    expected, missed = sum(row["expected"] for row in together), sum(len(row["missed"]) for row in together)
    taken, lines = folder["taken"], folder["lines"]
    return {
        **folder,
        "tvm": ", ".join(folder["tvm_versions"]),
        "records": f"{lines:,}" if taken == lines else f"the first {taken:,} of {lines:,}",
        "found": f"{sum(not row['missed'] for row in single)} of {len(single)}",
        "together": f"{expected - missed} of {expected}" if together else "-",
        "lost": sum(row["lost"] for row in rows),
        "left": sum(row["left"] for row in rows),
    }


def _doctor_damage(name: str, all_rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = [row for row in all_rows if row["damage"] == name]
    outcomes = Counter(row["stock"] if isinstance(row["stock"], str) else "loads" for row in rows if "stock" in row)
    is_harmless = any(row["harmless"] for row in rows)
    return {
        "damage": name,
        "found": "-" if is_harmless else f"{sum(not row['missed'] for row in rows)} of {len(rows)}",
        "lost": sum(row["lost"] for row in rows),
        "stock": ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items())) or "-",
    }


def conventions_table(result: Result) -> str:
    """One line per dataset and per model: how others read its documents; then what the hub's server said."""
    cards = {(row["kind"], row["card"]): row for row in result["cards"]}
    by_class = TableColumn("read", "card, by the hub's class")
    answer = TableColumn("answer", "by its server")
    datasets = [
        {
            **row,
            "sets": f"{len(row['read'])} of {len(row['record_sets'])}",
            **{each: len(row[each]) for each in ("errors", "warnings")},
            **_card_cells(cards["dataset", row["dataset"]]),
        }
        for row in result["datasets"]
    ]
    columns = [
        TableColumn("dataset", "dataset"),
        number("errors", "errors in `croissant.json`", "d"),
        number("warnings", "warnings", "d"),
        TableColumn("sets", "record sets read", align="right"),
        by_class,
        answer,
    ]
    models = [{**row, **_card_cells(row)} for row in result["cards"] if row["kind"] == "model"]
    figures = TableColumn("figures", "figures as evaluated", align="right")
    tables = [
        markdown_table(datasets, columns),
        markdown_table(models, [TableColumn("card", "model"), by_class, figures, answer]),
    ]
    return "\n\n".join([*tables, _server(result)])


def _card_cells(row: Mapping[str, Any]) -> dict[str, str]:
    right = (row["results"] or 0) - len(row.get("wrong", ()))
    figures = f"{right} of {row['results']}" if row["results"] is not None else "-"
    return {"figures": figures, "read": "refused" if row["error"] else "read", "answer": row["answer"] or "-"}


def _server(result: Result) -> str:
    """What read the documents, and whether the hub's server could be asked."""
    answers, cards = Counter(row["answer"] for row in result["cards"]), len(result["cards"])
    reasons = ", ".join(sorted({row["why"] for row in result["cards"] if row["answer"] == "unreachable"}))
    server = "the hub's server" if result["is_own_server"] else "a server other than the hub's own"
    said = f"accepted {answers['accepted']:,} of {cards:,} cards and refused {answers['refused']:,}"
    if answers["unreachable"] == cards:
        said = f"could not be reached from here ({reasons}), so it has not judged the {cards:,} cards"
    elif answers["unreachable"]:
        said += f"; it could not be reached for {answers['unreachable']:,} ({reasons})"
    return (
        f"Read by mlcroissant {result['mlcroissant']} and huggingface_hub {result['huggingface_hub']}. "
        f"`RepoCard.validate()` asks a server: {server} {said}."
    )


def lost_workloads_table(result: Result) -> str:
    """One line per operator: workloads that were rebuilt without their file, and how many traces replay on them."""
    total = {
        key: sum(row[key] for row in result["operators"]) for key in ("workloads", "kept", "records", "traces", "same")
    }
    rows = [*result["operators"], {"operator": "all", **total}]
    columns = [
        TableColumn("operator", "operator"),
        number("workloads", "workloads", ",d"),
        number("kept", "rebuilt", ",d"),
        number("records", "records", ",d"),
        number("traces", "different traces", ",d"),
        number("same", "replay as recorded", ",d"),
    ]
    left = [f"- left out: `{row['name']}`, {row['records']:,} records: {row['why']}." for row in result["left_out"]]
    compared = (
        f"The same code writes {result['templates_alike']:,} modules of other networks letter for letter, and "
        f"{result['templates_other']:,} otherwise."
    )
    joined = result.get("joined")
    gain = (
        "With them the device has {workloads:,} workloads and {rows:,} measurements, {ok:,} of which ran, instead of "
        "{workloads_before:,} and {rows_before:,}. The import refused {refused:,} records, those of the workloads left "
        "out, and met {duplicates:,} copies."
    )
    said = [compared, *([gain.format(**joined)] if joined else [])]
    return "\n\n".join([markdown_table(rows, columns), *(["\n".join(left)] if left else []), " ".join(said)])


def rows_table(result: Result) -> str:
    """What a row takes on every device, by column in all, and how long reading and writing take."""
    devices = [
        {
            "device": row["device"],
            "rows": row["rows"],
            **{side: sum(row[side].values()) for side in ("before", "after")},
        }
        for row in result["devices"]
    ]
    sides = (number("before", "version 2 (bytes a row)", ".1f"), number("after", "version 3", ".1f"))
    by_device = markdown_table(devices, [TableColumn("device", "device"), number("rows", "rows", ",d"), *sides])
    large = [row for row in result["columns"] if max(row["before"], row["after"]) >= 0.1]
    large.sort(key=lambda row: float(row["before"]), reverse=True)
    by_column = markdown_table(large, [TableColumn("column", "column"), *sides])
    timed = [row for row in result["scale"]["results"] if "before_s" in row]
    columns = [
        TableColumn("what", f"{result['scale']['rows']:,} rows"),
        number("before_s", "version 2 (s)", ".2f"),
        number("after_s", "version 3 (s)", ".2f"),
    ]
    return f"{by_device}\n\n{by_column}\n\n{markdown_table(timed, columns)}"


DATA_TABLES: dict[str, Callable[[Result], str]] = {
    "dataset": dataset_table,
    "rows": rows_table,
    "features": features_table,
    "cuts": cuts_table,
    "pull": pull_table,
    "agreement": agreement_table,
    "register_tiles": register_tiles_table,
    "old_databases": old_databases_table,
    "lost_workloads": lost_workloads_table,
    "doctor": doctor_table,
    "conventions": conventions_table,
}
"""Name of a result file without its suffix -> its renderer."""
