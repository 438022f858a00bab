"""The pages of docs/: links lead somewhere, commands and options exist, and what is said to run does."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from costhub.cli.main import VERBS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
MOST_FRONT_LINES = 80
# Addresses that a page gives as an example of one to fill in.
PLACEHOLDERS = {"...", "VERB", "help", "version"}

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
# After a prompt, settings, or what starts it there or elsewhere.
COMMAND = re.compile(r"\s*(?:\$ |.*--no-python |ssh .* |\.venv/bin/|[A-Z_]+=\S+ )*costhub(?= )")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
RUNS = re.compile(r"<!-- runs -->\n```python\n(.*?)```", re.DOTALL)
SHOWN = re.compile(r"<!-- shown -->\n```console\n\$ (costhub [^\n]+)\n(.*?)```", re.DOTALL)
SESSIONS = [(page, *found) for page in PAGES for found in SHOWN.findall(page.read_text(encoding="utf-8"))]
EXAMPLES = [(page, code) for page in PAGES for code in RUNS.findall(page.read_text(encoding="utf-8"))]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(path: Path) -> str:
    """The text without code."""
    return SPAN.sub("", FENCE.sub("", path.read_text(encoding="utf-8")))


def anchors(path: Path) -> set[str]:
    """What a link may name after #: the headings as code hosts and the site write them."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} +(.+)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def links(path: Path) -> list[str]:
    return [link for link in LINK.findall(prose(path)) if not link.startswith(("http://", "https://"))]


def dead(path: Path) -> Iterator[str]:
    for link in links(path):
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and (target.suffix != ".md" or anchor not in anchors(target))):
            yield link


def commands(path: Path) -> Iterator[list[str]]:
    """The words after `costhub` of every command that the text shows."""
    text = path.read_text(encoding="utf-8")
    shown = [code for kind, code in FENCE.findall(text) if kind in ("bash", "sh", "console", "")]
    rest = FENCE.sub("", text)
    shown += re.findall(r"^ {4}.*$", rest, re.MULTILINE)
    lines = [line for code in shown for line in code.replace("\\\n", " ").splitlines()]
    lines += [span for span in SPAN.findall(rest) if span.startswith("costhub ")]
    for line in lines:
        start = re.match(r"(?:\s*(?:\$ |.*--no-python |ssh .* |\.venv/bin/|[A-Z_]+=\S+ ))*\s*costhub(?= )", line)
        if start:
            # What an example says beside it, or pipes into, is no part of the command.
            words = re.split(r"\s{2,}|(?:^|\s)\|\s", line[start.end() :].strip())[0]
            if words:
                yield shlex.split(words, comments=True)


def wrong(words: list[str]) -> str | None:
    """What a command names that there is not."""
    verb, rest = words[0].rstrip(","), words[1:]
    if verb.startswith("-") or verb in PLACEHOLDERS:
        return None
    if verb not in VERBS:
        return verb
    command: click.Command = importlib.import_module(VERBS[verb][0]).command
    if isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            return rest[0]
        command, rest = command.commands[rest[0]], rest[1:]
    known = {"--help", "-h"}.union(*(each.opts + each.secondary_opts for each in command.params))
    given = [word.partition("=")[0].rstrip(",") for word in rest if re.match(r"--?[a-z]", word)]
    return next((option for option in given if option not in known), None)


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_every_link_leads_somewhere(path: Path) -> None:
    assert list(dead(path)) == []


def test_every_page_is_in_the_navigation_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r": (\S+\.md)$", nav, re.MULTILINE)

    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_commands_and_their_options_exist(path: Path) -> None:
    assert [(words, what) for words in commands(path) if (what := wrong(words))] == []


def test_commands_are_found_in_every_form() -> None:
    found = {words[0] for path in TEXTS for words in commands(path)}

    assert set(VERBS) - found == set(), "a verb that no page shows"
    assert wrong(["train", "--tracker", "here"]) == "--tracker"
    assert wrong(["tine"]) == "tine"
    assert wrong(["board", "tune"]) == "tune"


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    spans = {span for path in TEXTS for span in SPAN.findall(path.read_text(encoding="utf-8"))}
    named = {word for span in spans if span.startswith("make ") for word in span.split()[1:]}

    assert named <= targets


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_python_blocks_parse_and_import_what_there_is(path: Path) -> None:
    for kind, code in FENCE.findall(path.read_text(encoding="utf-8")):
        assert kind != "python" or list(absent(code)) == []


@pytest.mark.parametrize("path", sorted((ROOT / "scripts").rglob("*.py")), ids=name)
def test_scripts_import_what_there_is(path: Path) -> None:
    assert list(absent(path.read_text(encoding="utf-8"))) == []


def absent(code: str) -> Iterator[str]:
    """What the code imports from costhub that is not there."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("costhub"):
            module = importlib.import_module(node.module or "")
            found = {alias.name: f"{module.__name__}.{alias.name}" for alias in node.names}
            yield from (own for own, path in found.items() if not (hasattr(module, own) or is_module(path)))


def is_module(path: str) -> bool:
    """Whether there is such a module, imported or not."""
    try:
        return importlib.util.find_spec(path) is not None
    except ModuleNotFoundError:  # its parent is no package
        return False


def test_the_front_page_has_at_most_80_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MOST_FRONT_LINES


def test_there_are_examples_to_run() -> None:
    assert len(EXAMPLES) >= 5
    assert len(SESSIONS) >= 2


@pytest.mark.parametrize(("page", "code"), EXAMPLES, ids=[name(page) for page, _ in EXAMPLES])
def test_what_is_marked_to_run_runs(page: Path, code: str, tmp_path: Path) -> None:
    printed = output(code, tmp_path)

    # A comment after the last line is what it prints.
    said = re.search(r"^# (.+)\s*\Z", code, re.MULTILINE)
    assert said is None or printed.strip() == said[1]


@pytest.mark.parametrize(("page", "line", "shown"), SESSIONS, ids=[line for _, line, _ in SESSIONS])
def test_what_is_shown_of_a_command_is_what_it_prints(page: Path, line: str, shown: str, tmp_path: Path) -> None:
    code = f"from costhub.cli.main import run; raise SystemExit(run({shlex.split(line)[1:]!r}))"

    printed = output(code, tmp_path, errors_too=True).replace(str(tmp_path), "~/.cache")

    assert anywhere(printed) == anywhere(shown)


@pytest.mark.parametrize("page", sorted({page for page, _, _ in SESSIONS}), ids=name)
def test_a_revision_to_request_is_one_that_the_page_shows(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    shown = set(re.findall(r"^revision ([0-9a-f]{12})$", text, re.MULTILINE))

    assert set(re.findall(r"`[\w./-]+@([0-9a-f]{12})`", text)) <= shown


def output(code: str, place: Path, *, errors_too: bool = False) -> str:
    """What Python code prints in a process of its own, without a network; on stderr too, as a terminal shows it."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "COSTHUB_CACHE": str(place / "costhub"),
        "HF_HUB_OFFLINE": "1",
    }
    environment.pop("COSTHUB_HUB", None)
    done = subprocess.run(
        [sys.executable, "-u", "-c", code],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors_too else subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


def anywhere(printed: str) -> list[str]:
    """The lines without what depends on the machine."""
    lines = [line.removesuffix("<- this machine").rstrip() for line in printed.splitlines()]
    return [line for line in lines if line and not line.startswith(("This machine is", "`--device` also takes"))]


def test_the_site_drops_links_out_of_the_docs_and_keeps_the_others() -> None:
    spec = importlib.util.spec_from_file_location("docs_hook", ROOT / "scripts/docs_hook.py")
    assert spec
    assert spec.loader
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    page = SimpleNamespace(file=SimpleNamespace(src_uri="adr/0008-tiles.md"))

    text = hook.on_page_markdown("[a](../../src/x.py), [b](../models.md#c), ![d](../results/e.png)", page=page)

    assert text == "a, [b](../models.md#c), ![d](../results/e.png)"
