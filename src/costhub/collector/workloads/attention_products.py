"""Provides join_transposes: products of activations that read and write attention heads in place.

In attention the heads of a token are adjacent in a row, and the products process one head after another. TVM copies
each operand into that order and the result back; here the kernel uses that order directly, as libraries do with
strides.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, te, tirx
from tvm.relax.expr_functor import PyExprMutator, PyExprVisitor, mutator, visitor
from tvm_ffi import structural_equal

from costhub.collector.workloads.relax_calls import (
    FUSABLE,
    INJECTIVE,
    PERMUTE,
    RESHAPE,
    kernel_of,
    permuted_axes,
    reshaped_once,
)
from costhub.collector.workloads.row_norms import extent

HEADS = "matmul_heads"
"""Name of the block of such a product."""
COPY = "transpose_heads"
_MATMUL = "relax.matmul"
_SLICE = "relax.strided_slice"
_SHAPED = (RESHAPE, "relax.squeeze", "relax.expand_dims")
"""Operators that keep the elements in order."""
Index = Sequence[Any]
At = Callable[[Index], Index]


@dataclass(frozen=True)
class _View:
    """A tensor whose elements are those of another one in a different order."""

    data: Any
    """The variable to read from."""
    at: At
    """Index of the view -> index of the data."""
    factor: float = 1.0
    """Factor by which the elements of the data are multiplied."""
    is_permuted: bool = False


def join_transposes(mod: Any, weights: set[Any]) -> Any:
    """Removes copies before and after the products of activations in ``main``.

    An operand is copied only if the elements of a row would not be contiguous, and then once instead of step by step.

    Args:
        mod: A relax module without dead code; it is not changed.
        weights: Variables of ``main`` that depend on weights alone.

    Returns:
        A module that still contains code that is no longer used.
    """
    main, uses = mod["main"], _Uses()
    uses.visit_expr(main)
    joiner = _Joiner(mod, weights, uses)
    joiner.builder_.update_func(mod.get_global_var("main"), joiner.visit_expr(main))
    return joiner.builder_.get()


def heads_product(left: _View, right: _View, shape: Sequence[int], order: Sequence[int]) -> Any:
    """The kernel (``tirx.PrimFunc``) of a product of two views, in float32.

    Args:
        left: (*batch, rows, depth).
        right: (*batch, depth, columns).
        shape: (*batch, rows, columns), and the depth at the end.
        order: Axes of the product in the order in which it is written.
    """
    *full, depth = shape
    operands = [te.placeholder([extent(n) for n in _shape(view.data)], "float32") for view in (left, right)]
    k = te.reduce_axis((0, extent(depth)), name="k")

    def summed(*written: Any) -> Any:
        place = dict(zip(order, written, strict=True))
        *batch, row, column = (place[axis] for axis in range(len(full)))
        first, second = _read(operands[0], left.at([*batch, row, k])), _read(operands[1], right.at([*batch, k, column]))
        return te.sum(first * second, axis=k)

    product = te.compute([extent(full[axis]) for axis in order], summed, name=HEADS, tag="matmul")
    return kernel_of([*operands, product], FUSABLE)


def heads_copy(view: _View, shape: Sequence[int]) -> Any:
    """The kernel (``tirx.PrimFunc``) that copies a view of this shape, in float32."""
    data = te.placeholder([extent(n) for n in _shape(view.data)], "float32")
    copy = te.compute([extent(n) for n in shape], lambda *index: _read(data, view.at(index)), name=COPY)
    return kernel_of([data, copy], INJECTIVE)


def _read(tensor: Any, index: Index) -> Any:
    return tensor[tuple(extent(at) if isinstance(at, int) else at for at in index)]


def _shape(data: Any) -> list[int]:
    return [int(n) for n in data.ty.shape]


def _is_static(data: Any) -> bool:
    return all(isinstance(n, tirx.IntImm) for n in data.ty.shape)


@visitor
class _Uses(PyExprVisitor):  # type: ignore[misc]
    """Counts how often each variable of a function is read, and keeps what it is bound to."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[Any] = Counter()
        self.values: dict[Any, Any] = {}

    def visit_var_(self, var: Any) -> None:
        self.counts[var] += 1

    def visit_dataflow_var_(self, var: Any) -> None:
        self.counts[var] += 1

    def visit_var_binding_(self, binding: Any) -> None:
        self.values[binding.var] = binding.value
        self.visit_expr(binding.value)

    def ends_in(self, var: Any, operator: str) -> bool:
        """Whether `var` is a result of the operator, perhaps reshaped, that nothing else reads."""
        value = self.values.get(var)
        if value is None or self.counts[var] != 1:
            return False
        if isinstance(value, relax.Var):
            return self.ends_in(value, operator)
        name = getattr(getattr(value, "op", None), "name", "")
        return name == operator or (name in _SHAPED and self.ends_in(value.args[0], operator))


@mutator
class _Joiner(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: Any, weights: set[Any], uses: _Uses) -> None:
        super().__init__(mod)
        self.weights, self.uses = weights, uses
        self.products: dict[Any, tuple[_View, _View, list[int]]] = {}
        """Variable of a product -> its operands and sizes."""

    def visit_call_(self, call: Any) -> Any:
        name, read = getattr(call.op, "name", ""), call.args
        is_product = name == _MATMUL and not self.weights.intersection(read)
        is_written = name == PERMUTE and self.uses.ends_in(read[0], _MATMUL)
        call = self.visit_expr_post_order(call)
        if is_product:
            return self._product(call)
        if name == RESHAPE:
            return reshaped_once(self, call)
        return self._written(call) if is_written else call

    def _product(self, call: Any) -> Any:
        tensors = [*call.args, call]
        if any(each.ty.dtype != "float32" or not _is_static(each) for each in tensors):
            return call
        shapes = [_shape(each) for each in tensors]
        if len({len(shape) for shape in shapes}) > 1 or shapes[0][:-2] != shapes[1][:-2]:
            return call
        left, right = (self._in_rows(data, shape) for data, shape in zip(call.args, shapes, strict=False))
        sizes = [*shapes[2], shapes[0][-1]]
        made = self._call(left, right, sizes, range(len(shapes[2]))) if left.is_permuted or right.is_permuted else call
        variable = self.builder_.emit(made)
        self.products[variable] = left, right, sizes
        return variable

    def _in_rows(self, data: Any, shape: Sequence[int]) -> _View:
        """An operand as a view; of a copy made in one step if the elements of a row are not contiguous."""
        view = self._view(data)
        if _is_contiguous(view, shape):
            return view
        kernel = self.builder_.add_func(heads_copy(view, shape), COPY)
        call = relax.op.call_tir(kernel, [view.data], relax.TensorType(list(shape), "float32"))
        return _View(self.builder_.emit(call), lambda index: index, view.factor, is_permuted=True)

    def _call(self, left: _View, right: _View, sizes: Sequence[int], order: Sequence[int]) -> Any:
        kernel = self.builder_.add_func(heads_product(left, right, sizes, order), HEADS)
        out = relax.TensorType([sizes[axis] for axis in order], "float32")
        found = relax.op.call_tir(kernel, [left.data, right.data], out)
        factor = left.factor * right.factor
        return found if factor == 1.0 else relax.op.multiply(self.builder_.emit(found), relax.const(factor, "float32"))

    def _written(self, call: Any) -> Any:
        """A product that is only used in another order, computed in that order."""
        variable = call.args[0]
        view = self._view(variable, until=self.products)
        if view.data not in self.products or view.factor != 1.0:
            return call
        left, right, sizes = self.products[view.data]
        full = sizes[:-1]
        # Which axis of the product each axis of the result runs over: the one whose index changes with it.
        axes = permuted_axes(call)
        inner = _shape(variable)
        order = []
        for axis in axes:
            if inner[axis] == 1:
                continue
            index = [0] * len(inner)
            index[axis] = 1
            moved = [place for place, at in enumerate(view.at(index)) if int(at)]
            if len(moved) != 1 or full[moved[0]] != inner[axis]:
                return call
            order += moved
        order = [*(axis for axis in range(len(full)) if full[axis] == 1), *order]
        if sorted(order) != list(range(len(full))) or order[-1] != len(full) - 1:
            return call
        return relax.op.reshape(self.builder_.emit(self._call(left, right, sizes, order)), call.ty.shape)

    def _view(self, data: Any, until: Any = ()) -> _View:
        """Traces a tensor back through operators that only rearrange or scale its elements."""
        made: Any = self.lookup_binding(data) if isinstance(data, relax.Var) and data not in until else None
        if isinstance(made, relax.Var):
            return self._view(made, until)
        if isinstance(made, relax.TupleGetItem):
            return self._part(data, made, until)
        name = getattr(getattr(made, "op", None), "name", "")
        if not name or not all(hasattr(each, "ty") for each in made.args):
            return _plain(data)
        if name == PERMUTE:
            inner, axes = self._view(made.args[0], until), permuted_axes(made)
            places = [axes.index(axis) for axis in range(len(axes))]
            return _View(inner.data, lambda i: inner.at([i[place] for place in places]), inner.factor, True)
        if name in _SHAPED and _is_static(made) and _is_static(made.args[0]):
            inner = self._view(made.args[0], until)
            into = _reshaped(_shape(made.args[0]), _shape(made))
            return _View(inner.data, lambda i: inner.at(into(i)), inner.factor, inner.is_permuted)
        if name == _SLICE:
            return self._slice(data, made, until)
        factor = _factor(made, name)
        if factor is not None:
            inner = self._view(made.args[0], until)
            return _View(inner.data, inner.at, inner.factor * factor, inner.is_permuted)
        return _plain(data)

    def _slice(self, data: Any, made: Any, until: Any) -> _View:
        """A slice with step 1."""
        axes, begins, _, steps = ([int(value) for value in part.fields] for part in made.args[1:])
        if any(step != 1 for step in steps) or min(begins) < 0 or not _is_static(made.args[0]):
            return _plain(data)
        return self._shifted(made.args[0], dict(zip(axes, begins, strict=True)), until)

    def _shifted(self, data: Any, begins: Mapping[int, int], until: Any) -> _View:
        """A slice of a tensor, given its first index by axis."""
        inner = self._view(data, until)
        return _View(
            inner.data,
            lambda i: inner.at([at + begins.get(place, 0) for place, at in enumerate(i)]),
            inner.factor,
            inner.is_permuted,
        )

    def _part(self, data: Any, item: Any, until: Any) -> _View:
        """One of the equal parts into which a tensor is split."""
        source = item.tuple_value
        made = self.lookup_binding(source) if isinstance(source, relax.Var) else source
        if getattr(getattr(made, "op", None), "name", "") != "relax.split" or not _is_static(data):
            return _plain(data)
        size = _shape(data)
        axis = int(made.attrs.axis) % len(size)
        if _shape(made.args[0])[axis] != size[axis] * len(made.ty.fields):
            return _plain(data)
        return self._shifted(made.args[0], {axis: item.index * size[axis]}, until)


def _plain(data: Any) -> _View:
    return _View(data, lambda index: index)


def _factor(made: Any, name: str) -> float | None:
    """The number by which a tensor is multiplied; None if it is not a single number."""
    value = getattr(made.args[1], "value", None) if name in ("relax.multiply", "relax.divide") else None
    if value is None or not hasattr(value, "numpy") or math.prod(value.shape) != 1:
        return None
    number = float(value.numpy().item())
    if number == 0.0 or not structural_equal(made.ty, made.args[0].ty):
        return None
    return number if name == "relax.multiply" else 1.0 / number


def _reshaped(source: Sequence[int], target: Sequence[int]) -> At:
    """Index in the shape `target` -> index in the shape `source` of the same elements in the same order.

    Corresponding axes are matched, so that most indices need no division.
    """
    groups, i, j = [], 0, 0
    while i < len(source) or j < len(target):
        first, second = [i] if i < len(source) else [], [j] if j < len(target) else []
        i, j = i + len(first), j + len(second)
        while math.prod(source[a] for a in first) != math.prod(target[a] for a in second):
            if math.prod(source[a] for a in first) < math.prod(target[a] for a in second):
                first.append(i)
                i += 1
            else:
                second.append(j)
                j += 1
        groups.append((first, second))

    def at(index: Index) -> Index:
        found: list[Any] = [0] * len(source)
        for first, second in groups:
            flat: Any = 0
            for axis in second:
                if target[axis] > 1:
                    flat = flat * target[axis] + index[axis]
            long = [axis for axis in first if source[axis] > 1]
            for axis in reversed(long[1:]):
                found[axis], flat = flat % source[axis], flat // source[axis]
            if long:
                found[long[0]] = flat
        return found

    return at


def _is_contiguous(view: _View, shape: Sequence[int]) -> bool:
    """Whether the elements of the last axis are contiguous in the data."""
    sizes = _shape(view.data)

    def place(last: int) -> int:
        flat = 0
        for at, size in zip(view.at([*[0] * (len(shape) - 1), last]), sizes, strict=True):
            flat = flat * size + int(at)
        return flat

    return all(place(last) - place(0) == last for last in range(shape[-1]))
