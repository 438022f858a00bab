"""Provides load_intrinsics: the tensor intrinsics of one kind of target, without TVM's 14-second import.

Importing ``tvm.s_tir.tensor_intrin`` parses the TVMScript of every CUDA, ROCm, Metal, Hexagon and RISC-V
intrinsic. TVM imports that package itself when a TuneContext is made; a package object put in its place
beforehand lets only the submodules of the wanted target be parsed (about 1 s for CPUs).
"""

from __future__ import annotations

import importlib
import os
import sys
import types

from costhub.dataset.vnni import register_vnni

PACKAGE = "tvm.s_tir.tensor_intrin"

# x86 and ARM go together: TVM's CPU schedule rules for either name intrinsics of their own module only, and
# both are cheap. Kinds that are not listed get the whole package, as TVM would do.
MODULES_OF_KIND = {"llvm": ("x86", "arm_cpu"), "c": ("x86", "arm_cpu"), "cuda": ("cuda",)}


def load_intrinsics(target_kind: str) -> None:
    """Registers the tensor intrinsics that schedules for `target_kind` (``"llvm"``, ``"cuda"``, …) may name.

    TVM's VNNI intrinsic is corrected on the way (`costhub.dataset.vnni`). Safe to call again, and for several
    kinds in turn.

    Example:
        >>> load_intrinsics("llvm")
    """
    import tvm

    modules = MODULES_OF_KIND.get(target_kind)
    if modules is None:
        _import_whole_package()
        register_vnni()
        return
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = [os.path.join(os.path.dirname(tvm.__file__), "s_tir", "tensor_intrin")]
        sys.modules[PACKAGE] = package
    for name in modules:
        importlib.import_module(f"{PACKAGE}.{name}")
    if "x86" in modules:
        register_vnni()


def names_intrinsics(trace_json: str) -> bool:
    """Whether a schedule trace may name tensor intrinsics; most do not, and need not wait for their parsing.

    Example:
        >>> names_intrinsics('[[["Tensorize",["b0"],["dot_4x4",1],[]]],[]]'), names_intrinsics("[[],[]]")
        (True, False)
    """
    return "ensorize" in trace_json  # the instruction Tensorize, or the annotation auto_tensorize


def _import_whole_package() -> None:
    loaded = sys.modules.get(PACKAGE)
    if loaded is None or not hasattr(loaded, "__file__") or loaded.__file__ is None:
        # The stand-in's submodules stay in sys.modules, so nothing is registered twice.
        sys.modules.pop(PACKAGE, None)
        importlib.import_module(PACKAGE)
