"""Renders single figures inside sentences, so that no page holds a figure that was typed.

A place is ``<!-- figure: CALL -->2 %<!-- end -->``, where CALL is a name of `FIGURES` and its arguments, quoted as in a
shell. A place may not begin a line: Markdown would take the whole line for HTML.
"""

from __future__ import annotations

import json
import re
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from costhub.errors import DataError
from costhub.hub.catalogue.hubs import EMBEDDED, folder_root, folders_in
from scripts.tables.gains import mean_with_error
from scripts.tables.networks import over_the_best
from scripts.tables.search import base_curves

FIGURE = re.compile(r"(<!-- figure: (?P<call>[^>\n]+) -->)[^\n]*?(<!-- end -->)")
_STEP = re.compile(r"([^.\[\]]+)((?:\[[^\]]*\])*)")
_FILTER = re.compile(r"\[(\w+)=([^\]]*)\]")
_RELEASED = {"0.1.0": "2026-11-23T14:57"}
"""Version -> when it was released, in UTC. The version stayed 0.1.0 until the release of 0.2.0, so only its date tells
whether a result is of 0.1.0. A version that `.dev0` follows needs no line."""


def fill_figures(text: str, results: Path) -> str:
    """`text` with each of its figures taken from the files in `results`.

    Raises:
        DataError: A place names no figure, its file lacks it, or the place begins a line.
    """
    if misplaced := re.search(r"^[ \t]*(?:[-*+>|]|\d+\.)?[ \t]*<!-- figure: [^>\n]*", text, re.MULTILINE):
        raise DataError(f"{misplaced[0]!r} begins a line, which Markdown then takes for HTML; put a word before it.")
    return FIGURE.sub(lambda match: f"{match[1]}{figure(match['call'], results)}{match[3]}", text)


def figure(call: str, results: Path) -> str:
    """One figure, as its sentence shows it."""
    name, *arguments = shlex.split(call)
    if name not in FIGURES:
        raise DataError(f"There is no figure named {name!r}; there are {', '.join(FIGURES)}.")
    try:
        return FIGURES[name](results, *arguments)
    except FileNotFoundError as error:
        raise DataError(f"{error.filename} is missing; a page shows figures of it.") from error
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise DataError(f"The figure {call!r} cannot be rendered: {error!r}.") from error


def read(results: Path, name: str) -> Any:
    """A result file, by its name without `.json`."""
    path = results / f"{name}.json"
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _read(path: Path, _: int) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def version_of(result: Mapping[str, Any]) -> str:
    """The costhub that made a result: its version, or that commits after this version were in it.

    Args:
        result: With `versions` and `date`, as `scripts.bench.common.machine.describe` writes them.

    Example:
        >>> version_of({"versions": {"costhub": "0.1.0"}, "date": "2026-11-23T14:55:09+00:00"})
        '0.1.0'
        >>> version_of({"versions": {"costhub": "0.1.0"}, "date": "2026-11-24T04:43:45+00:00"})
        '0.1.0 and later commits'
    """
    version = str(result["versions"]["costhub"])
    is_later = version in _RELEASED and result["date"] > _RELEASED[version]
    return f"{version} and later commits" if is_later else version


def value(results: Path, name: str, path: str, form: str) -> str:
    """Any number of a result file.

    Args:
        results: The folder of the files.
        name: The file, without `.json`.
        path: Keys joined by dots; ``rows[device=x][arch=gbt]`` is the only row with these values.
        form: A format of Python, or `share`, `more` or `less`: a share, or what a ratio is above or below 1, in %.
    """
    return shown(_number(results, name, path), form)


def difference(results: Path, name: str, path: str, less: str, form: str) -> str:
    """A number of a result file less another one; the arguments are those of `value`."""
    return shown(_number(results, name, path) - _number(results, name, less), form)


def ratio(results: Path, name: str, path: str, over: str, form: str) -> str:
    """A number of a result file over another one; the arguments are those of `value`."""
    return shown(_number(results, name, path) / _number(results, name, over), form)


def _number(results: Path, name: str, path: str) -> float:
    found = read(results, name)
    for key, filters in _STEP.findall(path):
        found = found[int(key) if isinstance(found, list) else key]
        for field, wanted in _FILTER.findall(filters):
            found = [row for row in found if str(row[field]) == wanted]
        if filters:
            (found,) = found
    return float(found)


def shown(number: float, form: str) -> str:
    """A number in one of the forms of `value`.

    Example:
        >>> shown(0.98, "share"), shown(1.159, "more"), shown(0.92, "less"), shown(0.8124, ".3f")
        ('98 %', '16 %', '8 %', '0.812')
    """
    if form in ("more", "less"):
        number = number - 1 if form == "more" else 1 - number
        if round(number, 2) < 0:
            raise ValueError(f"the sentence says {form}, and it is the other way round: {number:+.1%}")
    return f"{100 * number:.0f} %" if form in ("share", "more", "less") else format(number, form)


def behind(results: Path, name: str, method: str, trials: str) -> str:
    """By how many % the best program after so many trials is slower than stock's last, as a geometric mean."""
    return shown(statistics.geometric_mean(_against_base(results, name, method, int(trials), "best_us")), "more")


def time_share(results: Path, name: str, method: str, trials: str) -> str:
    """The mean seconds until so many trials, in % of those of stock's whole search."""
    rows = _searches(results, name, method)
    bases = base_curves(_rows(results, name))
    own = statistics.fmean(_at(row["curve"], int(trials))["seconds"] for row in rows)
    return shown(own / statistics.fmean(bases[row["workload"], row["seed"]][-1]["seconds"] for row in rows), "share")


def searches(results: Path, name: str, method: str) -> str:
    """The number of searches of a method beside which stock searched as well."""
    return str(len(_searches(results, name, method)))


def _against_base(results: Path, name: str, method: str, trials: int, key: str) -> list[float]:
    bases = base_curves(_rows(results, name))
    return [
        _at(row["curve"], trials)[key] / bases[row["workload"], row["seed"]][-1][key]
        for row in _searches(results, name, method)
    ]


def _rows(results: Path, name: str) -> Sequence[Mapping[str, Any]]:
    rows: Sequence[Mapping[str, Any]] = read(results, name)["rows"]
    return rows


def _searches(results: Path, name: str, method: str) -> list[Mapping[str, Any]]:
    bases = base_curves(_rows(results, name))
    own = [row for row in _rows(results, name) if row["method"] == method]
    return [row for row in own if (row["workload"], row["seed"]) in bases]


def _at(curve: Sequence[Mapping[str, Any]], trials: int) -> Mapping[str, Any]:
    return next(point for point in curve if point["trials"] == trials)


def trial_seconds(results: Path, end: str) -> str:
    """The seconds of `costhub tune` for each trial of a kernel, from its start to its exit.

    Args:
        results: The folder of the files.
        end: `least`, `median` or `most`.
    """
    rows = [row for row in _rows(results, "network_seconds") if row["command"] == "tune" and not row["error"]]
    each = [row["seconds"] / (row["kernels"] * row["trials"]) for row in rows]
    ends = {"least": min(each), "median": statistics.median(each), "most": max(each)}
    return f"{ends[end]:.2f}"


def standing(results: Path, name: str, what: str, engine: str = "costhub") -> str:
    """How costhub stands beside other engines, see `over_the_best`.

    Args:
        results: The folder of the files.
        name: A result file of the benchmark `engines`.
        what: The number of `networks`, on how many of them it is `fastest`, or the `worst` it is behind, in %.
        engine: ``costhub`` in float32, or ``costhub-bf16``.
    """
    rows = _rows(results, name)
    own = [row for row in rows if row["engine"] == engine and row.get("latency")]
    ratios = [over_the_best(row, [each for each in rows if each["network"] == row["network"]]) for row in own]
    counts = {"networks": len(ratios), "fastest": sum(ratio <= 1.0 for ratio in ratios)}
    return str(counts[what]) if what in counts else shown({"worst": max(ratios)}[what], "more")


def collection_hours(results: Path, rows: str, end: str) -> str:
    """The hours that so many good rows take at the rates of the collections: the `least`, `median` or `most`."""
    files = sorted(results.glob("collection*.json"))
    rates = [row["profile"]["good_per_s"] for path in files for row in _rows(results, path.stem)]
    chosen = {"least": max(rates), "median": statistics.median(rates), "most": min(rates)}
    return f"{int(rows) / chosen[end] / 3600:.0f}"


def network_ratio(results: Path, network: str, over: str, under: str, form: str) -> str:
    """The latency of one form of a network over that of another, each a median over searches.

    Args:
        results: The folder of the files.
        network: As the results name it.
        over: A library, as `torch`, or ``METHOD@TRIALS``.
        under: The same.
        form: As `value` has it.
    """
    return shown(_network_us(results, network, over) / _network_us(results, network, under), form)


def _network_us(results: Path, network: str, what: str) -> float:
    method, _, trials = what.partition("@")
    rows = [row for row in _rows(results, "networks_tuned") if row["network"] == network and not row["error"]]
    if trials:
        rows = [row for row in rows if (row["method"], row["trials"]) == (method, int(trials))]
    form = "tuned" if trials else what
    return float(statistics.median(row["latencies"][form]["median_us"] for row in rows))


def ceiling(results: Path, target: str, metric: str = "pairwise") -> str:
    """The figure of a model that learned from all programs of a target, in the table of transfers from the AMD."""
    rows = [
        row
        for row in read(results, "transfer")["summary"]
        if (row["source"], row["target"], row["method"], row["part"])
        == ("amd-epyc-zen5-2c", target, "all of the target", "")
    ]
    return shown(sum(row[metric] * row["seeds"] for row in rows) / sum(row["seeds"] for row in rows), ".3f")


def environment(results: Path, build: str, key: str = "gb") -> str:
    """What an installation takes: the `cpu` or the `cuda` build of torch; its `gb`, or its `seconds`."""
    rows = [row for row in _rows(results, "package") if row["package"] == "whl"]
    row = (min if build == "cpu" else max)(rows, key=lambda row: row["bytes"])
    return f"{row['bytes'] / 1e9:.1f} GB" if key == "gb" else f"{row['install_s']:.0f} s"


def wheel(results: Path) -> str:
    """The size of the wheel."""
    (size,) = [size for name, size in read(results, "package")["sizes"].items() if name.endswith(".whl")]
    return f"{size / 1e6:.0f} MB"


def shipped_difference(results: Path, metric: str) -> str:
    """The shipped model of any CPU less the blend of the AMD's devices in the tables, on `amd-epyc-zen5-2c`."""
    device = "amd-epyc-zen5-2c"
    lines = (results / "models.jsonl").read_text(encoding="utf-8").splitlines()
    table: dict[str, list[float]] = {}
    for row in map(json.loads, lines):
        if (row["device"], row["model"], row["variant"]) == (device, "conditioned", "all devices, blend"):
            for workload, figure_of in zip(row["workload_ids"], row["by_workload"][metric], strict=True):
                table.setdefault(workload, []).append(figure_of)
    card = json.loads((EMBEDDED / "models/costhub/any-cpu-conditioned/evaluation.json").read_text(encoding="utf-8"))
    own = {row["workload_id"][:12]: row[metric] for row in card["workloads"] if row["device_id"] == device}
    mean, error = mean_with_error([own[workload] - statistics.fmean(seeds) for workload, seeds in table.items()])
    return f"{mean:+.3f} ± {error:.3f}"


def shipped(_: Path, what: str, *names: str) -> str:
    """What the package holds: `measurements`, `workloads`, `devices` or `models`, of all datasets or the named ones."""
    if what == "models":
        return str(len(list(folders_in(folder_root(EMBEDDED), what))))
    return f"{count(what, *names):,}"


def count(what: str, *names: str) -> int:
    """The rows of a table in the embedded datasets, or the devices with measurements.

    Args:
        what: `measurements`, `workloads` (distinct ones), `measured` (those of them with measurements) or `devices`.
        names: Datasets; all if there are none.
    """
    places = folders_in(folder_root(EMBEDDED), "datasets")
    folders = [folder for folder in places if folder.name in (names or (folder.name,))]
    if what == "devices":
        return len({device.name for folder in folders for device in (folder / "measurements").iterdir()})
    where = "measurements" if what == "measured" else what
    shards = [shard for folder in folders for shard in sorted((folder / where).rglob("*.parquet"))]
    if what in ("workloads", "measured"):
        return len({each for shard in shards for each in pq.read_table(shard, columns=["workload_id"])[0].to_pylist()})
    return sum(pq.read_metadata(shard).num_rows for shard in shards)


FIGURES: dict[str, Callable[..., str]] = {
    "behind": behind,
    "ceiling": ceiling,
    "collection_hours": collection_hours,
    "difference": difference,
    "environment": environment,
    "network_ratio": network_ratio,
    "ratio": ratio,
    "searches": searches,
    "shipped": shipped,
    "shipped_difference": shipped_difference,
    "standing": standing,
    "time_share": time_share,
    "trial_seconds": trial_seconds,
    "value": value,
    "wheel": wheel,
}
"""Name -> what renders it from the folder of the results and the arguments of its place."""
