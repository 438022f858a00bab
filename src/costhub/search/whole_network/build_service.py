"""Provides handle: compiles a network in a child process, which TVM may bring down."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costhub.dataset.intrinsics import load_intrinsics
from costhub.errors import class_and_line
from costhub.search.whole_network.compile import CompiledNetwork, compile_network


@dataclass(frozen=True)
class BuildNetworkRequest:
    """Asks for a network with the schedules of a database, and without."""

    network: str
    """What `read_network` takes."""
    target: str
    """The TVM target, as JSON."""
    database: str
    """The folder of the MetaSchedule database."""
    tuned: str
    """The library to write with the database,"""
    untuned: str
    """and the one without."""
    fast_math: bool = False
    """Of the first; the other is what TVM makes by default."""


@dataclass(frozen=True)
class BuildNetworkReply:
    """What became of it."""

    compiled: CompiledNetwork
    inputs: tuple[Any, ...]
    """An example of each input, as NumPy arrays."""


def handle(request: BuildNetworkRequest) -> BuildNetworkReply | str:
    """Both libraries; a reason where torch or TVM fails."""
    import numpy as np
    import tvm

    from costhub.collector.workloads.network_source import read_network

    try:
        target = tvm.target.Target(json.loads(request.target))
        load_intrinsics(str(target.kind.name))
        source = read_network(request.network)
        compiled = compile_network(
            source, target, Path(request.database), Path(request.tuned), fast_math=request.fast_math
        )
        compile_network(source, target, None, Path(request.untuned))
    except Exception as error:
        return class_and_line(error)
    return BuildNetworkReply(compiled, tuple(distinguishing_input(np.asarray(value)) for value in source.inputs))


def distinguishing_input(example: Any) -> Any:
    """An input whose outputs tell networks apart: floating point numbers that are all alike become others in [0.1, 1).

    People export networks with `torch.zeros`. Integers may be indices, so they stay; a network may take the
    root of a number, so none is negative.

    Example:
        >>> import numpy as np
        >>> bool(distinguishing_input(np.zeros(2)).std() > 0), distinguishing_input(np.array([1.0, 2.0]))
        (True, array([1., 2.]))
    """
    import numpy as np

    if example.dtype.kind != "f" or example.size < 2 or example.std() > 0:
        return example
    return np.random.default_rng(0).uniform(0.1, 1.0, example.shape).astype(example.dtype)
