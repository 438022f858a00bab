"""Provides pack_products: packs the weights of products in the order in which they are read.

Stored in rows of all outputs, as in torch, the weights that a vector of outputs reads in succession are far
apart, each in another page of memory. Libraries of kernels pack them (Goto and van de Geijn 2008, "Anatomy of
high-performance matrix multiplication", section 4); for weights, this happens once, before the network runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import relax, te, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_equal

from costhub.collector.workloads.bfloat16_heads import Factor, paired_head_columns, paired_head_rows
from costhub.collector.workloads.bfloat16_images import (
    FlatShape,
    LineShape,
    flat_convolution,
    line_convolution,
    paired_line_filters,
    paired_lines,
)
from costhub.collector.workloads.bfloat16_pairs import (
    pair_convolution,
    pair_extents,
    pair_product,
    paired_columns,
    paired_filters,
    paired_image,
    paired_rows,
)
from costhub.collector.workloads.relax_calls import (
    FUSABLE,
    PERMUTE,
    RESHAPE,
    is_one,
    kernel_of,
    made_by,
    operator_of,
    permuted_axes,
    reshaped_once,
)
from costhub.collector.workloads.row_norms import extent, row_norm
from costhub.dataset.intrinsics import PAIR_CONVOLUTION, PAIR_PRODUCT
from costhub.dataset.tile_intrinsics import MATRICES
from costhub.dataset.tile_ir import MOST_PAIRS, pairs_at_a_time

PRODUCT = "matmul_packed"
"""Name of the block of such a product in float32."""
_DIMENSIONS = 2
_FEW_CHANNELS = 4
_SHORT_ROW = 14
"""Most places in a row that is joined with others: on its own, it would not fill a tile of matrix units."""
_MOST_ADDED = 0.1
"""Columns of zeros, as a share of the weights, that may be added so that the vector length divides them."""
_FEWEST = 8
"""Rows and columns of a product of two activations that fill half a tile of matrix units."""
_FEW, _MOST = 6, 14
"""Rows of a tile that keeps a vector unit busy and its sums in registers."""


def pack_products(mod: Any, lanes: int, *, bf16_unit: str = "") -> Any:
    """Packs the weights of products in ``main``: two-dimensional ``matmul`` of activations and weights.

    Products stay unchanged if no vector nearly divides their outputs, and for types other than float32. Products of two
    activations do, too, except in matrix units, where each factor is rounded and packed when the network runs.

    Args:
        mod: A relax module whose ``main`` has the attribute ``num_input`` (`export_network`).
        lanes: Outputs in a vector (`vector_lanes`).
        bf16_unit: What multiplies these products, and convolutions in blocked layouts, in bfloat16: ``vectors``, or
            ``matrices``, for which short rows of an image are joined into one; "" for float32.
    """
    rows = _InRows(mod)
    rows.builder_.update_func(mod.get_global_var("main"), rows.visit_expr(mod["main"]))
    mod = relax.transform.DeadCodeElimination(["main"])(rows.builder_.get())
    main = mod["main"]
    packer = _Packer(mod, _of_weights(main), lanes, bf16_unit=bf16_unit)
    packer.builder_.update_func(mod.get_global_var("main"), packer.visit_expr(main))
    return packer.builder_.get()


def padded_rows(rows: int) -> int:
    """The rows that a kernel computes: as many as given, or a few more, so that tiles of some size fit.

    Example:
        >>> padded_rows(128), padded_rows(197), padded_rows(1)
        (128, 198, 1)
    """
    if rows <= _MOST:
        return rows
    padded = rows
    while not any(padded % tile == 0 for tile in range(_FEW, _MOST + 1)):
        padded += 1
    return padded


def packed_product(rows: int, depth: int, columns: int, lanes: int) -> Any:
    """The kernel (``tirx.PrimFunc``) of a product, (rows, depth) by (columns / lanes, depth, lanes), in float32.

    If more rows are computed than given, they repeat the last one and are not written.

    Args:
        rows: Rows of the activations.
        depth: Number of terms in the sum for each output.
        columns: Columns of the product.
        lanes: Columns stored side by side.
    """
    computed = padded_rows(rows)
    data = te.placeholder([extent(rows), extent(depth)], "float32", name="data")
    weights = te.placeholder([extent(columns // lanes), extent(depth), extent(lanes)], "float32", name="weights")
    k = te.reduce_axis((0, extent(depth)), name="k")

    def summed(m: Any, n: Any) -> Any:
        row = m if computed == rows else tirx.min(m, rows - 1)
        return te.sum(data[row, k] * weights[n // lanes, k, n % lanes], axis=k)

    product = te.compute((extent(computed), extent(columns)), summed, name=PRODUCT, tag="matmul")
    if computed > rows:
        product = te.compute((extent(rows), extent(columns)), lambda m, n: product[m, n], name="rows")
    return kernel_of([data, weights, product], FUSABLE)


def _of_weights(main: Any) -> set[Any]:
    """The variables of a function that depend on nothing but weights."""
    known = set(main.params[int(main.attrs["num_input"]) :])
    for block in main.body.blocks:
        for binding in block.bindings:
            read = relax.analysis.free_vars(binding.value)
            if read and known.issuperset(read):
                known.add(binding.var)
    return known


@mutator
class _Packer(PyExprMutator):  # type: ignore[misc]
    def __init__(self, mod: Any, weights: set[Any], lanes: int, *, bf16_unit: str) -> None:
        super().__init__(mod)
        self.weights, self.lanes, self.bf16_unit = weights, lanes, bf16_unit
        self._pairs: dict[tuple[Any, ...], Any] = {}

    def visit_call_(self, call: Any) -> Any:
        name, of_weights = operator_of(call), call.args[1] in self.weights if len(call.args) > 1 else False
        call = self.visit_expr_post_order(call)
        if name not in (_MATMUL, _NORM, _CONVOLUTION) or call.args[0].ty.dtype != "float32":
            return call
        if name == _NORM:
            return self._norm(call)
        if not of_weights:
            return self._heads(call) if name == _MATMUL and self.bf16_unit == MATRICES else call
        return self._product(call) if name == _MATMUL else self._convolution(call)

    def _product(self, call: Any) -> Any:
        shapes = [[int(n) for n in argument.ty.shape] for argument in call.args]
        if [len(shape) for shape in shapes] != [_DIMENSIONS] * 2:
            return call
        (rows, depth), (_, columns) = shapes
        lanes, weights, added = self.lanes, call.args[1], -shapes[1][1] % self.lanes
        if added > _MOST_ADDED * columns:
            return call
        if added:  # such as the 50,257 words of GPT-2, which no vector length divides
            weights = self.builder_.emit(relax.op.nn.pad(weights, [0, 0, 0, added]))
        data, wide = call.args[0], columns + added
        if self.bf16_unit and depth % 2 == 0:
            computed, stored = padded_rows(rows), self._stored_pairs(depth // 2)
            columns_of_pairs = paired_columns(depth, wide, lanes, stored)
            packed = self._made(columns_of_pairs, "weight_pairs", weights, [wide // lanes, stored, lanes])
            rows_of_pairs = paired_rows(rows, depth, (computed, stored))
            data = self._made(rows_of_pairs, "row_pairs", data, [computed, stored])
            function, name = pair_product((rows, wide), (computed, wide), stored, lanes), PAIR_PRODUCT
        else:
            packed = self.builder_.emit(relax.op.layout_transform(weights, lambda k, n: (n // lanes, k, n % lanes)))
            function, name = packed_product(rows, depth, wide, lanes), PRODUCT
        kernel = self.builder_.add_func(function, name)
        product = relax.op.call_tir(kernel, [data, packed], relax.TensorType([rows, wide], "float32"))
        return relax.op.strided_slice(self.builder_.emit(product), [1], [0], [columns]) if added else product

    def _heads(self, call: Any) -> Any:
        """A product of two activations for each head, such as both of attention, by matrix units."""
        if min(len(argument.ty.shape) for argument in call.args) <= _DIMENSIONS:
            return call
        (data, one), (others, other) = (self._factor(argument) for argument in call.args)
        (*heads, rows, depth), (*same, _, columns) = one.extents, other.extents
        if heads != same or min(rows, columns) < _FEWEST or depth < MOST_PAIRS:
            return call
        computed = padded_rows(rows), columns + -columns % self.lanes
        stored = -(-depth // (2 * MOST_PAIRS)) * MOST_PAIRS
        shapes = [*heads, computed[0], stored], [*heads, computed[1] // self.lanes, stored, self.lanes]
        functions = (
            paired_head_rows(one, computed[0], stored),
            paired_head_columns(other, computed[1], stored, self.lanes),
        )
        first = self._made(functions[0], "row_pairs", data, shapes[0], one.axes)
        second = self._made(functions[1], "column_pairs", others, shapes[1], other.axes)
        function = pair_product([*heads, rows, columns], computed, stored, self.lanes)
        kernel = self.builder_.add_func(function, PAIR_PRODUCT)
        return relax.op.call_tir(kernel, [first, second], call.ty)

    def _factor(self, data: Any) -> tuple[Any, Factor]:
        """A factor of a product of activations, and how it is read: before a permutation, if one made it.

        TVM has a reshape between a permutation and a product, which leaves out a batch of one.
        """
        shape = tuple(int(n) for n in data.ty.shape)
        reshaped = made_by(self, data, RESHAPE)
        made = made_by(self, data if reshaped is None else reshaped.args[0], PERMUTE)
        if made is not None:
            source = tuple(int(n) for n in made.args[0].ty.shape)
            axes = tuple(permuted_axes(made))
            if reshaped is not None:
                axes = tuple(axis for axis in axes if source[axis] != 1)
            if tuple(source[axis] for axis in axes) == shape:
                return made.args[0], Factor(source, axes)
        return data, Factor(shape, tuple(range(len(shape))))

    def _stored_pairs(self, depth: int) -> int:
        """Pairs of a row, with zeros if matrix units could add only a few at a time otherwise."""
        if self.bf16_unit != MATRICES or pairs_at_a_time(depth) >= MOST_PAIRS // 2:
            return depth
        return -(-depth // MOST_PAIRS) * MOST_PAIRS

    def _convolution(self, call: Any) -> Any:
        """A convolution of pairs, of one in a blocked layout with an even number of channels in a block."""
        image, filters = ([int(n) for n in argument.ty.shape] for argument in call.args)
        attrs = call.attrs
        if not self.bf16_unit or len(image) != _BLOCKED or int(attrs.groups) != 1:
            return call
        if image[1] == 1 and image[-1] < _FEW_CHANNELS and _two(attrs.dilation) == (1, 1):
            return self._first_convolution(call, image, filters)
        if image[-1] % 2:
            return call
        padding = top, left, bottom, right = _four(attrs.padding)
        strides, dilation = _two(attrs.strides), _two(attrs.dilation)
        blocks, side_by_side = pair_extents(image[1], image[4])
        packed = [filters[0], blocks, *filters[2:4], side_by_side, filters[5]]
        if self._is_flat(call):
            shape = FlatShape(tuple(image), tuple(packed), padding, dilation)
            places, function = shape.places_read, flat_convolution(shape)
            pairs = [image[0], blocks, places, side_by_side]
        else:
            places, pairs = None, [image[0], blocks, image[2] + top + bottom, image[3] + left + right, side_by_side]
            function = pair_convolution(pairs, packed, strides, dilation)
        data = self._made(paired_image(image, padding, places), "image_pairs", call.args[0], pairs, padding)
        weights = self._made(paired_filters(filters), "filter_pairs", call.args[1], packed)
        kernel = self.builder_.add_func(function, PAIR_CONVOLUTION)
        return relax.op.call_tir(kernel, [data, weights], call.ty)

    def _is_flat(self, call: Any) -> bool:
        is_short = _two(call.attrs.strides) == (1, 1) and int(call.ty.shape[3]) <= _SHORT_ROW
        return self.bf16_unit == MATRICES and is_short

    def _first_convolution(self, call: Any, image: list[int], filters: list[int]) -> Any:
        """A convolution of pairs, of an image with few channels."""
        attrs = call.attrs
        shape = LineShape(tuple(image), tuple(filters), _two(attrs.strides), _four(attrs.padding))
        layout = (*shape.padding, shape.row_step)
        data = self._made(paired_lines(shape), "image_pairs", call.args[0], list(shape.pairs), layout)
        weights = self._made(paired_line_filters(shape), "filter_pairs", call.args[1], list(shape.filters))
        kernel = self.builder_.add_func(line_convolution(shape), PAIR_CONVOLUTION)
        return relax.op.call_tir(kernel, [data, weights], call.ty)

    def _made(self, function: Any, name: str, data: Any, shape: list[int], layout: Sequence[int] = ()) -> Any:
        """What a kernel makes of a tensor, computed once for all that read it in the same shape and layout."""
        key = (name, data, tuple(shape), tuple(layout))
        if key not in self._pairs:
            kernel = self.builder_.add_func(function, name)
            call = relax.op.call_tir(kernel, [data], relax.TensorType(shape, "float32"))
            self._pairs[key] = self.builder_.emit(call)
        return self._pairs[key]

    def _norm(self, call: Any) -> Any:
        *outer, columns = (int(n) for n in call.ty.shape)
        last = len(outer)
        if not _is_of_rows(call) or not outer or columns % self.lanes:
            return call
        kernel = row_norm(math.prod(outer), columns, self.lanes, float(call.attrs.epsilon))
        flat = [math.prod(outer), columns]
        data = self.builder_.emit(relax.op.reshape(call.args[0], flat)) if last > 1 else call.args[0]
        out = relax.TensorType(flat, "float32") if last > 1 else call.ty
        found = relax.op.call_tir(self.builder_.add_func(kernel, "layer_norm"), [data, *call.args[1:]], out)
        return relax.op.reshape(self.builder_.emit(found), call.ty.shape) if last > 1 else found


def _two(numbers: Any) -> tuple[int, int]:
    first, second = (int(n) for n in numbers)
    return first, second


def _four(numbers: Any) -> tuple[int, int, int, int]:
    top, left, bottom, right = (int(n) for n in numbers)
    return top, left, bottom, right


_BROADCAST = "relax.broadcast_to"
_MATMUL, _CONVOLUTION, _BLOCKED = "relax.matmul", "relax.nn.conv2d", 5
"""Operators with pairs, and the number of axes of an image in a blocked layout."""
_NORM, _SOFTMAX = "relax.nn.layer_norm", "relax.nn.softmax"
_POINTWISE = {
    **dict.fromkeys(("relax.add", "relax.multiply", "relax.subtract", "relax.divide"), 2),
    **dict.fromkeys(("relax.nn.gelu", "relax.nn.gelu_tanh", "relax.nn.relu", "relax.nn.silu", "relax.clip"), 1),
    **dict.fromkeys(("relax.tanh", "relax.sigmoid", "relax.exp", "relax.erf", _NORM, _SOFTMAX), 1),
}
"""Operators that compute each row of a tensor separately, and how many tensors of its shape they may take."""


@mutator
class _InRows(PyExprMutator):  # type: ignore[misc]
    """Moves reshapes from (..., n) to more dimensions behind operators that compute each row of n separately.

    torch.export puts such reshapes around each dense layer and each product of attention, and TVM fuses nothing across
    them. It also broadcasts to the existing shape, which TVM would copy.
    """

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        name = operator_of(call)
        if name == RESHAPE:
            return reshaped_once(self, call)
        if name == PERMUTE:
            return self._permuted_once(call)
        if name == _BROADCAST and structural_equal(call.args[0].ty, call.ty):
            return call.args[0]
        tensors, others = call.args[: _POINTWISE.get(name, 0)], call.args[_POINTWISE.get(name, 0) :]
        # One that is broadcast, such as a column, says nothing of the rows.
        whole = [data for data in tensors if structural_equal(data.ty, call.ty)]
        rows = next((found.ty for data in whole if (found := self._in_rows(data)) is not None), None)
        if rows is None or not _is_of_rows(call):
            return call
        moved = [self._moved(data, call.ty, rows) for data in tensors]
        if None in moved:
            return call
        if name == _NORM:
            computed = relax.op.nn.layer_norm(*moved, *others, axes=[-1], epsilon=call.attrs.epsilon)
        elif name == _SOFTMAX:
            computed = relax.op.nn.softmax(*moved, axis=-1)
        else:
            computed = relax.Call(call.op, [*moved, *others], call.attrs)
        return relax.op.reshape(self.builder_.emit(computed), call.ty.shape)

    def _permuted_once(self, call: Any) -> Any:
        """Merges two consecutive permutations into one; into a reshape if the elements keep their order."""
        made, data, axes = made_by(self, call.args[0], PERMUTE), call.args[0], permuted_axes(call)
        if made is not None:
            data, axes = made.args[0], [permuted_axes(made)[axis] for axis in axes]
        moved = [axis for axis in axes if not is_one(data.ty.shape[axis])]
        if moved != sorted(moved):
            return relax.op.permute_dims(data, axes)
        return data if structural_equal(data.ty, call.ty) else relax.op.reshape(data, call.ty.shape)

    def _in_rows(self, data: Any) -> Any:
        """The lower-dimensional tensor that `data` was reshaped from, if its rows stayed whole."""
        made = made_by(self, data, RESHAPE)
        if made is None or not _DIMENSIONS <= len(made.args[0].ty.shape) < len(made.ty.shape):
            return None
        return made.args[0] if int(made.args[0].ty.shape[-1]) == int(made.ty.shape[-1]) else None

    def _moved(self, data: Any, full: Any, rows: Any) -> Any:
        """An operand in rows; None if it has neither the full shape nor is the same for every row."""
        if structural_equal(data.ty, full):
            found = self._in_rows(data)
            fits = found is not None and structural_equal(found.ty, rows)
            return found if fits else self.builder_.emit(relax.op.reshape(data, rows.shape))
        return data if len(data.ty.shape) < _DIMENSIONS else None


def _is_of_rows(call: Any) -> bool:
    """Whether a call with axes uses only the last one."""
    last = len(call.ty.shape) - 1
    axes = {_NORM: lambda: list(call.attrs.axes), _SOFTMAX: lambda: [call.attrs.axis]}
    given = axes[call.op.name]() if call.op.name in axes else [last]
    return [int(axis) % (last + 1) for axis in given] == [last]
