"""Renders the pages of reference from the code: commands, options of architectures, variables and exit codes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.cli.main import EXIT_CODES, GROUPS
from costhub.files import CACHE_VARIABLE
from costhub.hub.catalogue.hubs import HUB_VARIABLE
from costhub.hub.contribute import CONTRIBUTE_VARIABLE
from costhub.models.architectures import ARCHITECTURES, options_of
from costhub.models.options import describe_options
from scripts.release.tvm_names import AREAS, FUNCTION, OTHER, area_of, used_names

VARIABLES = {
    CACHE_VARIABLE: "Folder of pulled models, of computed features, of the figures of `costhub probe`, and "
    "of what `costhub doctor` found out; by default `~/.cache/costhub`.",
    HUB_VARIABLE: "A shared folder laid out like a hub: its devices, models and datasets precede the embedded ones.",
    CONTRIBUTE_VARIABLE: "Where `costhub contribute` sends without `--to`.",
    "HF_HUB_OFFLINE": "With `1`, nothing is fetched: the embedded hub and what was downloaded before still work.",
    "HF_ENDPOINT": "Another server than the Hugging Face hub, such as a mirror.",
    "HF_TOKEN": "Your token of the Hugging Face hub; `hf auth login` stores one instead.",
    "TVM_BIND_THREADS": "0 keeps TVM from binding its threads to the CPUs from 0 up, in a service without costhub.",
    "TVM_NUM_THREADS": "Threads of a network that TVM runs; searches set it themselves for what they time.",
    "TMPDIR": "Folder for builds and for the trees of a streamed training.",
    "_COSTHUB_COMPLETE": "Set by the line that turns on the completion of a shell, see [commands](commands.md).",
}
"""Environment variable -> what it changes. Those of costhub's own are all here, as a test says."""

_OPTIONS = (
    TableColumn("option", "option"),
    TableColumn("meaning", "meaning"),
    TableColumn("default", "default"),
)


_TVM = (
    TableColumn("area", "part of TVM"),
    number("names", "names", "d"),
    TableColumn("stages", "used by"),
    TableColumn("most", "names that most files use"),
)


def tvm_table() -> str:
    """One line for each part of TVM: how many of its names costhub uses, and which stages do."""
    used = used_names()
    lines = []
    for area in dict.fromkeys([*AREAS.values(), OTHER]):
        own = {name: files for name, files in used.items() if area_of(name) == area}
        stages = sorted({file.split("/")[0] for files in own.values() for file in files})
        most = sorted(own, key=lambda name: (-len(own[name]), name))[:4]
        if own:
            shown = ", ".join(f"`{name.removeprefix(FUNCTION)}` ({len(own[name])})" for name in most)
            lines.append({"area": area, "names": len(own), "stages": ", ".join(stages), "most": shown})
    return markdown_table(lines, _TVM)


def commands_text() -> str:
    """Every command: its usage, its help, its options and its examples."""
    return "\n\n".join(_groups())


def _groups() -> Iterator[str]:
    for title, verbs in GROUPS.items():
        yield f"## {title}"
        for verb, (module, _) in verbs.items():
            yield from _command(import_module(module).command, f"costhub {verb}", "###")


def _command(command: click.Command, path: str, heading: str) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield f"{heading} {path.removeprefix('costhub ')}"
    yield "```text\n" + " ".join([path, *command.collect_usage_pieces(context)]) + "\n```"
    yield _paragraphs(command.help or "")
    nested = command.commands if isinstance(command, click.Group) else {}
    rows = [_row(option, context) for option in command.params if isinstance(option, click.Option)]
    if not nested:
        yield markdown_table([row for row in rows if row], _OPTIONS)
    yield "```sh\n" + _examples(command.epilog or "") + "\n```"
    for name in sorted(nested):
        yield from _command(nested[name], f"{path} {name}", f"{heading}#")


def _paragraphs(text: str) -> str:
    """The help of a command as Markdown: names in capitals are what the usage line names."""
    paragraphs = [" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n")]
    text = "\n\n".join(paragraphs)
    return re.sub(r"(`[^`]*`)|(?<!\w)(--[a-z][a-z-]*)", lambda found: found[1] or f"`{found[2]}`", text)


def _row(option: click.Option, context: click.Context) -> dict[str, str] | None:
    if option.hidden:
        return None
    value = "" if option.is_flag and not option.secondary_opts else option.make_metavar(context)
    extra = option.get_help_extra(context)
    facts = [extra.get("default", ""), f"({extra['range']})" if "range" in extra else ""]
    if "required" in extra:
        facts = ["required"]
    return {
        "option": " ".join(
            filter(None, [", ".join(f"`{name}`" for name in option.opts), f"`{value}`" if value else ""])
        ),
        "meaning": _paragraphs(option.help or ""),
        "default": " ".join(filter(None, facts)),
    }


def _examples(epilog: str) -> str:
    lines = epilog.replace("\b", "").strip().splitlines()[1:]
    return "\n".join(line.removeprefix("  ") for line in lines)


def options_text() -> str:
    """Every architecture: what it is, what it reads, and its options."""
    return "\n\n".join(part for arch in ARCHITECTURES for part in _architecture(arch))


def _architecture(arch: str) -> Iterator[str]:
    kind = ARCHITECTURES[arch]
    yield f"## {arch}"
    first = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
    yield f"{' '.join(first.split())} Reads `{kind.default_spec}` unless `--features` names another spec."
    options = options_of(arch)
    described = [] if options is None else describe_options(type(options))
    rows = [{"name": f"`{each.name}`", "default": _value(each.default), "meaning": each.meaning} for each in described]
    columns = (TableColumn("name", "option"), TableColumn("meaning", "meaning"), TableColumn("default", "default"))
    yield markdown_table(rows, columns)


def _value(value: Any) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value != "" else ""


def variables_text() -> str:
    """Every environment variable that changes what costhub does."""
    rows = [{"name": f"`{name}`", "meaning": meaning} for name, meaning in VARIABLES.items()]
    return markdown_table(rows, (TableColumn("name", "variable"), TableColumn("meaning", "meaning")))


def exit_codes_text() -> str:
    """Every exit code."""
    rows = [{"code": str(code), "meaning": meaning} for code, meaning in EXIT_CODES.items()]
    return markdown_table(rows, (TableColumn("code", "exit code"), TableColumn("meaning", "meaning")))


def mistakes_table(result: Mapping[str, Any]) -> str:
    """One table for each group of mistakes, after the counts of all."""
    found = result["summary"]
    lead = (
        f"{found['right']} of {found['mistakes']} answers are good; {found['heavy']} loaded TVM, PyTorch or XGBoost, "
        f"and {found['accepted']} mistakes were accepted. Median {found['median_cpu_s']:.2f} s of CPU time, "
        f"{found['most_cpu_s']:.2f} s at most."
    )
    columns = (
        TableColumn("words", "`costhub` ..."),
        TableColumn("answer", "answer"),
        number("code", "exit code", "d"),
        number("cpu_s", "CPU (s)", ".2f"),
    )
    parts = [lead]
    for about in dict.fromkeys(row["about"] for row in result["rows"]):
        rows = [
            {**row, "words": f"`{row['words']}`", "answer": row["answer"].removeprefix("costhub: ")}
            for row in result["rows"]
            if row["about"] == about
        ]
        parts.append(f"## {about[0].upper()}{about[1:]}\n\n{markdown_table(rows, columns)}")
    return "\n\n".join(parts)


def mistakes_before_table(result: Mapping[str, Any]) -> str:
    """The counts of the same mistakes in another version."""
    found = result["summary"]
    return (
        f"In 0.1.0, {found['accepted']} of them were accepted and {found['heavy']} loaded TVM, PyTorch or XGBoost; "
        f"median {found['median_cpu_s']:.2f} s of CPU time, {found['most_cpu_s']:.1f} s at most."
    )


def newest_tvm_text(result: Mapping[str, Any]) -> str:
    """What another TVM has of the names that costhub uses, and one line for each that it lacks."""
    version, missing = result["tvm"], result["missing"]
    pinned = result["versions"]["tvm"]
    about = []
    if version == result["newest"]:
        about.append("the newest that pip offered on that day")
    if version == pinned:
        about.append("the one that costhub was tested with")
    named = f"TVM {version}, {' and '.join(about)}," if about else f"TVM {version}"
    has = result["used"] - len(missing)
    said = f"Tried on {result['date'][:10]}: {named} has {has:,} of {result['used']:,} names that costhub uses."
    rows = [{"name": f"`{name}`", "files": ", ".join(f"`{file}`" for file in files)} for name, files in missing.items()]
    columns = (TableColumn("name", "missing"), TableColumn("files", "used by"))
    return "\n\n".join([said, *([markdown_table(rows, columns)] if rows else [])])


def _rendered(text: Callable[[], str]) -> Callable[[Path], str]:
    return lambda _: text()


REFERENCE_TABLES: dict[str, Callable[[Path], str]] = {
    "reference_commands": _rendered(commands_text),
    "reference_options": _rendered(options_text),
    "reference_variables": _rendered(variables_text),
    "reference_exit_codes": _rendered(exit_codes_text),
    "reference_tvm": _rendered(tvm_table),
}
"""Name of a place -> its renderer, which needs no results."""

MISTAKE_TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "mistakes": mistakes_table,
    "mistakes_before": mistakes_before_table,
    "newest_tvm": newest_tvm_text,
}
"""Name of a result file without its suffix -> its renderer."""
