from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.spec import replay_schedules
from costhub.dataset.features.specs import SPECS, find_spec, spec_names
from costhub.dataset.workload import module_from_json
from costhub.errors import ArgumentError, UnknownNameError

COMPOSITE = "trace_tokens@1+per_store@1+loop_context@1"


@pytest.mark.parametrize("name", [*spec_names(), COMPOSITE])
def test_a_spec_names_each_of_its_columns(name: str) -> None:
    spec = find_spec(name)

    assert spec.name == name
    assert spec.width == len(spec.columns) == len(set(spec.columns))


@pytest.mark.parametrize("name", [*spec_names(), COMPOSITE])
def test_features_of_a_program_do_not_depend_on_the_others(name: str, tiny_matmul: Any) -> None:
    spec = find_spec(name)
    mod = module_from_json(tiny_matmul.module_json)
    traces = [*tiny_matmul.traces, "not json"]

    together = spec.extract(mod, traces, tiny_matmul.target)
    alone = [spec.extract(mod, [trace], tiny_matmul.target)[0] for trace in reversed(traces)][::-1]

    assert together[-1] is None
    assert alone[-1] is None
    for a, b in zip(together[:-1], alone[:-1], strict=True):
        assert a is not None
        assert b is not None
        assert (a.dtype, a.shape[1]) == (np.float32, spec.width)
        assert np.isfinite(a).all()
        assert np.array_equal(a, b)


@pytest.mark.parametrize("name", [*spec_names(), COMPOSITE])
def test_what_a_search_holds_has_the_features_of_its_trace(name: str, tiny_matmul: Any) -> None:
    from tvm.s_tir import meta_schedule as ms

    from costhub.dataset.workload import parse_target

    spec = find_spec(name)
    mod = module_from_json(tiny_matmul.module_json)
    schedules = replay_schedules(mod, tiny_matmul.traces, tiny_matmul.target)
    context = ms.TuneContext(mod, target=parse_target(tiny_matmul.target), num_threads=1)
    candidates = [ms.MeasureCandidate(schedule, []) for schedule in schedules]

    found = spec.extract_candidates(context, candidates)

    expected = spec.extract(mod, tiny_matmul.traces, tiny_matmul.target)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_the_hash_of_the_columns_tells_layouts_apart() -> None:
    hashes = {find_spec(name).columns_hash for name in spec_names()}

    assert len(hashes) == len(spec_names())
    # A file of features names it: it may only change with the version of the spec.
    assert find_spec("per_store@1").columns_hash == "440efcddf4e75d55"


def test_an_unknown_name_is_answered_with_close_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"no feature spec named 'per_stor@2'. Did you mean per_store@1") as e:
        find_spec("per_stor@2")
    assert e.value.close[0] == "per_store@1"


def test_a_simple_spec_is_its_only_part() -> None:
    spec = find_spec("relation@1")

    assert spec.parts == (spec,)


@pytest.mark.parametrize("name", ["per_store@1+relation@1", "relation@1+per_store@1"])
def test_a_composite_spec_is_found_by_the_names_of_its_parts(name: str) -> None:
    spec = find_spec(name)

    assert "+".join(part.name for part in spec.parts) == spec.name == name
    assert spec == find_spec(name)


@pytest.mark.parametrize("name", ["per_store@1+relatoin@1", "relatoin@1+relatoin@1"])
def test_an_unknown_part_is_answered_with_close_ones(name: str) -> None:
    with pytest.raises(UnknownNameError, match=r"named 'relatoin@1'. Did you mean relation@1") as e:
        find_spec(name)
    assert e.value.close[0] == "relation@1"


@pytest.mark.parametrize("name", ["", "+", "per_store@1+", "per_store@1 + relation@1"])
def test_a_name_with_something_between_the_parts_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError):
        find_spec(name)


def test_a_part_named_twice_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean per_store@1\+relation@1\?"):
        find_spec("per_store@1+relation@1+per_store@1")


def test_trace_tokens_and_the_search_for_specs_import_no_tvm() -> None:
    code = (
        "import sys; from costhub.dataset.features.specs import find_spec; "
        "rows, = find_spec('trace_tokens@1').extract(None, ['[[[\"EnterPostproc\",[],[],[]]],[]]'], ''); "
        "assert rows.shape[0] == 1; sys.exit('tvm' in sys.modules or 'tvm_ffi' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


MODULE = """
import numpy as np
from costhub.dataset.features.spec import FeatureSpec

def extract(mod, traces, target):
    return [np.full((1, 1), len(trace), np.float32) for trace in traces]

SPEC = FeatureSpec("characters@1", ("characters",), extract, lambda context, candidates: [], needs_tvm=False)
"""


def install(tmp_path: Path, name: str) -> None:
    """A package with the spec of MODULE, under a name."""
    (tmp_path / "costhub_characters.py").write_text(MODULE)
    metadata = tmp_path / "characters-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: characters\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[costhub.features]\n{name} = costhub_characters:SPEC\n")


def test_a_spec_with_two_names_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "characters@2")
    monkeypatch.syspath_prepend(tmp_path)
    vars(SPECS).pop("_added", None)
    try:
        with pytest.raises(ArgumentError, match="'characters@2' is called 'characters@1' in its own code"):
            find_spec("characters@2")
    finally:
        vars(SPECS).pop("_added", None)


def test_an_installed_package_adds_a_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "characters@1")
    monkeypatch.syspath_prepend(tmp_path)
    vars(SPECS).pop("_added", None)
    try:
        assert "characters@1" in spec_names()
        both = find_spec("characters@1+trace_tokens@1")
    finally:
        vars(SPECS).pop("_added", None)

    [rows] = both.extract(None, ['[[["EnterPostproc",[],[],[]]],[]]'], "")

    assert rows is not None
    assert rows[:, :2].tolist() == [[0, 33], [1, 14]]
