"""Reads what LLVM made of a kernel: the loops of its assembly, what each does, and how often.

The text is that of x86 in AT&T syntax, destinations last, as TVM's ``inspect_source("asm")`` gives it. Nothing is
executed. TVM's loops have constant extents, so that most trip counts stand in the code, as the bound of a counter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

UNKNOWN_TRIPS = 1.0
"""Of loops whose bound is in a register, such as the iterations that one task of a parallel loop gets."""
MOST_TRIPS = 1e9
_ROUNDS = 3

_LABEL = re.compile(r"^(?P<name>[.\w$@]+):")
_MEMORY = re.compile(r"^(%\w+:)?[-\w.+@$]*\([^)]*\)|^%\w+:|^[.\w]+@|^\.?L")
_REGISTER = re.compile(r"%(\w+)")
_LOCAL = re.compile(r"\.L(BB|tmp|func_|CPI|JTI|\d)\w*")
"""Labels inside a function."""
_KERNEL = re.compile(r"_compute_$|__tvm_parallel_lambda")
"""What TVM calls the functions that compute: the kernel, and what its parallel loops hand to the threads."""
_MASK = re.compile(r"\{[^}]*\}")
_OF_FLOATS = re.compile(r"(ps|pd|ss|sd|ph|sh)$")
_FAMILIES = (
    ("fma", re.compile(r"v?fn?m(add|sub)\w*")),
    ("divide", re.compile(r"v?(div|sqrt|rcp|rsqrt)\w*[ps][sdh]|v?(rcp|rsqrt)\w*")),
    ("multiply", re.compile(r"v?mul[ps][sdh]")),
    ("add", re.compile(r"v?(addsub|add|sub|hadd|hsub)[ps][sdh]")),
    ("compare", re.compile(r"v?(max|min|u?comi|cmp\w*)[ps][sdh]|v?round\w+|vrndscale\w+|v?blendv?p[sd]|v?p?blend\w+")),
    ("integer_multiply", re.compile(r"v?p(mul|madd|dp)\w+")),
    ("gather", re.compile(r"vp?(gather|scatter)\w+")),
    ("convert", re.compile(r"v?cvt\w+|vp?movm2\w+|v?pmov[sz]x\w+")),
    (
        "shuffle",
        re.compile(
            r"v?(perm|shuf|unpck|insert|extract|pshuf|palign|valign|pack|punpck|p?broadcast|pinsr|pextr|movsh|movsl|"
            r"movddup|movhlps|movlhps|expand|compress)\w*|vp(perm|shuf|unpck|insert|extract|broadcast)\w*"
        ),
    ),
    ("bits", re.compile(r"v?(and|andn|or|xor)p[sd]|v?p(and|or|xor|sll|srl|sra|tern|cmp|test|max|min|abs|sign)\w*")),
    ("integer", re.compile(r"v?p(add|sub|avg|sad)\w*")),
    ("move", re.compile(r"v?(mov|lddqu|maskmov)\w*|k?mov\w*|cmov\w+|set\w+|c[lwdq]t\w+|push\w*|pop\w*")),
    ("address", re.compile(r"lea\w?")),
    ("call", re.compile(r"call\w?")),
    ("branch", re.compile(r"j\w+|ret\w?")),
)
"""Family of instructions -> their names, the first that fits; all others are `scalar`."""
FAMILIES = (*(name for name, _ in _FAMILIES), "scalar")
_LATENCY = {"fma": 4, "multiply": 4, "add": 3, "divide": 12, "compare": 2, "convert": 4, "gather": 12, "shuffle": 2}
_LATENCY |= {"integer_multiply": 4, "move": 0}
_LOAD_LATENCY = 5
_FLOAT_UNITS = ("fma", "multiply", "add", "divide", "compare", "convert", "integer_multiply")


@dataclass(frozen=True)
class Instruction:
    """One instruction."""

    name: str
    operands: tuple[str, ...]
    """As written, destinations last."""

    @cached_property
    def family(self) -> str:
        """A name of `FAMILIES`."""
        return family_of(self.name)

    @cached_property
    def memory(self) -> int | None:
        """The place of the operand in memory; None without one, and for addresses that are only computed."""
        if self.family in ("address", "call", "branch"):
            return None
        return next((place for place, text in enumerate(self.operands) if _MEMORY.match(text)), None)

    @cached_property
    def stores(self) -> bool:
        """Whether it writes to memory."""
        is_last = self.memory is not None and self.memory == len(self.operands) - 1
        return is_last and not self.name.startswith(("cmp", "test", "vucomi", "ucomi"))

    @cached_property
    def loads(self) -> bool:
        """Whether it reads from memory."""
        moves = self.family in ("move", "shuffle", "gather") or self.name.startswith("vcvtps2ph")
        return self.memory is not None and not (self.stores and moves)

    @cached_property
    def on_stack(self) -> bool:
        """Whether its memory is relative to the stack or frame pointer: a spilled register, or a local buffer."""
        return self.memory is not None and bool({"rsp", "rbp"} & set(_REGISTER.findall(self.operands[self.memory])))

    @cached_property
    def width(self) -> int:
        """Bytes of the widest vector register, 4 for an instruction on one float, 0 for others."""
        text = "".join(self.operands)
        if self.name.endswith(("ss", "sh")):
            return 4
        if self.name.endswith("sd") and _OF_FLOATS.search(self.name):
            return 8
        return next((size for word, size in (("%zmm", 64), ("%ymm", 32), ("%xmm", 16)) if word in text), 0)

    @property
    def lanes(self) -> float:
        """Floats that it computes on."""
        return max(1.0, self.width / (8 if self.name.endswith(("pd", "sd")) else 4)) if self.width else 0.0

    @property
    def flop(self) -> float:
        """Floating-point operations, a multiply-add being two."""
        counts = {"fma": 2.0, "multiply": 1.0, "add": 1.0, "divide": 1.0, "compare": 1.0}
        return counts.get(self.family, 0.0) * self.lanes

    @cached_property
    def reads(self) -> frozenset[str]:
        """Registers that it depends on."""
        last = len(self.operands) - 1
        found = {r for place, text in enumerate(self.operands) for r in _REGISTER.findall(text) if place < last}
        if self.operands and (self.memory == last or self._keeps_destination):
            found |= set(_REGISTER.findall(self.operands[-1]))
        zeroing = "xor" in self.name and len(set(self.operands[:2])) == 1
        return frozenset() if zeroing else frozenset(map(_whole, found))

    @cached_property
    def writes(self) -> str | None:
        """The register that it gives a value."""
        if not self.operands or self.stores or self.family in ("branch", "call"):
            return None
        found = _REGISTER.findall(_MASK.sub("", self.operands[-1]))
        return _whole(found[0]) if len(found) == 1 else None

    @property
    def _keeps_destination(self) -> bool:
        """Whether the destination is also read: a multiply-add, and all of two operands but moves."""
        return self.family == "fma" or (not self.name.startswith("v") and self.family not in ("move", "address"))


@cache
def family_of(name: str) -> str:
    """The family of an instruction.

    Example:
        >>> family_of("vfmadd231ps"), family_of("vbroadcastss"), family_of("addq"), family_of("jne")
        ('fma', 'shuffle', 'scalar', 'branch')
    """
    return next((family for family, pattern in _FAMILIES if pattern.fullmatch(name)), "scalar")


@cache
def _whole(register: str) -> str:
    """One name for all widths of a register."""
    if register[:3] in ("xmm", "ymm", "zmm"):
        return f"v{register[3:]}"
    old = re.fullmatch(r"[er]?([abcd])[xlh]|[er]?(si|di|bp|sp)l?", register)
    if old:
        return old[1] or old[2]
    return re.sub(r"[bwd]$", "", register) if re.fullmatch(r"r\d+[bwd]?", register) else register


@dataclass
class Loop:
    """A loop of a function, or the function itself."""

    first: int
    last: int
    body: Sequence[Instruction] = field(repr=False)
    """All instructions of the function."""
    inner: list[Loop] = field(default_factory=list)
    depth: int = 0
    times: float = 1.0
    """How often the body runs in one call of the function, as far as it is known."""

    @cached_property
    def own(self) -> list[Instruction]:
        """Its instructions that are in no inner loop."""
        covered = {place for loop in self.inner for place in range(loop.first, loop.last + 1)}
        return [self.body[place] for place in range(self.first, self.last + 1) if place not in covered]

    @cached_property
    def trips(self) -> float:
        """Iterations each time that it is entered; `UNKNOWN_TRIPS` where the code does not say."""
        return _trips(self) or UNKNOWN_TRIPS

    @cached_property
    def chain(self) -> float:
        """Cycles of an iteration that the longest chain of dependent instructions takes."""
        return chain_cycles(self.own)

    @cached_property
    def cycles(self) -> float:
        """Cycles of one iteration, without inner loops and with all data in the first cache: of a made-up wide core."""
        own = self.own
        if not own:
            return 0.0
        floats = sum(i.family in _FLOAT_UNITS and i.width > 0 for i in own)
        bounds = (
            floats / 2 + 4.0 * sum(i.family == "divide" for i in own),
            sum(i.loads for i in own) / 2,
            float(sum(i.stores for i in own)),
            sum(i.family == "shuffle" and not i.loads for i in own) / 1.5,
            len(own) / 5,
            self.chain,
        )
        return max(bounds) + 8.0 * sum(i.family == "gather" for i in own) + 20.0 * sum(i.family == "call" for i in own)


def chain_cycles(own: Sequence[Instruction]) -> float:
    """Cycles of an iteration that the longest chain from one iteration to the next takes.

    Example:
        >>> chain_cycles([Instruction("vfmadd231ps", ("%ymm1", "%ymm2", "%ymm0"))])
        4.0
    """
    ready: Counter[str] = Counter()
    ends = []
    for _ in range(_ROUNDS):
        for instruction in own:
            if instruction.writes is None:
                continue
            latency = _LATENCY.get(instruction.family, 1) + (_LOAD_LATENCY if instruction.loads else 0)
            ready[instruction.writes] = latency + max((ready[r] for r in instruction.reads), default=0)
        ends.append(max(ready.values(), default=0))
    return float(ends[-1] - ends[-2])


@dataclass(frozen=True)
class Function:
    """The code of a function."""

    name: str
    body: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """Label -> the place of the instruction after it."""


def functions(text: str) -> Iterator[Function]:
    """The functions of a text of assembly that compute, without those that check arguments and convert types."""
    function = Function("")
    for line in text.splitlines():
        found = _LABEL.match(line)
        if found and not _LOCAL.match(found["name"]):
            yield from _computing(function)
            function = Function(found["name"])
        elif found:
            function.labels[found["name"]] = len(function.body)
        elif line.startswith("\t") and not line.startswith("\t."):
            code = line.split("#", 1)[0].strip()
            if code:
                function.body.append(parse(code))
    yield from _computing(function)


def _computing(function: Function) -> Iterator[Function]:
    if function.body and _KERNEL.search(function.name):
        yield function


def parse(code: str) -> Instruction:
    """One instruction from its line.

    Example:
        >>> parse("vfmadd231ps 64(%rdi,%rax,4), %ymm1, %ymm2").operands
        ('64(%rdi,%rax,4)', '%ymm1', '%ymm2')
    """
    name, _, rest = code.replace("\t", " ").partition(" ")
    if name in ("lock", "rep", "notrack"):
        name, _, rest = rest.strip().partition(" ")
    operands, depth, start = [], 0, 0
    for place, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            operands.append(rest[start:place].strip())
            start = place + 1
    operands.append(rest[start:].strip())
    return Instruction(name, tuple(text for text in operands if text))


def loops(function: Function) -> list[Loop]:
    """The function as a whole, then its loops: what lies between a label and the last jump back to it."""
    body = function.body
    last_jump: dict[int, int] = {}
    for place, instruction in enumerate(body):
        if instruction.family == "branch" and instruction.operands:
            target = function.labels.get(instruction.operands[0])
            if target is not None and target <= place:
                last_jump[target] = place
    whole = Loop(0, len(body) - 1, body)
    found = [whole]
    for first, last in sorted(last_jump.items(), key=lambda pair: (pair[0], -pair[1])):
        parent = next(loop for loop in reversed(found) if loop is whole or (loop.first <= first and last <= loop.last))
        loop = Loop(first, last, body, depth=parent.depth + 1)
        parent.inner.append(loop)
        found.append(loop)
    for loop in found:  # outer loops come first
        for inner in loop.inner:
            inner.times = loop.times * inner.trips
    return found


def _trips(loop: Loop) -> float | None:
    """The trip count from the counter that the last jump tests: compared with a constant, or counted to zero."""
    last = [loop.body[place] for place in range(max(loop.first, loop.last - 4), loop.last)]
    test = next((i for i in reversed(last) if i.name.startswith(("cmp", "add", "sub", "inc", "dec"))), None)
    if test is None or not re.fullmatch(r"%\w+", test.operands[-1]):
        return None
    register = _whole(test.operands[-1][1:])
    is_compared = test.name.startswith("cmp")
    bound = _constant(test.operands[0]) if is_compared else 0.0
    step, start = _step(loop, register), _start(loop, register)
    if start is None and is_compared:
        start = 0.0
    if bound is None or start is None or not step:
        return None
    count = (bound - start) / step
    return count if 1 <= count <= MOST_TRIPS else None


def _step(loop: Loop, register: str) -> float:
    """What an iteration adds to the register."""
    return sum(_added(instruction) for instruction in loop.own if instruction.writes == register)


def _added(instruction: Instruction) -> float:
    """What an instruction adds to the register that it writes; 0 where that is not a constant."""
    source = instruction.operands[0]
    if instruction.family == "address":
        moved = re.fullmatch(r"(-?\d+)\(%(\w+)\)", source)
        return float(moved[1]) if moved and _whole(moved[2]) == instruction.writes else 0.0
    if instruction.name.startswith(("inc", "dec")):
        return 1.0 if instruction.name.startswith("inc") else -1.0
    if instruction.name.startswith(("add", "sub")):
        return (_constant(source) or 0.0) * (1.0 if instruction.name.startswith("add") else -1.0)
    return 0.0


def _start(loop: Loop, register: str) -> float | None:
    """The constant that the register holds before the loop, if it was set shortly before."""
    for place in range(loop.first - 1, max(-1, loop.first - 60), -1):
        instruction = loop.body[place]
        if instruction.writes == register:
            if instruction.name.startswith("xor"):
                return 0.0
            return _constant(instruction.operands[0]) if instruction.family == "move" else None
    return None


def _constant(text: str) -> float | None:
    found = re.fullmatch(r"\$(-?(?:0x[0-9a-fA-F]+|\d+))", text)
    return float(int(found[1], 0)) if found else None
