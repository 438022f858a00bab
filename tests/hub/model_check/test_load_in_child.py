from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costhub.errors import ModelError
from costhub.hub.model_check import model_gate
from costhub.hub.model_check.model_gate import find_problem, load_in_child
from costhub.isolation.child import ChildDied, ChildTimeout


def test_a_sound_model_loads_in_the_child(sound_model: Any) -> None:
    load_in_child(sound_model("gbt"))


def test_a_class_that_there_is_not_is_named(sound_model: Any) -> None:
    path = sound_model("gbt") / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "arch": "os.system"}))

    assert "'os.system', which this costhub lacks" in find_problem(str(path.parent))


def test_trees_cut_short_end_in_a_sentence(sound_model: Any) -> None:
    path = sound_model("gbt") / "model.ubj"
    path.write_bytes(path.read_bytes()[:5000])

    with pytest.raises(ModelError, match=r"cannot be read as an XGBoost model|crashed its process"):
        load_in_child(path.parent)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [(ChildDied("x"), "crashed its process"), (ChildTimeout("x"), "took more than 120 s")],
)
def test_what_brings_the_child_down_is_a_sentence(
    error: Exception, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying:
        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> Dying:
            return self

        def __exit__(self, *_: object) -> None: ...

        def call(self, function: object, folder: str, *, timeout_s: float) -> str:
            raise error

    monkeypatch.setattr(model_gate, "Child", Dying)

    with pytest.raises(ModelError, match=sentence):
        load_in_child(tmp_path)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("inside a parser")])
def test_whatever_a_parser_raises_is_a_sentence(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: str) -> None:
        raise error

    monkeypatch.setattr(model_gate, "load_model", fail)

    assert find_problem("x").endswith(".")
