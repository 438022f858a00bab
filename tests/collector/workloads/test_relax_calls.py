"""What passes over relax functions share: chains of reshapes, and the axes of permutations."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from costhub.collector.workloads.relax_calls import PERMUTE, RESHAPE, is_one, made_by, permuted_axes, reshaped_once


@mutator
class Shortener(PyExprMutator):  # type: ignore[misc]
    """Shortens chains of reshapes, and notes what the operand of each was made by."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.found: list[Any] = []

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if call.op.name != RESHAPE:
            return call
        self.found.append(made_by(self, call.args[0], PERMUTE))
        return reshaped_once(self, call)


def shortened(*shapes: tuple[int, ...], permuted: bool = False) -> tuple[Shortener, Any]:
    """A function that reshapes (2, 3, 4) again and again, without what it does not need."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 3, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = builder.emit(relax.op.permute_dims(x)) if permuted else x
            for shape in shapes:
                value = builder.emit(relax.op.reshape(value, shape))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    mod = builder.get()
    found = Shortener(mod)
    found.builder_.update_func(mod.get_global_var("main"), found.visit_expr(mod["main"]))
    return found, relax.transform.DeadCodeElimination(["main"])(
        relax.transform.CanonicalizeBindings()(found.builder_.get())
    )


@pytest.mark.parametrize(
    ("shapes", "reshapes"), [([(6, 4), (24,)], 1), ([(6, 4), (24,), (3, 8)], 1), ([(6, 4), (2, 3, 4)], 0)]
)
def test_a_chain_of_reshapes_is_one_or_none(shapes: list[tuple[int, ...]], reshapes: int) -> None:
    _, mod = shortened(*shapes)

    assert str(mod).count("R.reshape") == reshapes
    assert [int(n) for n in mod["main"].ret_ty.shape] == list(shapes[-1])


def test_what_made_a_tensor_is_found() -> None:
    found, _ = shortened((24,), permuted=True)
    other, _ = shortened((24,))

    assert found.found[0].op.name == PERMUTE
    assert other.found == [None]


def test_axes_are_counted_from_the_front_and_reversed_where_none_are_named() -> None:
    x = relax.Var("x", relax.TensorType((2, 3, 4), "float32"))
    builder = relax.BlockBuilder()
    calls = [builder.normalize(relax.op.permute_dims(x, axes)) for axes in (None, [0, -1, 1])]

    assert [permuted_axes(call) for call in calls] == [[2, 1, 0], [0, 2, 1]]
    assert [is_one(n) for n in relax.TensorType((1, 2), "float32").shape] == [True, False]
