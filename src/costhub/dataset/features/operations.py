"""Provides count_operations: the operations of one statement of TIR, by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_CLASS = {
    "Add": "add_sub", "Sub": "add_sub", "Mul": "mul", "Div": "div_mod", "Mod": "div_mod",
    "FloorDiv": "div_mod", "FloorMod": "div_mod", "Min": "compare", "Max": "compare", "EQ": "compare",
    "NE": "compare", "LT": "compare", "LE": "compare", "GT": "compare", "GE": "compare", "And": "compare",
    "Or": "compare", "Not": "compare", "Select": "compare", "Call": "call",
}  # fmt: skip
_CHILDREN = (
    "a",
    "b",
    "value",
    "condition",
    "true_value",
    "false_value",
    "then_case",
    "else_case",
    "body",
    "init",
)


@dataclass
class Operations:
    """How often a statement computes each class of operation, per run; indices are not counted."""

    add_sub: int = 0
    mul: int = 0
    div_mod: int = 0
    compare: int = 0
    """Comparisons, minima and maxima, logic and choices."""
    call: int = 0
    """Mathematical functions and intrinsics."""

    @property
    def total(self) -> int:
        """Of all classes."""
        return self.add_sub + self.mul + self.div_mod + self.compare + self.call


def count_operations(statement: Any) -> Operations:
    """Counts the operations in the body of a block (``tvm.tirx.Stmt``); both sides of a choice count.

    Loops inside the body are counted once: what they compute per run of the block is in its regions.
    """
    found = Operations()
    open_ends = [statement]
    while open_ends:
        node = open_ends.pop()
        kind = type(node).__name__
        if kind in ("TensorLoad", "BufferLoad"):
            continue
        name = _CLASS.get(kind)
        if name:
            setattr(found, name, getattr(found, name) + 1)
        if kind == "SeqStmt":
            open_ends.extend(node.seq)
        elif kind == "Call":
            open_ends.extend(node.args)
        else:
            open_ends.extend(child for key in _CHILDREN if (child := getattr(node, key, None)) is not None)
    return found
