"""Provides helpers of passes over relax functions: which operator is called, and shorter chains of reshapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, te, tirx
from tvm_ffi import structural_equal

FUSABLE, INJECTIVE = 4, 2
"""TVM's ``kOutEWiseFusable``: elementwise operators that follow may go into the kernel; and ``kInjective``: each
element of the output is made of one element of each input."""
RESHAPE, PERMUTE = "relax.reshape", "relax.permute_dims"


def kernel_of(arguments: Sequence[Any], pattern: int) -> Any:
    """Makes a kernel (``tirx.PrimFunc``) for relax from tensors of TE, the last of which is the output.

    Args:
        arguments: The tensors.
        pattern: TVM's number for how the kernel may be fused.
    """
    function = te.create_prim_func(list(arguments)).without_attr("global_symbol")
    return function.with_attrs({"op_pattern": pattern, "tirx.noalias": True})


def operator_of(value: Any) -> str:
    """The name of the operator that a value calls; empty if it is not a call of an operator."""
    return str(getattr(getattr(value, "op", None), "name", ""))


def made_by(mutator: Any, data: Any, operator: str) -> Any:
    """The call of an operator that made a tensor, perhaps under another name; None if something else did.

    Args:
        mutator: A ``PyExprMutator``, which has the bindings so far.
        data: A tensor.
        operator: Name of the operator.
    """
    made: Any = data
    while isinstance(made, relax.Var):
        made = mutator.lookup_binding(made)
    return made if operator_of(made) == operator else None


def reshaped_once(mutator: Any, call: Any) -> Any:
    """Merges two consecutive reshapes into one; removes both if they end in the original shape.

    TVM would fuse the two into a kernel that copies.
    """
    first = made_by(mutator, call.args[0], RESHAPE)
    if first is None:
        return call
    data = first.args[0]
    return data if structural_equal(data.ty, call.ty) else relax.op.reshape(data, call.ty.shape)


def permuted_axes(call: Any) -> list[int]:
    """The axes of a permutation; all axes in reverse if it names none."""
    rank = len(call.ty.shape)
    return [int(axis) % rank for axis in call.attrs.axes] if call.attrs.axes is not None else list(range(rank))[::-1]


def is_one(size: Any) -> bool:
    """Whether an extent is known to be 1."""
    return isinstance(size, tirx.IntImm) and int(size) == 1
