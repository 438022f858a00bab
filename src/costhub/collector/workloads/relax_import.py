"""Provides import_network and fuse: turns a torch network into a relax module and kernels, perhaps with fast math.

Fast math (`FAST_MATH`): TVM hands these functions to LLVM, which calls the C library for every element; no schedule
changes that. From TVM's own polynomials (`topi.fast_exp`, `fast_tanh`, `fast_erf`) LLVM makes vector instructions.
The results differ in the last digits of a float32; other types are computed as always.

`relax.transform.FastMathTransform` does the same to four operators, and leaves gelu, silu and sigmoid.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import tvm
from torch import Tensor, export, func, no_grad
from torch.nn import Module
from tvm import relax, tirx, topi
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.relax.frontend.torch import from_exported_program

from costhub.collector.workloads.blocked_layouts import CONVOLUTION, block_layouts, legalize_convolution
from costhub.collector.workloads.relax_calls import INJECTIVE, operator_of
from costhub.collector.workloads.row_norms import row_softmax

if TYPE_CHECKING:
    from torch.fx import Node

TRANSFORM_PARAMS = "main_transform_params"
"""The function that `import_network` adds beside ``main``: computations on weights alone."""
_LANES = "costhub.lanes"
"""Attribute of a module in blocked layouts: channels in a block."""
_SOFTMAX = "relax.nn.softmax"

# Convolutions and the axis of their weights that runs over the output's channels.
_OUTPUT_AXIS = {
    "relax.nn.conv1d": 0,
    "relax.nn.conv2d": 0,
    "relax.nn.conv3d": 0,
    "relax.nn.conv1d_transpose": 1,
    "relax.nn.conv2d_transpose": 1,
    "relax.nn.conv3d_transpose": 1,
}


def import_network(
    network: Module, inputs: Sequence[Any], *, lanes: int = 0, bf16_unit: str = ""
) -> tuple[Any, list[Tensor]]:
    """Imports a torch network as relax operators, with its weights as arguments.

    As arguments, weights cost nothing: networks and inputs on torch's ``meta`` device suffice. Batch
    normalisation after a convolution is folded into the convolution's weights, as in every deployment.

    Args:
        network: The network, in evaluation mode.
        inputs: Inputs of its ``forward``, by position.
        lanes: Maximum channels in a block, if convolutions should use blocked layouts (`block_layouts`); 0 for
            none.
        bf16_unit: What multiplies in bfloat16 (``vectors`` or ``matrices``); "" for float32.

    Returns:
        The module (``tvm.IRModule``), whose ``main`` takes the inputs and the values that ``main_transform_params``
        returns for the tuple of tensors; and these tensors, parameters before buffers.

    Raises:
        Exception: Whatever torch.export or TVM's importer raises for a network that it does not support.
    """
    mod, tensors = export_network(network, inputs)
    return lift_weights(mod, lanes, bf16_unit=bf16_unit), tensors


def export_network(network: Module, inputs: Sequence[Any]) -> tuple[Any, list[Tensor]]:
    """Like `import_network`, before computations on weights alone are split off: ``main`` takes the weights."""
    named = dict([*network.named_parameters(), *network.named_buffers()])
    tensors = list(named.values())
    with no_grad(), warnings.catch_warnings():
        # torch.export warns about parts of torch that it uses itself.
        warnings.simplefilter("ignore", FutureWarning)
        program = export.export(_Functional(network, tuple(named)), (tuple(inputs), tuple(tensors)))
        mod = from_exported_program(
            program,
            custom_convert_map={"_native_batch_norm_legit_no_training.default": _batch_norm, "select.int": _select},
        )
    arity = len(mod["main"].params) - len(tensors)
    mod["main"] = mod["main"].with_attr("num_input", arity)
    passes = relax.transform
    return tvm.ir.transform.Sequential([passes.DecomposeOpsForInference(), passes.CanonicalizeBindings()])(mod), tensors


def lift_weights(mod: Any, lanes: int = 0, *, bf16_unit: str = "") -> Any:
    """Moves computations on weights alone to ``main_transform_params``; the given module is not changed.

    Args:
        mod: The result of `export_network`.
        lanes: As for `import_network`.
        bf16_unit: As for `import_network`.
    """
    if not lanes:
        return relax.transform.LiftTransformParams()(mod)
    blocked = relax.transform.LiftTransformParams()(block_layouts(mod, lanes, bf16_unit=bf16_unit))
    return blocked.with_attr(_LANES, lanes)


def fuse(mod: Any, target: Any, *, fast_math: bool = False) -> Any:
    """The kernels of a relax module: TIR functions, neighbours fused as in TVM's own pipeline.

    Args:
        mod: The result of `import_network`, with or without ``main_transform_params``.
        target: A ``tvm.target.Target``.
        fast_math: Whether exp, tanh and erf are TVM's polynomials (`costhub.collector.workloads.relax_import`).
    """
    passes = relax.transform
    graphs = [g for g in mod.get_global_vars() if isinstance(mod[g], relax.Function)]
    for name in graphs:
        mod[name] = _OneName(mod).visit_expr(mod[name])
    legalize = {CONVOLUTION: legalize_convolution, **(FAST_MATH if fast_math else {})}
    if mod.attrs and _LANES in mod.attrs:
        legalize[_SOFTMAX] = partial(_softmax_in_lanes, lanes=int(mod.attrs[_LANES]), fast=fast_math)
    with target:
        return tvm.ir.transform.Sequential(
            [
                passes.LegalizeOps(legalize),
                _ConversionsFuse(),
                passes.AnnotateTIROpPattern(),
                passes.FoldConstant(),
                passes.FuseOps(),
                passes.FuseTIR(),
                passes.DeadCodeElimination([g.name_hint for g in graphs]),
            ]
        )(mod)


@tvm.ir.transform.module_pass(opt_level=0, name="ConversionsFuse")
class _ConversionsFuse:
    """Marks kernels that convert a layout as fusible: TVM cannot infer this because of their divisions."""

    def transform_module(self, mod: Any, context: Any) -> Any:
        found = [g for g in mod.get_global_vars() if g.name_hint.startswith("te_layout_transform")]
        for name in found:
            mod[name] = mod[name].with_attr("op_pattern", INJECTIVE)
        return mod


class _Functional(Module):
    """A network whose parameters and buffers are arguments."""

    def __init__(self, network: Module, names: tuple[str, ...]) -> None:
        super().__init__()
        # Inside a tuple torch does not find the network, so export does not turn its weights into constants.
        self.hidden = (network, names)

    def forward(self, inputs: tuple[Any, ...], tensors: tuple[Tensor, ...]) -> Any:
        network, names = self.hidden
        return func.functional_call(network, dict(zip(names, tensors, strict=True)), inputs)


@mutator
class _OneName(PyExprMutator):  # type: ignore[misc]
    """Gives every variable of a function the same name.

    LegalizeOps names buffers and blocks after them, and a kernel should be identical in every network.
    """

    def visit_function_(self, function: Any) -> Any:
        params = [self._renamed(param) for param in function.params]
        body = self.visit_with_new_scope(function.body)
        return relax.Function(params, body, function.ret_ty, function.is_pure, function.attrs)

    def visit_var_def_(self, var: Any) -> Any:
        return self._renamed(var)

    def visit_dataflow_var_def_(self, var: Any) -> Any:
        return self._renamed(var)

    def _renamed(self, var: Any) -> Any:
        renamed = type(var)("data", var.ty)
        self.set_var_remap(var, renamed)
        return renamed


def _select(node: Node, importer: Any) -> Any:
    """One index of an axis; TVM's importer takes -1 literally, so the kernel reads memory before the tensor."""
    x, axis, index = importer.retrieve_args(node)
    counted = index if index >= 0 else int(x.ty.shape[axis]) + index
    return importer.block_builder.emit(relax.op.take(x, relax.const(counted, "int64"), axis))


def _batch_norm(node: Node, importer: Any) -> Any:
    """Batch normalisation in evaluation mode as scale and shift, which depend only on weights."""
    emit, op = importer.block_builder.emit, relax.op
    x, weight, bias, mean, variance, _, epsilon = importer.retrieve_args(node)
    deviation = emit(op.sqrt(emit(op.add(variance, relax.const(epsilon, variance.ty.dtype)))))
    numerator = weight if weight is not None else relax.const(1.0, variance.ty.dtype)
    scale = emit(op.divide(numerator, deviation))
    scaled, added = _into_convolution(node, importer, x, scale)
    centre = mean if added is None else emit(op.subtract(mean, added))
    shift = emit(op.negative(emit(op.multiply(centre, scale))))
    if bias is not None:
        shift = emit(op.add(bias, shift))
    rank = len(x.ty.shape)
    by_channel = (1, -1, *[1] * (rank - 2))
    if scaled is None:
        scaled = emit(op.multiply(x, emit(op.reshape(scale, by_channel))))
    return emit(relax.Tuple([emit(op.add(scaled, emit(op.reshape(shift, by_channel))))]))


def _into_convolution(node: Node, importer: Any, x: Any, scale: Any) -> tuple[Any, Any]:
    """The convolution that made `x`, with scaled weights, and the bias to be scaled too; None where there is none."""
    builder, op, source = importer.block_builder, relax.op, node.all_input_nodes[0]
    call, bias = builder.lookup_binding(x), None
    # The importer adds the bias after the convolution; a sum of the network's own is another node.
    if operator_of(call) == "relax.add" and "conv" in str(source.target):
        reshaped = builder.lookup_binding(call.args[1])
        if operator_of(reshaped) == "relax.reshape":
            call, bias = builder.lookup_binding(call.args[0]), reshaped.args[0]
    axis = _OUTPUT_AXIS.get(operator_of(call))
    if axis is None or len(source.users) > 1 or (axis and call.attrs.groups > 1):
        return None, None
    by_channel = [1] * len(x.ty.shape)
    by_channel[axis] = -1
    weights = builder.emit(op.multiply(call.args[1], builder.emit(op.reshape(scale, by_channel))))
    return builder.emit(relax.Call(call.op, [call.args[0], weights], call.attrs)), bias


Legalize = Callable[[Any, Any], Any]
"""``(block builder, call) -> call``, as expected by LegalizeOps."""


def _sigmoid(x: Any) -> Any:
    one = tirx.const(1.0, x.dtype)
    return topi.divide(one, topi.add(one, topi.fast_exp(topi.negative(x))))


def _silu(x: Any) -> Any:
    return topi.multiply(x, _sigmoid(x))


def _gelu(x: Any) -> Any:
    half = tirx.const(0.5, x.dtype)
    erf = topi.fast_erf(topi.multiply(x, tirx.const(0.5**0.5, x.dtype)))
    return topi.multiply(x, topi.add(half, topi.multiply(half, erf)))


def _gelu_tanh(x: Any) -> Any:
    """Hendrycks and Gimpel 2016, section 2."""
    one, half, cubic, scale = (tirx.const(c, x.dtype) for c in (1.0, 0.5, 0.044715, (2.0 / math.pi) ** 0.5))
    inner = x * scale * (one + cubic * x * x)
    return topi.multiply(topi.multiply(half, x), topi.add(one, topi.fast_tanh(inner)))


def _elementwise(name: str, compute: Callable[[Any], Any]) -> Legalize:
    def legalize(builder: Any, call: Any) -> Any:
        return builder.call_te(compute, call.args[0], primfunc_name_hint=f"fast_{name}")

    return legalize


def _softmax(builder: Any, call: Any) -> Any:
    return builder.call_te(topi.nn.fast_softmax, call.args[0], call.attrs.axis, primfunc_name_hint="fast_softmax")


def softmax_of_tvm(builder: Any, call: Any, *, fast: bool) -> Any:
    """Softmax as TVM computes it: along any axis, one number after the other."""
    return (_softmax if fast else tvm.ir.Op.get(_SOFTMAX).get_attr("FLegalize"))(builder, call)


def _softmax_in_lanes(builder: Any, call: Any, *, lanes: int, fast: bool) -> Any:
    """Softmax along rows of at least a vector, summed in lanes; any other as without lanes."""
    (data,), shape = call.args, call.ty.shape
    is_static = all(isinstance(n, tirx.IntImm) for n in shape)
    is_of_rows = int(call.attrs.axis) in (-1, len(shape) - 1) and data.ty.dtype == "float32"
    if not (is_static and is_of_rows and len(shape) > 1 and int(shape[-1]) >= lanes):
        return softmax_of_tvm(builder, call, fast=fast)
    kernel = builder.add_func(row_softmax([int(n) for n in shape], lanes, fast=fast), "softmax")
    return relax.op.call_tir(kernel, [data], call.ty)


FAST_MATH: dict[str, Legalize] = {
    "relax.exp": _elementwise("exp", topi.fast_exp),
    "relax.tanh": _elementwise("tanh", topi.fast_tanh),
    "relax.erf": _elementwise("erf", topi.fast_erf),
    "relax.sigmoid": _elementwise("sigmoid", _sigmoid),
    "relax.nn.silu": _elementwise("silu", _silu),
    "relax.nn.gelu": _elementwise("gelu", _gelu),
    "relax.nn.gelu_tanh": _elementwise("gelu_tanh", _gelu_tanh),
    _SOFTMAX: _softmax,
}
"""Relax operator -> how it is legalised."""
