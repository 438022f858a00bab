"""Provides block_layouts: converts convolutions to blocked layouts, as used by CPU kernel libraries.

In NCHW the innermost loop of a convolution runs over a row of the image, part of which fills a vector; 14 or 7
values do not fill one. In ``NCHW16c`` (Liu et al. 2019, "Optimizing CNN model inference on CPUs", section 3.1) it runs
over 16 adjacent channels, whatever the image, and the weights of 16 by 16 channels are stored in the order in
which they are read. Layouts carry over from one convolution to the next; weights are converted once, like all else that
is computed from weights alone.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, te, topi
from tvm.error import InternalError
from tvm.ir import Op
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.target import codegen
from tvm_ffi import structural_equal

from costhub.collector.workloads.packed_products import pack_products
from costhub.collector.workloads.relax_calls import operator_of

CONVOLUTION = "relax.nn.conv2d"
_PLAIN = ["NCHW", "OIHW", "NCHW"]
_LEAST = 4
"""Channels of a block. With fewer, image rows fill vectors better."""


def vector_lanes(target: Any) -> int:
    """How many float32 numbers a vector register of a CPU holds.

    Example:
        >>> import tvm
        >>> vector_lanes(tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "haswell"}))
        8
    """
    if codegen.target_has_features("avx512f", target):
        return 16
    return 8 if codegen.target_has_features("avx", target) else 4


def block_layouts(mod: Any, lanes: int, *, bf16_unit: str = "") -> Any:
    """Puts the convolutions of ``main`` into blocked layouts, and converts where other operators need the plain one.

    Grouped convolutions other than depthwise ones, and those whose output channels four does not divide, stay as
    they are, and so does a module that TVM cannot convert even when it sees only operators on images.

    Args:
        mod: A relax module whose convolutions are in NCHW.
        lanes: Maximum number of channels in a block (`vector_lanes`).
        bf16_unit: As for `pack_products`.
    """
    passes = relax.transform
    unused = passes.DeadCodeElimination(["main"])
    mod = unused(mod)
    try:
        mod = _converted(mod, lanes)
    except (InternalError, ValueError):  # The latter is TVM's for group normalisation.
        mod = _converted_around_images(mod, lanes)
    if bf16_unit:  # ConvertLayout converts a tensor for each of its readers, and each conversion would be rounded.
        mod = passes.EliminateCommonSubexpr()(mod)
    return passes.CanonicalizeBindings()(unused(pack_products(mod, lanes, bf16_unit=bf16_unit)))


def _converted(mod: Any, lanes: int) -> Any:
    """The module after ConvertLayout; raises InternalError where that fails."""
    mod = relax.transform.ConvertLayout({}, lambda call: _layouts(call, lanes))(mod)
    mod["main"] = _Sunk(mod).visit_expr(mod["main"])
    return mod


def _converted_around_images(mod: Any, lanes: int) -> Any:
    """Like `_converted`, for modules with operators at which ConvertLayout fails: it does not see them.

    It fails at broadcasts between tensors of different rank, such as the embedding of the time in a U-Net, at group
    normalisation, which it takes for one of blocks, and at some operators on other ranks, such as those of torch's
    attention.
    """
    hidden, seen = _Hidden(mod), tvm.IRModule(mod.functions, attrs=mod.attrs, global_infos=mod.global_infos)
    try:
        seen["main"] = hidden.visit_expr(mod["main"])
        seen = _converted(seen, lanes)
        seen["main"] = _Shown(seen, hidden.calls).visit_expr(seen["main"])
    except (InternalError, TypeError, ValueError):  # The last two are TVM's for calls that it cannot make.
        return mod
    return seen


def block_size(channels: int, lanes: int) -> int:
    """The largest power of two up to `lanes` that divides a number of channels.

    Example:
        >>> block_size(64, 16), block_size(24, 16), block_size(3, 16)
        (16, 8, 1)
    """
    size = lanes
    while channels % size:
        size //= 2
    return size


_TRANSFORM = "relax.layout_transform"
_POINTWISE = {"relax.clip": 1, "relax.nn.leakyrelu": 1, "relax.add": 2, "relax.multiply": 2}
"""Elementwise operators around which ConvertLayout may convert back and forth, and their number of tensors."""


_ON_IMAGES = frozenset(
    f"relax.{name}"
    for name in (
        *("nn.conv2d", "nn.max_pool2d", "nn.avg_pool2d", "nn.adaptive_avg_pool2d", "concat", "clip", "sigmoid", "tanh"),
        *("nn.relu", "nn.leakyrelu", "nn.gelu", "nn.silu", "exp", "add", "subtract", "multiply", "divide"),
    )
)
"""Operators that ConvertLayout sees in any case, if all their tensors are images or single numbers."""
_IMAGE_RANK = 4
_PACKED = "relax.call_pure_packed"


@mutator
class _Hidden(PyExprMutator):  # type: ignore[misc]
    """Makes calls of unknown functions of all operators but those on images, so that no pass looks into them."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.calls: dict[str, Any] = {}
        """Name of the function -> the call."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if not isinstance(call.op, Op) or (call.op.name in _ON_IMAGES and _is_on_images(call)):
            return call
        name = f"costhub.hidden.{len(self.calls)}"
        self.calls[name] = call
        return relax.call_pure_packed(name, *call.args, ty_args=call.ty)


@mutator
class _Shown(PyExprMutator):  # type: ignore[misc]
    """Undoes `_Hidden`."""

    def __init__(self, mod: Any, calls: dict[str, Any]) -> None:
        super().__init__(mod)
        self._calls = calls

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if operator_of(call) != _PACKED:
            return call
        hidden = self._calls[str(call.args[0].global_symbol)]  # Packed calls of the network's own were hidden too.
        return relax.Call(hidden.op, list(call.args)[1:], hidden.attrs, hidden.ty_args)


def _is_on_images(call: Any) -> bool:
    types = [call.ty, *(argument.ty for argument in call.args if not isinstance(argument.ty, tvm.ir.PrimType))]
    fields = [field for ty in types for field in (ty.fields if isinstance(ty, relax.TupleType) else [ty])]
    return all(getattr(ty, "ndim", None) in (0, _IMAGE_RANK) for ty in fields)


@mutator
class _Sunk(PyExprMutator):  # type: ignore[misc]
    """Moves conversions behind pointwise operators, where they meet their inverse, and removes both."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        name = operator_of(call)
        tensors = 1 if name == _TRANSFORM else _POINTWISE.get(name, 0)
        made = [self._converted(data) for data in call.args[:tensors]]
        if not made or None in made:
            return call
        inner = [conversion.args[0] for conversion in made]
        if name == _TRANSFORM:
            return inner[0] if structural_equal(inner[0].ty, call.ty) else call
        if not all(structural_equal(data.ty, inner[0].ty) for data in inner):
            return call
        computed = self.builder_.emit(relax.Call(call.op, [*inner, *call.args[tensors:]], call.attrs))
        return relax.Call(made[0].op, [computed], made[0].attrs)

    def _converted(self, data: Any) -> Any:
        """The call that made `data`, if it is a conversion to the plain layout."""
        made: Any = self.lookup_binding(data) if isinstance(data, relax.Var) else None
        if operator_of(made) != _TRANSFORM:
            return None
        return made if len(made.ty.shape) < len(made.args[0].ty.shape) else None


def _layouts(call: Any, lanes: int) -> dict[str, list[str]]:
    """The layouts of the data, the weights and the result of a call, as ConvertLayout expects them."""
    if operator_of(call) != CONVOLUTION:
        return {}
    return {CONVOLUTION: _blocked(call, lanes) or _PLAIN}


def _blocked(call: Any, lanes: int) -> list[str] | None:
    data, weights = (argument.ty for argument in call.args)
    if call.attrs.data_layout != "NCHW" or call.attrs.kernel_layout != "OIHW" or data.dtype != "float32":
        return None
    channels, outputs, groups = int(data.shape[1]), int(weights.shape[0]), int(call.attrs.groups)
    out = block_size(outputs, lanes)
    if out < _LEAST:
        return None
    if groups == 1:
        # The three channels of an image form one block.
        own = channels if channels < _LEAST else block_size(channels, lanes)
        return [f"NCHW{own}c", f"OIHW{own}i{out}o", f"NCHW{out}c"]
    if groups == channels == outputs:
        return [f"NCHW{out}c", f"OIHW1i{out}o", f"NCHW{out}c"]
    return None


def legalize_convolution(builder: Any, call: Any) -> Any:
    """The kernel of a convolution in a blocked layout, for LegalizeOps; TVM has none for those made here."""
    attrs, (data, weights) = call.attrs, call.args
    groups = int(attrs.groups)
    if not _is_in_blocks(attrs) or (groups > 1 and not _is_depthwise(data.ty.shape, weights.ty.shape, groups)):
        return Op.get(CONVOLUTION).get_attr("FLegalize")(builder, call)  # as the module has it
    numbers = ([int(n) for n in given] for given in (attrs.strides, attrs.padding, attrs.dilation))
    if groups > 1:
        return builder.call_te(_depthwise, data, weights, *numbers, primfunc_name_hint="depthwise_conv2d_NCHWc")
    return builder.call_te(
        topi.nn.conv2d_NCHWc,
        data,
        weights,
        *numbers,
        attrs.data_layout,
        attrs.out_layout,
        "float32",
        primfunc_name_hint="conv2d_NCHWc",
    )


def _is_in_blocks(attrs: Any) -> bool:
    """Whether a convolution's layout is such as NCHW16c."""
    layout = str(attrs.data_layout)
    return layout.startswith("NCHW") and len(layout) > len("NCHW")


def _is_depthwise(data: Any, weights: Any, groups: int) -> bool:
    """Whether each group has one channel in and one out, given shapes as for `_depthwise`."""
    return groups == int(data[1]) * int(data[4]) == int(weights[0]) * int(weights[5])


def _depthwise(data: Any, weights: Any, strides: list[int], padding: list[int], dilation: list[int]) -> Any:
    """A depthwise convolution.

    `data` is (n, c / b, h, w, b), `weights` (c / b, 1, h, w, 1, b).
    """
    top, left, bottom, right = padding
    padded = data
    if any(padding):
        padded = topi.nn.pad(data, (0, 0, top, left, 0), (0, 0, bottom, right, 0), name="data_pad")
    images, chunks, height, width, block = padded.shape
    rows, columns = weights.shape[2:4]
    spans = [1 + step * (size - 1) for size, step in zip((rows, columns), dilation, strict=True)]
    shape = (
        images,
        chunks,
        (height - spans[0]) // strides[0] + 1,
        (width - spans[1]) // strides[1] + 1,
        block,
    )
    row, column = te.reduce_axis((0, rows), name="kh"), te.reduce_axis((0, columns), name="kw")

    def multiplied(n: Any, chunk: Any, y: Any, x: Any, lane: Any) -> Any:
        down, along = y * strides[0] + row * dilation[0], x * strides[1] + column * dilation[1]
        return te.sum(padded[n, chunk, down, along, lane] * weights[chunk, 0, row, column, 0, lane], axis=[row, column])

    return te.compute(shape, multiplied, name="depthwise_conv2d_NCHWc", tag="depthwise_conv2d_NCHWc")
