"""Provides link: makes shared libraries from the object files of programs, for this machine or another one."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import Any

from costhub.errors import MeasureError

# Common names and LLVM's names for the same instruction sets.
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


def link_command(triple: str | None, objects: Sequence[str], library: str) -> list[str]:
    """The command that links object files of a TVM program into a shared library.

    The linker itself is called, not the C compiler, which takes four times as long for the same result
    (2.5 ms against 12 ms here): a TVM program needs none of C's start-up files. It may need libm, which
    every process that loads it has: Python and TVM's own server are linked with it.

    Args:
        triple: The target's ``mtriple``, such as ``aarch64-linux-gnu``; None for this machine.
        objects: Paths of the object files.
        library: Path of the library to write.

    Raises:
        MeasureError: No linker here supports that machine.

    Example:
        >>> link_command(None, ["program.o"], "program.so")
        ['ld', '-shared', '--eh-frame-hdr', '-o', 'program.so', 'program.o']
    """
    linker = _linker(triple)
    if linker is None:
        if triple is None or is_this_machine(triple):
            raise MeasureError("No linker for this machine was found: expected ld on the PATH. Install binutils.")
        raise MeasureError(
            f"No linker for {triple} was found: expected {' or '.join(_foreign_linkers(triple))} on the PATH. Install "
            "one (in Debian for ARM: binutils-aarch64-linux-gnu, or lld), or measure on boards that have a C "
            "compiler and can link the programs themselves."
        )
    # Exceptions thrown in functions called by a program can pass through it only with an index of its frames.
    return [linker, "-shared", "--eh-frame-hdr", "-o", library, *objects]


def link(triple: str | None, objects: Sequence[str], library: str, options: Sequence[str] = ()) -> None:
    """Links object files as `link_command` says.

    Raises:
        MeasureError: No linker here supports that machine, or the linker fails; the error holds what it printed.
    """
    command = [*link_command(triple, objects, library), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasureError(f"{command[0]} could not link the program: {done.stderr.strip()}")


def export_linked(module: Any, library: str, triple: str | None = None) -> None:
    """Writes a runtime module of TVM as a shared library; TVM would call a C++ compiler, which needs more than `ld`.

    Args:
        module: A ``tvm.runtime.Module`` or ``Executable``.
        library: The file to write.
        triple: The machine that its host code is for; None for this one.

    Raises:
        MeasureError: As for `link`.
    """

    def linked(path: str, objects: Sequence[str], options: Sequence[str] = ()) -> None:
        link(triple, objects, path, options)

    module.export_library(library, fcompile=linked)


def can_link(triple: str | None) -> bool:
    """Whether there is a linker for `triple` here; otherwise the board must link the object file.

    Example:
        >>> can_link("vax-dec-ultrix")
        False
    """
    return _linker(triple) is not None


@cache
def _linker(triple: str | None) -> str | None:
    if triple is None or is_this_machine(triple):
        return shutil.which("ld") and "ld"
    return next((name for name in _foreign_linkers(triple) if shutil.which(name)), None)


def is_this_machine(triple: str) -> bool:
    """Whether this machine runs code built for `triple`; its processor may still lack some instructions.

    Example:
        >>> is_this_machine("vax-dec-ultrix")
        False
    """
    return _architecture(triple) == _architecture(platform.machine()) and "linux" in triple


def _architecture(name: str) -> str:
    first = name.split("-", maxsplit=1)[0].lower()
    return ARCHITECTURES.get(first, first)


_PLAIN_TRIPLE = re.compile(r"[A-Za-z0-9._+-]+")
"""A slash would make a path of the linker's name, to a file in the current folder."""


def _foreign_linkers(triple: str) -> list[str]:
    """GNU's cross linker under its Debian name, then LLVM's, which supports every machine that Linux runs on.

    Debian's names have no vendor, while triples may have any: ``aarch64-conda-linux-gnu`` in TVM's wheel for ARM.
    """
    if not _PLAIN_TRIPLE.fullmatch(triple):
        return []
    if "linux" not in triple:
        return [f"{triple}-ld"]
    system = triple[triple.index("linux") :]
    return [f"{_architecture(triple)}-{system}-ld", "ld.lld"]
