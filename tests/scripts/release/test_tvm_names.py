"""What costhub uses of TVM: found in the code, and looked for in a TVM."""

from __future__ import annotations

import sys

import pytest

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
