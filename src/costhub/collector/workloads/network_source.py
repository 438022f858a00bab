"""Provides read_network: reads a network as torch code and as a relax module, by name or from a file."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from costhub.collector.workloads.exported_file import load_exported
from costhub.collector.workloads.zoo.networks import NETWORKS
from costhub.dataset.tile_intrinsics import MATRICES, VECTORS, has_matrix_units
from costhub.errors import ArgumentError, UnknownNameError, WorkloadError, last_line
from costhub.files import read_regular
from costhub.names import close_names

_MOST_JSON_BYTES = 1 << 30

BLOCKED, PLAIN = "blocked", "plain"
LAYOUTS = (BLOCKED, PLAIN)
FLOAT32, BF16 = "float32", "bf16"
PRECISIONS = (FLOAT32, BF16)

RELAX, TORCH = ".json", ".pt2"
"""File name extensions of networks written by `tvm.ir.save_json` and ``torch.export.save``."""


@dataclass(frozen=True)
class Lowering:
    """How the operators of a network become kernels; each way produces different workloads.

    Example:
        >>> Lowering(layout="blocked").lanes('{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "haswell"}')
        8

    Raises:
        UnknownNameError: The layout or the precision is unknown.
        ArgumentError: The precision needs another layout.
    """

    fast_math: bool = False
    """Whether exp, tanh and erf are TVM's polynomials, which LLVM vectorises."""
    layout: str = PLAIN
    """``blocked``: convolutions for CPUs in blocked layouts, as `block_layouts` makes them; ``plain``: as in torch."""
    precision: str = FLOAT32
    """``bf16``: in blocked layouts, convolutions and products with weights multiply in bfloat16 and add in float32; in
    matrix units, products of two activations do, too."""

    def __post_init__(self) -> None:
        for name, known in (("layout", LAYOUTS), ("precision", PRECISIONS)):
            given = getattr(self, name)
            if given not in known:
                raise UnknownNameError(name, given, close_names(given, known), "`costhub tune --help`", known)
        if self.is_bf16 and self.layout != BLOCKED:
            raise ArgumentError("The precision bf16 needs the layout blocked, in which its kernels are written.")

    @property
    def is_bf16(self) -> bool:
        """Whether factors are rounded to bfloat16."""
        return self.precision == BF16

    def check(self, target: str, networks: Sequence[str]) -> None:
        """Refuses a precision that a target or a network cannot have.

        Args:
            target: The TVM target, as JSON.
            networks: What `read_network` takes.

        Raises:
            ArgumentError: The target computes in float32 only, or a network is a relax module.
        """
        self.check_networks(networks)
        if self.is_bf16 and not multiplies_bf16(target):
            raise ArgumentError(
                "The precision bf16 needs a CPU with AVX512-BF16 (AMD since Zen 4, Intel Xeon since Sapphire Rapids), "
                "and the target has no such instructions. Leave --precision out."
            )

    def check_networks(self, networks: Sequence[str]) -> None:
        """Refuses a precision that a network cannot have; nothing is read.

        Args:
            networks: What `read_network` takes.

        Raises:
            ArgumentError: A network is a relax module.
        """
        own = next((name for name in networks if Path(name).suffix == RELAX), None)
        if self.is_bf16 and own is not None:
            raise ArgumentError(f"{own} is a relax module, which keeps its own types. Leave --precision out.")

    def bf16_unit(self, target: str) -> str:
        """What multiplies in bfloat16 on a target (JSON): ``vectors`` or ``matrices``; nothing if factors are float32.

        Example:
            >>> xeon = '{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "sapphirerapids"}'
            >>> Lowering(layout="blocked", precision="bf16").bf16_unit(xeon)
            'matrices'
        """
        import tvm

        if not self.is_bf16:
            return ""
        return MATRICES if has_matrix_units(tvm.target.Target(json.loads(target))) else VECTORS

    def lanes(self, target: str) -> int:
        """Maximum number of channels in a block for a target (JSON); 0 if no layout changes."""
        import tvm

        from costhub.collector.workloads.blocked_layouts import vector_lanes

        parsed = tvm.target.Target(json.loads(target))
        return vector_lanes(parsed) if self.layout == BLOCKED and parsed.kind.name == "llvm" else 0


def multiplies_bf16(target: str) -> bool:
    """Whether a target (JSON) has the instructions of `costhub.dataset.intrinsics.register_pairs`.

    Example:
        >>> multiplies_bf16('{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver4"}')
        True
    """
    import tvm

    parsed = tvm.target.Target(json.loads(target))
    return parsed.kind.name == "llvm" and bool(tvm.target.codegen.target_has_features("avx512bf16", parsed))


def hides_matrix_units(target: str) -> bool:
    """Whether a target is that of a CPU with matrix units (AMX) that a hypervisor hides, as `local_target` finds it.

    Args:
        target: A TVM target as JSON.

    Example:
        >>> hides_matrix_units('{"kind": "llvm", "mcpu": "sapphirerapids", "mattr": ["-amx-tile", "-amx-bf16"]}')
        True
    """
    return "-amx-bf16" in (json.loads(target).get("mattr") or ())


AS_IN_TORCH = Lowering()
"""TVM's own default lowering."""


@dataclass(frozen=True)
class NetworkSource:
    """A network and an input for it."""

    mod: Any
    """The relax module; its ``main`` takes the inputs, then the result of `transform` on the weights."""
    transform: Any | None
    """A module whose ``main`` computes the remaining arguments from the tuple of weights; None for a relax file."""
    weights: tuple[Any, ...]
    """The weights (``torch.Tensor``), without content if the device is ``meta``."""
    inputs: tuple[Any, ...]
    """An example of each input: tensors of torch, or NumPy arrays for a relax file."""
    torch: Any | None
    """The ``torch.nn.Module``; None for a relax file."""
    exported: Any | None = None
    """The relax module whose ``main`` takes the weights themselves; None for a relax file."""
    open_sizes: Mapping[str, int] = field(default_factory=dict)
    """Places where the export leaves a size open (``axis 0 of x``) -> the size of the example, which is used."""

    def in_blocks(self, lanes: int, *, bf16_unit: str = "") -> NetworkSource:
        """The same network with convolutions in blocked layouts; a relax file keeps its own layouts.

        Args:
            lanes: Maximum number of channels in a block (`Lowering.lanes`); 0 for torch's layouts.
            bf16_unit: What multiplies in bfloat16 (`Lowering.bf16_unit`); "" for float32.
        """
        if not lanes or self.exported is None:
            return self
        mod, transform = _lifted(self.exported, lanes, bf16_unit=bf16_unit)
        return replace(self, mod=mod, transform=transform)


def read_network(name: str, *, device: str = "cpu", lanes: int = 0, bf16_unit: str = "") -> NetworkSource:
    """Reads a network.

    Args:
        name: A name of the zoo, or the path of what ``torch.export.save`` or ``tvm.ir.save_json`` wrote.
        device: ``meta`` for a torch network without weights, which takes no time and no memory.
        lanes: Most channels in a block, for convolutions in blocked layouts (`Lowering.lanes`); a relax module
            keeps its own layouts.
        bf16_unit: What multiplies in bfloat16 (`Lowering.bf16_unit`); "" for float32.

    Raises:
        WorkloadError: The file holds no network whose inputs are tensors of known sizes.
        Exception: Whatever torch or TVM raises for a network that it does not support.
    """
    from costhub.collector.workloads.relax_import import export_network

    if Path(name).suffix == RELAX:
        mod = _read_relax(Path(name))
        return NetworkSource(mod, None, (), tuple(_example(p) for p in mod["main"].params), None)
    network, inputs, open_sizes = _read_torch(name, device)
    exported, weights = export_network(network, inputs)
    mod, transform = _lifted(exported, lanes, bf16_unit=bf16_unit)
    return NetworkSource(mod, transform, tuple(weights), inputs, network, exported, open_sizes)


def _lifted(exported: Any, lanes: int, *, bf16_unit: str = "") -> tuple[Any, Any]:
    """The module of a network, and the one that computes its remaining arguments from the weights."""
    import tvm
    from tvm import relax

    from costhub.collector.workloads.relax_import import TRANSFORM_PARAMS, lift_weights

    mod = lift_weights(exported, lanes, bf16_unit=bf16_unit)
    unused = relax.transform.DeadCodeElimination(["main"])
    transform = tvm.IRModule({g: f for g, f in mod.functions.items() if g.name_hint not in ("main", TRANSFORM_PARAMS)})
    transform["main"] = mod[TRANSFORM_PARAMS].with_attr("global_symbol", "main")
    del mod[TRANSFORM_PARAMS]
    return unused(mod), unused(transform)


def read_torch(name: str, *, device: str = "cpu") -> tuple[Any, tuple[Any, ...]]:
    """The ``torch.nn.Module`` of a network in evaluation mode, and an example of its inputs.

    Raises:
        WorkloadError: A file contains what could run, or was exported with inputs that are not tensors by position, or
            in float16 or bfloat16.
    """
    network, inputs, _ = _read_torch(name, device)
    return network, inputs


def _read_torch(name: str, device: str) -> tuple[Any, tuple[Any, ...], dict[str, int]]:
    """Like `read_torch`, plus the sizes that a file leaves open."""
    if name in NETWORKS:
        network = NETWORKS[name]
        if device == "meta":
            return network.build(device=device), network.examples(device=device), {}
        # Random weights of a GPU would be other ones.
        return network.build().to(device), tuple(value.to(device) for value in network.examples()), {}
    import torch
    from torch.export.passes import move_to_device_pass

    program = load_exported(name)
    inputs, by_keyword = program.example_inputs or ((), {})
    if by_keyword or not inputs or not all(isinstance(value, torch.Tensor) for value in inputs):
        why = "no inputs"
        if by_keyword or inputs:
            why = f"keyword inputs ({', '.join(by_keyword)})" if by_keyword else "inputs that are not tensors"
        raise WorkloadError(
            f"it was exported with {why}; export a module whose forward takes tensors by position and passes them on, "
            "such as `def forward(self, ids, mask): return self.network(ids, mask=mask)`: "
            "torch.export.export(module, (ids, mask))"
        )
    _refuse_half(program, inputs)
    with warnings.catch_warnings():
        # torch copies an exported program with a part of itself that triggers its own warning.
        warnings.simplefilter("ignore", FutureWarning)
        # `to` would not move tensors that the network creates itself, such as masks.
        moved = move_to_device_pass(program, device).module()
    return moved, tuple(value.detach().to(device) for value in inputs), _open_sizes(program, inputs)


def _refuse_half(program: Any, inputs: Sequence[Any]) -> None:
    """Refuses an exported program in 16-bit numbers before a search: TVM would fail to compile it at the end.

    Raises:
        WorkloadError: Some of it is in bfloat16, or all of it in float16.
    """
    import torch

    weights = {value.dtype for value in program.state_dict.values() if value.is_floating_point()}
    types = weights | {value.dtype for value in inputs if value.is_floating_point()}
    if torch.bfloat16 in types:
        half, how = "bfloat16", "; for products in bfloat16, add --precision bf16 (precision= in Python)"
    elif torch.float16 in (weights or types) and torch.float32 not in types:
        half, how = "float16", ""
    else:
        return
    raise WorkloadError(
        f"it was exported in {half}; export it in float32, with network.float() and float32 inputs{how}"
    )


def _open_sizes(program: Any, inputs: Sequence[Any]) -> dict[str, int]:
    """Places where an exported program leaves sizes open -> their values in its example; one entry per symbol."""
    import torch

    arguments = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    places: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for name, example in zip(program.graph_signature.user_inputs, inputs, strict=True):
        for axis, extent in enumerate(getattr(arguments.get(name), "shape", ())):
            if isinstance(extent, torch.SymInt):
                places.setdefault(str(extent), []).append(f"axis {axis} of {name}")
                sizes[str(extent)] = int(example.shape[axis])
    return {" and ".join(found): sizes[symbol] for symbol, found in places.items()}


def _read_relax(path: Path) -> Any:
    import tvm
    from tvm import relax

    try:
        mod = tvm.ir.load_json(read_regular(path, limit=_MOST_JSON_BYTES, error=WorkloadError).decode("utf-8"))
    except Exception as error:
        raise WorkloadError(f"it is not a module in TVM's JSON: {last_line(error)}") from error
    if isinstance(mod, relax.Function):
        mod = tvm.IRModule({"main": mod.with_attr("global_symbol", "main")})
    names = [g.name_hint for g in mod.get_global_vars()] if isinstance(mod, tvm.IRModule) else []
    if "main" not in names or not isinstance(mod["main"], relax.Function):
        raise WorkloadError("it holds no relax function named main")
    passes = relax.transform
    steps = [passes.Normalize(), passes.DecomposeOpsForInference(), passes.CanonicalizeBindings()]
    return tvm.ir.transform.Sequential(steps)(mod)


def _example(param: Any) -> Any:
    """Normally distributed numbers, or zeros and ones if they may be indices, in the shape of an argument."""
    shape = getattr(getattr(param.ty, "shape", None), "values", None)
    if shape is None or not all(hasattr(extent, "value") for extent in shape):
        raise WorkloadError(
            f"the argument {param.name} of main is not a tensor of known size; "
            "tvm.relax.transform.BindSymbolicVars gives an open size a value"
        )
    extents, dtype = tuple(int(extent) for extent in shape), str(param.ty.dtype)
    drawn = np.random.default_rng(sum(extents) + len(extents))
    if "float" in dtype:
        return drawn.standard_normal(extents).astype(dtype)
    return drawn.integers(2, size=extents).astype(dtype)
