from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from costhub.errors import DataError, UnknownNameError
from costhub.hub.sources.catalogue import FORMATS, find_sources, load_sources

SOURCE = {"name": "a/b", "folder": "results/a", "device": "cpu0", "rows": 3, "rows_from": "records"}
REPOSITORY = {
    "repository": "https://example.org/a/b",
    "revision": "0" * 40,
    "licence": "MIT",
    "contributor": "a/b",
    "format": "metaschedule",
}


def write(place: Path, *, source: dict[str, Any] | None = None, repository: dict[str, Any] | None = None) -> Path:
    content = {
        "version": 1,
        "repositories": [{**REPOSITORY, **(repository or {}), "sources": [{**SOURCE, **(source or {})}]}],
    }
    path = place / "sources.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_the_catalogue_that_comes_with_costhub() -> None:
    sources = load_sources()

    assert {source.format for source in sources} == set(FORMATS)
    assert all(source.repository.startswith("https://github.com/") for source in sources)
    assert all(bool(source.rows) == bool(source.rows_from) for source in sources)
    assert len({(source.repository, source.revision, source.folder) for source in sources}) == len(sources)
    roller = "Roller: Fast and Efficient Tensor Compilation for Deep Learning (OSDI 2022)"
    assert {source.contributor: source.paper for source in sources if source.paper} == {"microsoft/nnfusion": roller}


def test_a_source_has_what_its_repository_says(tmp_path: Path) -> None:
    [source] = load_sources(write(tmp_path))

    assert (source.name, source.licence, source.rows, source.tvm) == ("a/b", "MIT", 3, "")


def test_patterns_find_several_and_slips_are_named() -> None:
    sources = load_sources()

    assert {source.device for source in find_sources("bennu/a64fx-*", sources)} == {"fujitsu-a64fx"}
    with pytest.raises(UnknownNameError, match="Did you mean bennu/a64fx-resnet"):
        find_sources("bennu/a64fx-resnet81", sources)


@pytest.mark.parametrize(
    "change",
    [
        {"repository": "ext::sh -c id"},
        {"repository": "--upload-pack=id"},
        {"repository": "ssh://host/a"},
        {"repository": "https://user:secret@host/a"},
        {"repository": "https://host/a b"},
        {"repository": "https://host/../../a"},
        {"repository": 7},
        {"revision": "main"},
        {"revision": "--all"},
        {"licence": ""},
        {"licence": "MIT\x1b[31m"},
        {"contributor": None},
        {"format": "pickle"},
        {"paper": 7},
        {"unheard": 1},
    ],
)
def test_what_no_repository_has_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not accepted|cannot be read"):
        load_sources(write(tmp_path, repository=change))


@pytest.mark.parametrize(
    "change",
    [
        {"folder": "../etc"},
        {"folder": "/etc"},
        {"folder": "a//b"},
        {"folder": ":(glob)**"},
        {"folder": "-a"},
        {"folder": ".git"},
        {"device": "../x"},
        {"name": "no-slash"},
        {"name": "A/../b"},
        {"rows": -1},
        {"rows": True},
        {"rows": "many"},
    ],
)
def test_what_no_source_has_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    if change.get("folder") == "-a":
        assert load_sources(write(tmp_path, source=change))  # harmless: it comes behind `--`
        return
    with pytest.raises(DataError, match="is not accepted"):
        load_sources(write(tmp_path, source=change))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: &a [x]\nb: *a", "uses aliases"),
        ("a: !!python/object/apply:os.system [id]", "cannot be read as YAML"),
        ("[" * 1000 + "]" * 1000, "cannot be read as YAML"),
        ("a: [", "cannot be read as YAML"),
        ("[" * 4_000_000, "cannot be read as YAML: a catalogue has at most"),
        ("- a\n" * 160_000, "cannot be read as YAML: a catalogue has at most"),
        ("[]", "is not a catalogue"),
        ("{version: 1}", "is not a catalogue"),
        ("{version: 9, repositories: []}", "Update costhub"),
        ("repositories: [7]", "without a list of sources"),
        ("repositories: [{sources: [7]}]", "a source that is not a map"),
        ("\x80", "cannot be read as YAML"),
    ],
)
def test_other_files_are_a_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "sources.yaml"
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(DataError, match=sentence):
        load_sources(path)


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path)
    content = yaml.safe_load(path.read_text())
    content["repositories"] *= 2
    path.write_text(yaml.dump(content, Dumper=type("Plain", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})))

    with pytest.raises(DataError, match="names a/b twice"):
        load_sources(path)
