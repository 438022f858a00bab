"""A network in one library: the schedules of a database in it, and what torch computes out of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from costhub.collector.network_source import read_network
from costhub.dataset.target import parse_target
from costhub.transfer.network.compile import Compiled, compile_network

# torch copies an exported program with a part of itself that it warns of.
pytestmark = pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")


def run(library: Path, value: np.ndarray) -> np.ndarray:
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    return np.asarray(machine["main"](tvm.runtime.tensor(value))[0].numpy())


def test_the_library_holds_weights_and_schedules_and_computes_what_torch_does(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path
) -> None:
    import torch

    source = read_network(str(files[0]))
    value = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)

    tuned = compile_network(source, parse_target(target), database, tmp_path / "tuned.so")
    plain = compile_network(source, parse_target(target), None, tmp_path / "plain.so")

    # The convolution and the first dense layer; pooling, reshape and the last one are too small.
    assert (tuned, plain) == (Compiled(5, 2), Compiled(5, 0))
    assert source.torch is not None
    with torch.no_grad():
        wanted = source.torch(torch.from_numpy(value)).numpy()
    for name in ("tuned", "plain"):
        np.testing.assert_allclose(run(tmp_path / f"{name}.so", value), wanted, atol=1e-5)


def test_schedules_are_found_whatever_the_weights(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path
) -> None:
    found = compile_network(read_network(str(files[1])), parse_target(target), database, tmp_path / "x.so")

    assert found.tuned == 2
