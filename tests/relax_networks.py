"""Networks as relax modules, for the tests of several folders."""

from __future__ import annotations

from collections import Counter
from typing import Any


def two_layers(outputs: int) -> Any:
    """relu(x w1) w2 with 32 rows, 64 inputs, 48 numbers between the layers and some outputs."""
    from tvm import relax

    shapes = {"x": (32, 64), "w1": (64, 48), "w2": (48, outputs)}
    x, w1, w2 = (relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in shapes.items())
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w1, w2]):
        with builder.dataflow():
            hidden = builder.emit(relax.op.nn.relu(builder.emit(relax.op.matmul(x, w1))))
            out = builder.emit_output(relax.op.matmul(hidden, w2))
        builder.emit_func_output(out)
    return builder.get()


def compiled(network: Any, example: Any, lanes: int = 16, *, bf16_unit: str = "") -> tuple[Any, Counter[str]]:
    """What a network computes, and how often it calls each kernel, without TVM's numbers."""
    import tvm

    from costhub.collector.workloads.relax_import import TRANSFORM_PARAMS, fuse, import_network

    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    mod, tensors = import_network(network.eval(), (example,), lanes=lanes, bf16_unit=bf16_unit)
    fused = fuse(mod, target)
    built = tvm.compile(fused, target=target)
    machine = tvm.relax.VirtualMachine(built, tvm.cpu())
    given = [tvm.runtime.tensor(tensor.detach().numpy()) for tensor in tensors]
    weights = machine[TRANSFORM_PARAMS](tuple(given))
    called: Counter[str] = Counter()
    for block in fused["main"].body.blocks:
        for binding in block.bindings:
            (kernel, *_) = getattr(binding.value, "args", None) or (None,)
            if isinstance(kernel, tvm.ir.GlobalVar):
                called["".join(letter for letter in kernel.name_hint if not letter.isdigit())] += 1
    return machine["main"](tvm.runtime.tensor(example.numpy()), *weights)[0].numpy(), called
