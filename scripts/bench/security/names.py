"""Hostile texts: names that a terminal or a browser would obey, and cards (kinds 42 to 45, 51 and 52)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from markdown_it import MarkdownIt

from scripts.bench.security import shards
from scripts.bench.security.attempt import Attempt, Expected, holds
from scripts.bench.security.data import ESCAPES, EVALUATE, on_data
from scripts.bench.security.place import MLP, Answer, Command, Place

FAMILY = "names and cards"
IMAGE = "<img src=x onerror=alert(1)>"
SCRIPT = "<script>alert(4321)</script>"


def reaches_terminal(place: Place, answer: Answer) -> str:
    """A harm: an escape of the hostile name is in what the terminal gets."""
    del place
    found = {c for c in answer.out + answer.err if c in "\x1b\x07\x9b\u202e\u2066" or (c < " " and c not in "\r\n\t")}
    return f"{sorted(found)} reached the terminal" if found else ""


def in_file(text: str, *names: str) -> Callable[[Place, Answer], str]:
    """A harm: a file or folder of the place holds a text as it stands."""

    def found(place: Place, answer: Answer) -> str:
        del answer
        paths = [place.folder / name for name in names]
        return next(
            (f"{path.name} holds {text!r}" for path in paths if path.exists() and holds(path, text.encode())), ""
        )

    return found


def in_reports(text: str) -> Callable[[Place, Answer], str]:
    """A harm: HTML of report.md, as CommonMark reads it, or report.html holds a text as it stands.

    A command in a block of code holds what was typed, letter by letter, and no program takes that for HTML.
    """
    in_page = in_file(text, "out/report.html")

    def found(place: Place, answer: Answer) -> str:
        report = place.folder / "out" / "report.md"
        if report.exists():
            shown = MarkdownIt("commonmark").enable("table").render(report.read_text(encoding="utf-8"))
            if text in shown:
                return f"report.md holds {text!r}"
        return in_page(place, answer)

    return found


def named(name: str) -> Callable[[Path], None]:
    """Calls a workload so."""
    return lambda folder: shards.change(folder, "workloads", name=name)


def device_described(text: str) -> Callable[[Path], None]:
    """Describes the device so."""
    return lambda folder: shards.change(folder, "devices", model_name=text, driver=text)


def _tuned_file(place: Place) -> Command:
    path = place.folder / f"{IMAGE}.json"
    path.write_text(shards.read(place.data(), "workloads")[0]["module_json"])
    return place.costhub("tune", path, "--trials", 2, "--model", "amd-epyc-zen5-2c", "--out", place.folder / "out")


_LONG = "a" * 501
TEXTS: tuple[tuple[str, str, Expected], ...] = (
    ("a script", SCRIPT, "refused"),
    ("an image with a handler", IMAGE, "refused"),
    ("a javascript: link", "[x](javascript:alert(1))", "refused"),
    ("a data: link", "[x](data:text/html;base64,PHNjcmlwdD4=)", "refused"),
    ("a picture from elsewhere", "![x](https://evil.example/x.png)", "refused"),
    ("a picture by reference", "![x][c]\n\n[c]: https://evil.example/x.png", "refused"),
    ("a mark that turns the text around", "safe \u202egnp.exe", "refused"),
    ("&#115; in javascript:", "[x](java&#115;cript:alert(1))", "refused"),
    ("&Tab; in javascript:", "[x](java&Tab;script:alert(1))", "refused"),
    ("&colon; after javascript", "[x](javascript&colon;alert(1))", "refused"),
    ("an autolink with &#115;", "<java&#115;cript:alert(1)>", "refused"),
    ("&#104; in a picture's address", "![x](&#104;ttps://evil.example/x.png)", "refused"),
    ("brackets within a picture's text", "![a [b] c](https://evil.example/x.png)", "refused"),
    ("an escaped bracket in a picture's text", "![a\\]b](https://evil.example/x.png)", "refused"),
    ("a line break in a picture's text", "![a\nb](https://evil.example/x.png)", "refused"),
    ("a picture's text of 501 letters", f"![{_LONG}](https://evil.example/x.png)", "refused"),
    ("a shortcut reference", "![x]\n\n[x]: https://evil.example/x.png", "refused"),
    ("a reference with nested brackets", "![a [b]][c]\n\n[c]: https://evil.example/x.png", "refused"),
    ("a file: link", "[x](file:///etc/passwd)", "refused"),
    ("HTML in a span of code, which is text", f"`{SCRIPT}`", "accepted"),
    ("HTML in a block of code, which is text", f"~~~ y\n{SCRIPT}\n~~~", "accepted"),
)
BLOCKS: tuple[tuple[str, str], ...] = (
    (
        "aliases that stand for gigabytes",
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b]",
    ),
    ("a tag that makes a Python object", "a: !!python/object/apply:os.system ['touch canary']"),
    ("lists nested 20,000 deep", "a: " + "[" * 20_000 + "]" * 20_000),
    ("a number of 200,000 digits", "a: " + "9" * 200_000),
    ("a number to the base 60", "a: " + "1:" * 60_000 + "1"),
    ("a date that no calendar has", "a: 2026-99-99"),
)


def dataset_card(body: str, block: str = "") -> Callable[[Place], Command]:
    """Publishes a data folder whose card ends with a text, or whose block has further lines; sends nothing."""

    def publish(place: Place) -> Command:
        folder = place.data()
        card = folder / "README.md"
        begin, end = card.read_text().split("\n---\n", 1)
        card.write_text(f"{begin}\n{block}\n---\n{end}\n\n{body}\n".replace("\n\n---\n", "\n---\n"), encoding="utf-8")
        (place.folder / "hub").mkdir()
        return place.costhub("publish", folder, "--to", place.folder / "hub", "--as", "a/d", "--dry-run")

    return publish


def model_card(block: str) -> Callable[[Place], Command]:
    """Checks a model whose card has further lines in its block of YAML."""

    def make(place: Place) -> Command:
        folder = place.model(MLP)
        card = folder / "README.md"
        card.write_text(card.read_text().replace("---\n", f"---\n{block}\n", 1), encoding="utf-8")
        (folder / "manifest.json").unlink()
        return place.costhub("check", folder)

    return make


def attempts() -> Iterator[Attempt]:
    """Kinds 42 to 45, 51 and 52."""
    both = f"{ESCAPES}{SCRIPT}"
    for kind, words in (("42a", "stats D"), ("42b", EVALUATE)):
        what = f"{words.split()[0]}, names with escapes for the terminal"
        yield Attempt(kind, FAMILY, what, on_data(words, named(both)), "either", harm=reaches_terminal)
    for kind, what, spoil in (
        ("43a", "check, a workload's name with escapes", named(ESCAPES)),
        ("43b", "check, a device's description with escapes", device_described(ESCAPES)),
        ("43c", "check, a workload's name with NUL", named("a\0b")),
        ("43d", "check, a session with escapes", lambda folder: shards.change(folder, session=ESCAPES)),
    ):
        yield Attempt(kind, FAMILY, what, on_data("check D", spoil), harm=reaches_terminal, quick=kind == "43a")
    page = in_file(SCRIPT, "out")
    yield Attempt("44", FAMILY, "stats --page, names that are HTML", on_data("stats D --page OUT", named(SCRIPT)),
                  "either", harm=page)  # fmt: skip
    what = "tune, a file whose name is HTML: report.html and report.md"
    yield Attempt("45", FAMILY, what, _tuned_file, "either", harm=in_reports(IMAGE),
                  limit_s=120)  # fmt: skip
    for letter, (what, block) in zip("abcdef", BLOCKS, strict=True):
        yield Attempt(f"51{letter}", FAMILY, f"check, a model's card with {what}", model_card(block))
    for letter, (what, text, expected) in zip("abcdefghijklmnopqrstu", TEXTS, strict=True):
        title = f"publish, a dataset's card with {what}"
        yield Attempt(f"52{letter}", FAMILY, title, dataset_card(text), expected, quick=letter in "ah")
