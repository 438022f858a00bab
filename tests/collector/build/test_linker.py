"""The linker: real objects of TVM's, linked and run, for this machine; for another as far as tools go."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.collector.build.linker import _foreign_linkers, can_link, link, link_command
from costhub.errors import MeasureError

AARCH64 = "aarch64-linux-gnu"
EM_AARCH64 = 183  # elf.h
NO_LINKER = "nothing here links for aarch64"

MakeObject = Callable[[dict[str, Any]], Path]


@pytest.fixture
def make_object(tmp_path: Path) -> MakeObject:
    def make(target: dict[str, Any]) -> Path:
        import tvm
        from tvm import te

        a = te.placeholder((64,), name="A")
        # The error function is a call into libm; a fused exponential would be code of TVM's own.
        b = te.compute((64,), lambda i: te.erf(a[i]), name="B")
        module = tvm.IRModule({"main": te.create_prim_func([a, b]).with_attr("global_symbol", "main")})
        path = tmp_path / "program.o"
        tvm.tirx.build(module, target=tvm.target.Target(target)).write_to_file(str(path))
        return path

    return make


def machine(path: Path) -> int:
    """The ELF header's e_machine."""
    content = path.read_bytes()
    assert content[:4] == b"\x7fELF"
    number: int = struct.unpack_from("<H", content, 18)[0]
    return number


def test_a_program_for_this_machine_runs_and_finds_the_functions_of_libm(
    make_object: MakeObject, tmp_path: Path
) -> None:
    import tvm

    library = tmp_path / "program.so"
    command = link_command(None, [str(make_object({"kind": "llvm"}))], str(library))
    subprocess.run(command, check=True)

    values = tvm.runtime.tensor(np.full(64, 0.5, "float32"))
    result = tvm.runtime.tensor(np.zeros(64, "float32"))
    tvm.runtime.load_module(str(library))["main"](values, result)
    np.testing.assert_allclose(result.numpy(), 0.5204999, rtol=1e-5)


def test_the_triple_of_this_machine_takes_the_linker_of_this_machine() -> None:
    import tvm

    triple = str(tvm.target.codegen.llvm_get_system_triple())
    assert link_command(triple, ["a.o"], "a.so") == link_command(None, ["a.o"], "a.so")


def test_tvm_makes_objects_for_another_machine(make_object: MakeObject) -> None:
    target = {"kind": "llvm", "mtriple": AARCH64, "mcpu": "cortex-a72", "num-cores": 4}
    assert machine(make_object(target)) == EM_AARCH64


@pytest.mark.skipif(not can_link(AARCH64), reason=NO_LINKER)
def test_a_library_for_another_machine_says_so_in_its_header(make_object: MakeObject, tmp_path: Path) -> None:
    target = {"kind": "llvm", "mtriple": AARCH64, "mcpu": "cortex-a72", "num-cores": 4}
    library = tmp_path / "program.so"
    subprocess.run(link_command(AARCH64, [str(make_object(target))], str(library)), check=True)
    assert machine(library) == EM_AARCH64


def test_what_the_linker_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    (tmp_path / "no.o").write_text("no object")
    with pytest.raises(MeasureError, match=r"ld could not link the program: .*no\.o"):
        link(None, [str(tmp_path / "no.o")], str(tmp_path / "no.so"))


def test_a_machine_without_a_linker_is_refused_with_what_is_missing() -> None:
    assert not can_link("vax-dec-ultrix")
    with pytest.raises(MeasureError, match="vax-dec-ultrix-ld"):
        link_command("vax-dec-ultrix", ["a.o"], "a.so")


@pytest.mark.parametrize(
    "triple", ["aarch64-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-conda-linux-gnu", "arm64-linux-gnu"]
)
def test_the_linker_of_debian_serves_whatever_vendor_a_triple_names(triple: str) -> None:
    assert _foreign_linkers(triple) == ["aarch64-linux-gnu-ld", "ld.lld"]


def test_a_triple_with_a_path_names_no_linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device of a hub may have any triple, and the current folder any file."""
    linker = tmp_path / "aarch64-x" / "evil-ld"
    linker.parent.mkdir()
    linker.write_text("#!/bin/sh\n")
    linker.chmod(0o755)
    monkeypatch.chdir(tmp_path)

    assert not can_link("aarch64-x/evil")
