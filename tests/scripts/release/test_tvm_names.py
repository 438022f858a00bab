"""What costhub uses of TVM: found in the code, and looked for in a TVM."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.release import tvm_names
from scripts.release.tvm_names import FUNCTION, area_of, missing_in, names_in, used_names

SOURCE = '''
from __future__ import annotations
import numpy as np
import tvm
import tvm.relax.frontend.torch
from tvm.s_tir import meta_schedule as ms

def f(mod: tvm.IRModule) -> None:
    """tvm.not.in.texts"""
    from tvm.ir import load_json as load
    ms.database.JSONDatabase(work_dir=".").get_all()
    np.linalg.norm(load(mod))
    tvm.get_global_func("runtime.config_threadpool")(1)
'''


def test_imports_attributes_and_functions_are_found_and_nothing_else() -> None:
    assert names_in(SOURCE) == {
        "tvm.s_tir.meta_schedule",
        "tvm.IRModule",
        "tvm.ir.load_json",
        "tvm.s_tir.meta_schedule.database.JSONDatabase",
        "tvm.get_global_func",
        f"{FUNCTION}runtime.config_threadpool",
    }


def test_the_code_uses_what_it_is_known_to_use() -> None:
    used = used_names()

    assert len(used) > 100
    assert used[f"{FUNCTION}runtime.config_threadpool"] == [
        "collector/run/runner.py",
        "search/whole_network/tuned_network.py",
    ]
    assert area_of("tvm.s_tir.meta_schedule.Database").startswith("MetaSchedule")
    assert area_of("tvm.cpu") == "Everything else"


@pytest.mark.slow
def test_this_tvm_has_everything_and_what_it_lacks_is_named() -> None:
    version, missing = missing_in(sys.executable, [*used_names(), "tvm.relay.Function", f"{FUNCTION}no.such.thing"])

    assert version.startswith("0.27")
    assert missing == ["tvm.relay.Function", f"{FUNCTION}no.such.thing"]


OTHER = """#!{python}
import json, sys
names = json.load(sys.stdin)
print(json.dumps({{"version": "0.99", "missing": [name for name in names if name == "tvm.te.compute"]}}))
"""
"""Stands for the interpreter of an environment with another TVM."""


def other_python(folder: Path) -> str:
    path = folder / "python"
    path.write_text(OTHER.format(python=sys.executable))
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_what_another_tvm_lacks_is_written_with_where_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tvm_names, "newest_known", lambda *, pre: "0.99" if pre else "0.98")

    words = ["--python", other_python(tmp_path), "--json", str(tmp_path / "found.json")]
    done = CliRunner().invoke(tvm_names.main, words)

    found = json.loads((tmp_path / "found.json").read_text())
    used = used_names()
    assert done.exit_code == 1
    assert (found["tvm"], found["used"], found["newest"]) == ("0.99", len(used), "0.99")
    assert found["missing"] == {"tvm.te.compute": used["tvm.te.compute"]}
    assert f"TVM 0.99 has {len(used) - 1} of the {len(used)} names" in done.output


def test_without_a_file_to_write_pip_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tvm_names, "newest_known", None)

    assert CliRunner().invoke(tvm_names.main, ["--python", other_python(tmp_path)]).exit_code == 1


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("apache-tvm (0.28.0)\nAvailable versions: 0.28.0, 0.27.0.post1\n  INSTALLED: 0.27.0.post1\n", "0.28.0"),
        ("", None),
    ],
)
def test_the_newest_is_what_pip_names_first(
    printed: str, expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = tmp_path / "python"
    pip.write_text(f"#!{sys.executable}\nimport sys\nassert '--pre' in sys.argv\nprint({printed!r})\n")
    pip.chmod(0o755)
    monkeypatch.setattr(tvm_names.sys, "executable", str(pip))

    assert tvm_names.newest_known(pre=True) == expected
