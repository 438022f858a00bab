"""Reading assembly: instructions, chains of dependence, loops and how often they run."""

from __future__ import annotations

import textwrap

import pytest

from costhub.dataset.features.assembly import (
    FAMILIES,
    UNKNOWN_TRIPS,
    Instruction,
    Loop,
    chain_cycles,
    functions,
    loops,
    parse,
)


def code(text: str) -> list[Instruction]:
    return [parse(line.strip()) for line in textwrap.dedent(text).strip().splitlines()]


def found_loops(text: str) -> list[Loop]:
    """The loops of a kernel whose body is the text, from the outermost to the innermost."""
    lines = [line if line.endswith(":") else f"\t{line}" for line in textwrap.dedent(text).strip().splitlines()]
    (function,) = functions("\n".join(["main_compute_:", *lines]))
    return loops(function)[1:]


@pytest.mark.parametrize(
    ("line", "family"),
    [
        ("vfmadd231ps (%rdi), %ymm1, %ymm2", "fma"),
        ("vfnmadd213sd %xmm0, %xmm1, %xmm2", "fma"),
        ("vmulps %ymm0, %ymm1, %ymm2", "multiply"),
        ("vaddss 4(%rax), %xmm0, %xmm0", "add"),
        ("vsubps %ymm0, %ymm1, %ymm2", "add"),
        ("vdivps %ymm0, %ymm1, %ymm2", "divide"),
        ("vmaxps %ymm0, %ymm1, %ymm2", "compare"),
        ("vcvtdq2ps %ymm0, %ymm0", "convert"),
        ("vbroadcastss (%rax), %ymm0", "shuffle"),
        ("vextractf128 $1, %ymm0, %xmm1", "shuffle"),
        ("vpermps %ymm0, %ymm1, %ymm2", "shuffle"),
        ("vgatherdps %ymm2, (%rax,%ymm1,4), %ymm0", "gather"),
        ("vpdpbusd %zmm0, %zmm1, %zmm2", "integer_multiply"),
        ("vpaddd %ymm0, %ymm1, %ymm2", "integer"),
        ("vxorps %xmm0, %xmm0, %xmm0", "bits"),
        ("vmovups %ymm0, 32(%rsp)", "move"),
        ("movq %rax, %rbx", "move"),
        ("leaq (%rax,%rbx,4), %rcx", "address"),
        ("addq $64, %rax", "scalar"),
        ("imulq %rax, %rbx", "scalar"),
        ("callq expf@PLT", "call"),
        ("jne .LBB0_1", "branch"),
        ("retq", "branch"),
    ],
)
def test_an_instruction_is_of_the_family_of_its_name(line: str, family: str) -> None:
    assert parse(line).family == family
    assert family in FAMILIES


@pytest.mark.parametrize(
    ("line", "loads", "stores", "on_stack"),
    [
        ("vmovups 64(%rdi,%rax,4), %ymm0", True, False, False),
        ("vmovups %ymm0, 64(%rdi,%rax,4)", False, True, False),
        ("vmovaps %ymm0, -32(%rsp)", False, True, True),
        ("vfmadd213ps (%r11,%r12), %ymm1, %ymm9", True, False, False),
        ("vaddps 32(%rbp), %ymm1, %ymm9", True, False, True),
        ("addq $8, 16(%rsp)", True, True, True),
        ("cmpq $8, 16(%rsp)", True, False, True),
        ("leaq 64(%rsp), %rax", False, False, False),
        ("vmovaps %ymm0, %ymm1", False, False, False),
        ("vbroadcastss .LCPI0_1(%rip), %ymm1", True, False, False),
        ("vextractf128 $1, %ymm0, (%rax)", False, True, False),
        ("jmp *(%rax)", False, False, False),
    ],
)
def test_what_an_instruction_does_with_memory(line: str, loads: bool, stores: bool, on_stack: bool) -> None:
    instruction = parse(line)

    assert (instruction.loads, instruction.stores, instruction.on_stack) == (loads, stores, on_stack)


@pytest.mark.parametrize(
    ("line", "flop"),
    [
        ("vfmadd231ps %zmm0, %zmm1, %zmm2", 32.0),
        ("vfmadd231pd %ymm0, %ymm1, %ymm2", 8.0),
        ("vmulps %xmm0, %xmm1, %xmm2", 4.0),
        ("vaddss %xmm0, %xmm1, %xmm2", 1.0),
        ("vmovups %ymm0, %ymm1", 0.0),
        ("addq $1, %rax", 0.0),
    ],
)
def test_operations_are_counted_by_lane(line: str, flop: float) -> None:
    assert parse(line).flop == flop


def test_registers_of_all_widths_are_one() -> None:
    assert parse("addl %eax, %r8d").reads == {"a", "r8"}
    assert parse("vaddps %ymm3, %zmm4, %xmm5").reads == {"v3", "v4"}
    assert parse("vaddps %ymm3, %zmm4, %xmm5").writes == "v5"


def test_a_register_that_is_cleared_depends_on_nothing() -> None:
    assert parse("vxorps %xmm0, %xmm0, %xmm0").reads == frozenset()
    assert parse("xorl %eax, %eax").reads == frozenset()


def test_sums_in_one_register_wait_for_each_other() -> None:
    one = code("vaddps (%rax), %ymm0, %ymm0\nvaddps 32(%rax), %ymm0, %ymm0")
    two = code("vaddps (%rax), %ymm0, %ymm0\nvaddps 32(%rax), %ymm1, %ymm1")

    assert chain_cycles(one) == 2 * chain_cycles(two) > 0


def test_the_bound_of_a_loop_is_what_it_does_most() -> None:
    fmas = [f"vfmadd231ps %ymm14, %ymm15, %ymm{n}" for n in range(12)]
    stores = [f"vmovups %ymm{n}, {32 * n}(%rax)" for n in range(12)]
    reads = [f"vmovups {32 * n}(%rax), %ymm{n}" for n in range(12)]
    (much,), (written,), (read,) = (
        found_loops("\n".join([".LBB0_1:", *body, "jne .LBB0_1"])) for body in (fmas, stores, reads)
    )

    assert much.cycles == 6.0  # two in a cycle, and no chain is longer than that
    assert written.cycles == 12.0
    assert read.cycles == 6.0


@pytest.mark.parametrize(
    ("text", "trips"),
    [
        ("xorl %eax, %eax\n.LBB0_1:\nvaddps %ymm0, %ymm1, %ymm1\naddq $64, %rax\ncmpq $1024, %rax\njne .LBB0_1", 16),
        ("movl $8, %eax\n.LBB0_1:\nvaddps %ymm0, %ymm1, %ymm1\ndecq %rax\njne .LBB0_1", 8),
        ("movq $-4096, %rax\n.LBB0_1:\nvaddps %ymm0, %ymm1, %ymm1\naddq $32, %rax\njne .LBB0_1", 128),
        ("xorl %eax, %eax\n.LBB0_1:\nincq %rax\nvaddps %ymm0, %ymm1, %ymm1\ncmpq $7, %rax\njb .LBB0_1", 7),
        (".LBB0_1:\nvaddps %ymm0, %ymm1, %ymm1\nincq %rax\ncmpq %rbx, %rax\njne .LBB0_1", UNKNOWN_TRIPS),
        (".LBB0_1:\nvaddps %ymm0, %ymm1, %ymm1\ndecq %rax\njne .LBB0_1", UNKNOWN_TRIPS),
        (".LBB0_1:\nvaddps %ymm0, %ymm1, %ymm1\njmp .LBB0_1", UNKNOWN_TRIPS),
    ],
)
def test_trips_stand_in_the_test_of_a_counter(text: str, trips: float) -> None:
    (loop,) = found_loops(text)

    assert loop.trips == trips


def test_an_inner_loop_runs_as_often_as_all_loops_around_it() -> None:
    outer, inner = found_loops(
        """
        xorl %eax, %eax
        .LBB0_1:
        vmovups (%rdi), %ymm0
        xorl %ebx, %ebx
        .LBB0_2:
        vfmadd231ps (%rsi), %ymm1, %ymm0
        addq $4, %rbx
        cmpq $256, %rbx
        jne .LBB0_2
        vmovups %ymm0, (%rdi)
        incq %rax
        cmpq $10, %rax
        jne .LBB0_1
        """
    )

    assert (outer.depth, outer.times, inner.depth, inner.times) == (1, 10.0, 2, 640.0)
    assert [i.name for i in outer.own] == ["vmovups", "xorl", "vmovups", "incq", "cmpq", "jne"]


def test_only_what_computes_is_read() -> None:
    text = (
        "__tvm_ffi_main:\n\tpushq %rbx\nmain_compute_:\n\t.cfi_startproc\n\tretq # the end\n.L__tvm_parallel_lambda:\n"
    )
    text += ".LBB1_1:\n\tnop\n__truncsfhf2:\n\tretq\n"

    assert [(f.name, len(f.body)) for f in functions(text)] == [("main_compute_", 1), (".L__tvm_parallel_lambda", 1)]


def test_nothing_is_no_function() -> None:
    assert list(functions("")) == []
