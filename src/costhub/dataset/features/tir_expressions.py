"""Reads expressions of TIR: indices as sums over loops (IndexForm), and the operations of a statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Bounds = tuple[list[int], list[int]]


@dataclass(frozen=True, eq=False)
class Atom:
    """A non-linear term of an index: a quotient, a remainder, or the minimum or maximum of two."""

    kind: str
    """`div`, `mod`, `min` or `max`."""
    left: IndexForm
    right: IndexForm
    """A constant for `div` and `mod`."""


@dataclass(frozen=True, eq=False)
class IndexForm:
    """constant + the sum of coefficient * term, where a term is a loop (its number) or an atom."""

    constant: int = 0
    terms: Mapping[int | Atom, int] = field(default_factory=dict)

    @classmethod
    def of_loop(cls, number: int) -> IndexForm:
        """Makes the form of a loop variable."""
        return cls(0, {number: 1})

    def plus(self, other: IndexForm, factor: int = 1) -> IndexForm:
        """This form + factor * other."""
        terms = dict(self.terms)
        for term, coefficient in other.terms.items():
            total = terms.pop(term, 0) + factor * coefficient
            if total:
                terms[term] = total
        return IndexForm(self.constant + factor * other.constant, terms)

    def times(self, factor: int) -> IndexForm:
        """This form * factor."""
        return IndexForm(0, {}).plus(self, factor) if factor else IndexForm()

    def loops(self) -> set[int]:
        """The loops it depends on."""
        loops: set[int] = set()
        for term in self.terms:
            loops |= {term} if isinstance(term, int) else term.left.loops() | term.right.loops()
        return loops

    def stride(self, loop: int) -> int:
        """Growth with one step of a loop; 0 for a step that a quotient mostly absorbs.

        Example:
            >>> fused = IndexForm.of_loop(0)
            >>> quotient = IndexForm(0, {Atom("div", fused, IndexForm(8)): 1})
            >>> fused.times(16).stride(0), quotient.stride(0)
            (16, 0)
        """
        total = 0
        for term, coefficient in self.terms.items():
            if isinstance(term, int):
                total += coefficient if term == loop else 0
            else:
                total += coefficient * _stride_of(term, loop)
        return total

    def bounds(self, chain: Sequence[tuple[int, int]]) -> Bounds:
        """Computes the least and largest value while only the inner loops of a chain run, the others being 0.

        Args:
            chain: Number and length of the loops around, the outermost first.

        Returns:
            Two lists of len(chain) + 1 values: entry k is for loop k and those inside it running.
        """
        levels = len(chain) + 1
        low, high = [self.constant] * levels, [self.constant] * levels
        for term, coefficient in self.terms.items():
            lows, highs = _loop_bounds(term, chain) if isinstance(term, int) else _atom_bounds(term, chain)
            if coefficient < 0:
                lows, highs = highs, lows
            for level in range(levels):
                low[level] += coefficient * lows[level]
                high[level] += coefficient * highs[level]
        return low, high


def _loop_bounds(loop: int, chain: Sequence[tuple[int, int]]) -> Bounds:
    place = next((level for level, (number, _) in enumerate(chain) if number == loop), -1)
    inside = len(chain) - place
    return [0] * (len(chain) + 1), [chain[place][1] - 1 if chain else 0] * (place + 1) + [0] * inside


def _atom_bounds(atom: Atom, chain: Sequence[tuple[int, int]]) -> Bounds:
    low, high = atom.left.bounds(chain)
    if atom.kind in ("min", "max"):
        other_low, other_high = atom.right.bounds(chain)
        choose = min if atom.kind == "min" else max
        return list(map(choose, low, other_low)), list(map(choose, high, other_high))
    by = atom.right.constant
    if atom.kind == "div":
        return [a // by for a in low], [b // by for b in high]
    # Within one period a remainder keeps its width; across periods it takes every value.
    whole = [a // by != b // by for a, b in zip(low, high, strict=True)]
    return (
        [0 if w else a % by for a, w in zip(low, whole, strict=True)],
        [by - 1 if w else b % by for b, w in zip(high, whole, strict=True)],
    )


def _stride_of(atom: Atom, loop: int) -> int:
    inner = atom.left.stride(loop)
    by = atom.right.constant
    if atom.kind in ("min", "max"):
        return inner or atom.right.stride(loop)
    return int(inner / by) if atom.kind == "div" else inner % by


def index_form(expression: Any, variables: Mapping[int, IndexForm]) -> IndexForm | None:
    """Reads an index expression of TIR.

    Args:
        expression: A ``tvm.ir.Expr`` or a Python number.
        variables: The form of each variable, by the handle of its object.

    Returns:
        The form; None if the expression contains anything but sums, constant multiples, quotients,
        remainders, minima and maxima of `variables`.
    """
    if isinstance(expression, int):
        return IndexForm(expression)
    kind = type(expression).__name__
    if kind == "IntImm":
        return IndexForm(int(expression.value))
    if kind == "Var":
        return variables.get(expression.__chandle__())
    if kind == "Cast":
        return index_form(expression.value, variables)
    if kind not in _BINARY:
        return None
    left, right = index_form(expression.a, variables), index_form(expression.b, variables)
    return None if left is None or right is None else _combine_forms(_BINARY[kind], left, right)


_BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    # Indices are not negative, so truncating and flooring quotients agree.
    "FloorDiv": "div",
    "Div": "div",
    "FloorMod": "mod",
    "Mod": "mod",
    "Min": "min",
    "Max": "max",
}


def _combine_forms(kind: str, left: IndexForm, right: IndexForm) -> IndexForm | None:
    if kind in ("add", "sub"):
        return left.plus(right, 1 if kind == "add" else -1)
    if kind == "mul":
        if left.terms and right.terms:
            return None
        return left.times(right.constant) if not right.terms else right.times(left.constant)
    if kind in ("min", "max"):
        return IndexForm(0, {Atom(kind, left, right): 1})
    if right.terms or right.constant <= 0:
        return None
    if not left.terms:
        by = right.constant
        return IndexForm(left.constant // by if kind == "div" else left.constant % by)
    return IndexForm(0, {Atom(kind, left, right): 1})


_CLASSES = {
    "add_sub": "Add Sub",
    "mul": "Mul",
    "div_mod": "Div Mod FloorDiv FloorMod",
    "compare": "Min Max EQ NE LT LE GT GE And Or Not Select",
    "call": "Call",
}
_OPERATION_CLASS = {node: name for name, nodes in _CLASSES.items() for node in nodes.split()}
_CHILD_FIELDS = "a b value condition true_value false_value then_case else_case body init".split()


@dataclass
class Operations:
    """Operations of each class per run of a statement; indices do not count."""

    add_sub: int = 0
    mul: int = 0
    div_mod: int = 0
    compare: int = 0
    """Comparisons, minima and maxima, logic and choices."""
    call: int = 0
    """Mathematical functions and intrinsics."""

    @property
    def total(self) -> int:
        """Operations of all classes."""
        return self.add_sub + self.mul + self.div_mod + self.compare + self.call


def count_operations(statement: Any) -> Operations:
    """Counts the operations in the body of a block (``tvm.tirx.Stmt``); both sides of a choice count.

    Loops inside the body count once: their work per run of the block is in its regions.
    """
    operations = Operations()
    stack = [statement]
    while stack:
        node = stack.pop()
        kind = type(node).__name__
        if kind in ("TensorLoad", "BufferLoad"):
            continue
        name = _OPERATION_CLASS.get(kind)
        if name:
            setattr(operations, name, getattr(operations, name) + 1)
        if kind == "SeqStmt":
            stack.extend(node.seq)
        elif kind == "Call":
            stack.extend(node.args)
        else:
            stack.extend(child for key in _CHILD_FIELDS if (child := getattr(node, key, None)) is not None)
    return operations
