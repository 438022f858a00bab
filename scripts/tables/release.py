"""Tables of the checks before a release, of what the recipes of shipped models give, and of how they were chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.models.comparison import KERNELS, plus_minus

Result = Mapping[str, Any]

_RELEASE = (
    TableColumn("device", "device"),
    TableColumn("arch", "model"),
    number("workloads", "held-out workloads", "d"),
    *(number(name, name, ".3f") for name in ("top_1", "top_5", "pairwise")),
)


def release_table(result: Result) -> str:
    """One line per device and shipped model: figures on unseen workloads, and whether its card agrees."""
    columns = (*_RELEASE, TableColumn("equal", "as its card says"), number("mb", "MB", ".1f"))
    rows = [{**row, "mb": row["bytes"] / 1e6} for row in result["rows"]]
    return f"{markdown_table(rows, columns)}\n\n{_sizes(result)}"


def release_headline(result: Result) -> str:
    """One line per device: the model that its name stands for, and the other models."""
    archs: dict[str, list[str]] = {}
    for row in result["rows"]:
        archs.setdefault(row["device"], []).append(row["arch"])
    rows = [
        {**row, "others": ", ".join(arch for arch in archs[row["device"]] if arch != row["arch"]) or "-"}
        for row in result["rows"]
        if row["default"]
    ]
    return f"{markdown_table(rows, (*_RELEASE, TableColumn('others', 'others')))}\n\n{_sizes(result)}"


def _sizes(result: Result) -> str:
    sizes = {row["model"]: row["bytes"] / 1e6 for row in result["rows"]}
    devices = len({row["device"] for row in result["rows"]})
    return f"{len(sizes)} models for {devices} devices, {sum(sizes.values()):.1f} MB in all."


def package_table(result: Result) -> str:
    """One line per Python and kind of package: the cost of installing, and the first commands."""
    columns = [
        TableColumn("python", "Python"),
        TableColumn("package", "from"),
        number("install_s", "install (s)", ".0f"),
        number("gb", "environment (GB)", ".2f"),
        number("devices_s", "`devices` (s)", ".1f"),
        number("pull_s", "`pull` (s)", ".1f"),
        number("check_s", "`check` (s)", ".1f"),
        number("tune_s", "`tune`, 16 trials (s)", ".1f"),
        TableColumn("end", "end"),
    ]
    rows = [{**row, "gb": row["bytes"] / 1e9, "end": row["failed"] or "ok"} for row in result["rows"]]
    sizes = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in result["sizes"].items())
    return f"{markdown_table(rows, columns)}\n\n{sizes}."


def licences_table(result: Result) -> str:
    """One line per package that costhub needs, with the licence that its metadata declare."""
    columns = [TableColumn("name", "package"), TableColumn("version", "version"), TableColumn("licence", "licence")]
    return markdown_table(result["licences"], columns)


def reproduced_table(result: Result) -> str:
    """One line per model and metric: trained anew with another seed, beside the table's mean."""
    columns = [
        TableColumn("device", "device"),
        TableColumn("model", "model"),
        TableColumn("metric", "metric"),
        number("here", "trained anew", ".3f"),
        number("mean", "the table's", ".3f"),
        number("within", "99 % of seeds within ±", ".3f"),
        TableColumn("verdict", "verdict"),
    ]
    good, outside = (sum(row["verdict"] == v for row in result["rows"]) for v in ("ok", "outside"))
    verdict = f"{good} of {len(result['rows'])} figures are within the table's spread, {outside} outside."
    return f"{markdown_table(result['rows'], columns)}\n\n{verdict}"


def mutations_table(result: Result) -> str:
    """One line per wrong implementation: the first test that fails with it, or what happened instead."""
    columns = [
        TableColumn("algorithm", "algorithm"),
        TableColumn("wrong", "wrong implementation"),
        TableColumn("noticed", "first test that fails"),
    ]
    rows = [{**row, "noticed": _noticed(row)} for row in result["rows"]]
    noticed = sum(row["outcome"] == "noticed" for row in rows)
    total = f"{noticed} of {len(rows)} are noticed; without any of them, all tests pass."
    return f"{markdown_table(rows, columns)}\n\n{total}"


def _noticed(row: Mapping[str, Any]) -> str:
    return f"`{row['test'].partition('::')[2]}`" if row["outcome"] == "noticed" else f"**{row['outcome']}**"


def shipped_table(result: Result) -> str:
    """What training by each recipe costs; then, for each, a line per split and device: means over the seeds."""
    costs = [
        TableColumn("model", "model"),
        TableColumn("variant", "trained"),
        number("train_programs", "programs", ",d"),
        number("train_workloads", "workloads", "d"),
        number("seeds", "seeds", "d"),
        number("threads", "threads", "d"),
        number("train_s", "training (s)", ",.0f"),
        number("train_s_highest", "longest (s)", ",.0f"),
        number("mb", "MB", ".1f"),
        number("predictions_per_s", "programs scored / s", ",.0f"),
        number("with_features_per_s", "with their features / s", ",.0f"),
    ]
    parts = [markdown_table([{**row, "mb": row["bytes"] / 1e6} for row in result["training_summary"]], costs)]
    texts = ("top_1", "top_5", "pairwise")
    columns = [
        TableColumn("kernels", "held out"),
        TableColumn("device", "device"),
        number("workloads", "workloads", "d"),
        *(TableColumn(name, name.replace("_", "-"), align="right") for name in texts),
    ]
    for recipe in dict.fromkeys(map(_recipe, result["over_devices"])):
        lines = [
            {
                **row,
                "kernels": KERNELS.get(row["split"], f"`{row['split']}`"),
                **{name: plus_minus(row[name], row[f"{name}_std"]) for name in texts},
            }
            for row in _by_split(result, recipe)
        ]
        parts.append(f"**{recipe[0]}**, {recipe[1]}\n\n{markdown_table(lines, columns)}")
    seeds = "Means over the seeds; ± is the standard deviation over the seeds, in a mean of devices that of this mean."
    return "\n\n".join([*parts, seeds])


def _by_split(result: Result, recipe: tuple[str, str]) -> Iterator[Mapping[str, Any]]:
    """The devices of each split, and then their mean if there are several."""
    for whole in result["over_devices"]:
        if _recipe(whole) == recipe:
            yield from (row for row in result["summary"] if (_recipe(row), row["split"]) == (recipe, whole["split"]))
            if whole["devices"] > 1:
                yield {**whole, "device": f"mean of {whole['devices']} devices"}


def _recipe(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["model"], row["variant"]


def choices_table(result: Result) -> str:
    """One line per choice and figure that decides it: what validation chooses, and what testing makes of that.

    Then, per architecture, a line for all of its choices together.
    """
    parts = []
    for device, split in dict.fromkeys((row["device"], row["split"]) for row in result["choices"]):
        own, whole = (
            [row for row in result[key] if (row["device"], row["split"]) == (device, split)]
            for key in ("choices", "together")
        )
        sizes = f"{own[0]['workloads']} validation workloads (`{split}`), {own[0]['seeds']} seeds"
        title = f"**{device}**: {sizes}; tested on those of `{own[0]['tested']}`"
        total = [
            {
                **row,
                "metric": _NAMES[row["metric"]],
                "flattery_text": _signed(row["flattery"], row["flattery_se"]),
            }
            for row in whole
        ]
        parts += [title, markdown_table([_choice(row) for row in own], _CHOICES), markdown_table(total, _TOGETHER)]
    return "\n\n".join([*parts, _ERRORS])


_NAMES = {"pairwise": "pairs", "top_1": "top-1"}
_FLATTERY = TableColumn("flattery_text", "shipped less chosen", align="right")
_CHOICES = (
    TableColumn("choice", "choice"),
    TableColumn("metric", "decided by"),
    TableColumn("settings", "on validation workloads"),
    TableColumn("lead_text", "lead of the chosen over the shipped there", align="right"),
    TableColumn("shipped", "shipped"),
    number("tested_chosen", "chosen, tested"),
    number("tested_shipped", "shipped, tested"),
    _FLATTERY,
)
_TOGETHER = (
    TableColumn("model", "all choices of"),
    TableColumn("metric", "decided by"),
    number("choices", "choices", "d"),
    number("changed", "decided otherwise than shipped", "d"),
    _FLATTERY,
)
_ERRORS = (
    "Bold: what validation chooses. ± is the standard error over workloads of the difference; where it says unpaired, "
    "that of two independent means, which is too large. The sum of several choices assumes that they add up."
)


def _choice(row: Mapping[str, Any]) -> dict[str, Any]:
    named = ((f"**{name}**" if name == row["chosen"] else name, figure) for name, figure in row["validation"].items())
    is_same, note = row["chosen"] == row["shipped"], "" if row["paired"] else " (unpaired)"
    return {
        **row,
        "metric": _NAMES[row["metric"]],
        "settings": ", ".join(f"{name}: {figure:.3f}" for name, figure in named),
        "lead_text": None if is_same else _signed(row["lead"], row["lead_se"]),
        "flattery_text": None if is_same else _signed(row["flattery"], row["flattery_se"], note),
    }


def _signed(value: float | None, error: float | None, note: str = "") -> str | None:
    if value is None or error is None:
        return None if value is None else f"{value:+.3f}"
    return f"{value:+.3f} ± {error:.3f}{note}"


RELEASE_TABLES: dict[str, Callable[[Result], str]] = {
    "release": release_table,
    "release_headline": release_headline,
    "package": package_table,
    "package_licences": licences_table,
    "reproduced": reproduced_table,
    "mutations": mutations_table,
    "shipped": shipped_table,
    "model_choices": choices_table,
}
"""Name of a result file without its suffix, or of a view of one -> its renderer."""

RELEASE_VIEWS = {"package_licences": "package", "release_headline": "release"}
"""Name of a view -> the file whose figures it shows."""
