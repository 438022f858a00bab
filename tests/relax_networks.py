"""Networks as relax modules, for the tests of several folders."""

from __future__ import annotations

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
