"""Programs that fail in ten ways, each a TIR module that is treated like any other program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ARGUMENTS = (("float32", (64,)), ("float32", (64,)))


@dataclass(frozen=True)
class Planted:
    """One way to fail, and how a collector must report it."""

    function: Any
    """The ``tirx.PrimFunc``, of ARGUMENTS; a right one would double its input."""
    status: str
    words: str
    """A regular expression that the error must match."""

    @property
    def module_json(self) -> str:
        """As the builder takes it."""
        import tvm

        module = tvm.IRModule({"main": self.function.with_attr("global_symbol", "main")})
        return str(tvm.ir.save_json(module))


def right() -> Any:
    """The program that all of them should compute."""
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            with T.sblock("b"):
                v = T.axis.spatial(64, i)
                b[v] = a[v] * T.float32(2)

    return function


def planted() -> dict[str, Planted]:
    """All kinds by name."""
    return {
        "segmentation fault": Planted(_stray(), "run_error", "SIGSEGV"),
        "endless loop": Planted(_endless(), "run_timeout", "killed after"),
        "endless build": Planted(_long(), "build_timeout", "killed after"),
        "out of memory at run": Planted(_greedy(), "run_error", "memory limit"),
        "out of memory at build": Planted(_vast(), "build_error", "memory limit"),
        "illegal instruction": Planted(_trap(), "run_error", "SIGILL"),
        "does not compile": Planted(_misused(), "build_error", "Check failed"),
        "wrong output": Planted(_tripled(), "wrong_output", "argument 1 differs"),
        "abort": Planted(_calling("abort"), "run_error", "SIGABRT"),
        "exit": Planted(_calling("exit", 3), "run_error", "exit code 3"),
    }


def _stray() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            b[T.Cast("int64", i) + T.int64(1 << 42)] = a[i] * T.float32(2)

    return function


def _endless() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        while a[0] > T.float32(0):
            b[0] = b[0] + a[0]

    return function


def _long() -> Any:
    """Six million statements, all the same one: TVM walks over them for minutes, in little memory."""
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        for _ in T.unroll(2500):
            for _ in T.unroll(2500):
                b[0] = b[0] * a[0]

    return function


def _vast() -> Any:
    """Code that does not fit into memory."""
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        for i in T.unroll(100000000):
            b[i % 64] = b[i % 64] * a[(i * 7) % 64] + a[(i * i) % 64]

    return function


def _greedy() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        c = T.alloc_buffer((1 << 34,), "float32")
        for i in range(1 << 34):
            c[i] = a[i % 64]
        for i in range(64):
            b[i] = c[T.Cast("int64", i) * T.int64(1 << 28)]

    return function


def _trap() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        T.evaluate(T.call_llvm_intrin("void", "llvm.trap"))

    return function


def _misused() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        T.evaluate(T.call_intrin("int32", "tirx.tvm_mma_sync", a.data))

    return function


def _tripled() -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        for i in range(64):
            b[i] = a[i] * T.float32(3)

    return function


def _calling(name: str, *arguments: int) -> Any:
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def function(a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32")) -> None:
        T.evaluate(T.call_extern("int32", name, *arguments))

    return function
