"""Kernels that no search sees: shared among the cores where that pays, and still computing the same."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.collector.propose.sampler import Sampler
from costhub.collector.workloads.network_source import read_network
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.workload import parse_target
from costhub.errors import NetworkError
from costhub.search.database import SearchDatabase
from costhub.search.whole_network.compile import (
    MIN_ELEMENTS,
    SCHEDULED,
    CompiledNetwork,
    _best_of,
    build_network,
    compile_network,
    distinguishing_input,
    parallelize_untuned,
)


def kernel(rows: int, columns: int, *, of: str = "exp") -> Any:
    import tvm
    from tvm import te, topi

    x = te.placeholder((rows, columns), name="x")
    y = {"exp": topi.exp, "softmax": topi.nn.softmax, "transpose": topi.transpose}[of](x)
    return tvm.IRModule({"main": te.create_prim_func([x, y])})


def run(mod: Any, target: Any, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    import tvm

    out = tvm.runtime.tensor(np.zeros(shape, "float32"))
    tvm.compile(mod, target)(tvm.runtime.tensor(value), out)
    return np.asarray(out.numpy())


@pytest.mark.parametrize("of", ["exp", "softmax", "transpose"])
def test_a_large_kernel_runs_on_all_cores_and_computes_the_same(of: str, target: str) -> None:
    here, mod = parse_target(target), kernel(300, 200, of=of)
    value = np.random.default_rng(0).standard_normal((300, 200)).astype("float32")
    shape = (200, 300) if of == "transpose" else (300, 200)

    shared, count = parallelize_untuned(mod, here, SCHEDULED)

    assert count == 1
    assert "T.parallel" in shared["main"].script()
    assert "T.parallel" not in mod["main"].script()
    np.testing.assert_allclose(run(shared, here, value, shape), run(mod, here, value, shape), rtol=1e-6)


def test_a_small_one_stays_as_it_is(target: str) -> None:
    mod = kernel(1, MIN_ELEMENTS - 1)

    assert parallelize_untuned(mod, parse_target(target), SCHEDULED) == (mod, 0)


def test_one_with_a_schedule_stays_as_it_is(target: str) -> None:
    import tvm

    mod = tvm.IRModule({"main": kernel(300, 200)["main"].with_attr(SCHEDULED, True)})

    assert parallelize_untuned(mod, parse_target(target), SCHEDULED) == (mod, 0)


def test_one_of_unknown_sizes_stays_as_it_is(target: str) -> None:
    import tvm
    from tvm import te, topi

    n = te.var("n")
    x = te.placeholder((n, 512), name="x")
    mod = tvm.IRModule({"main": te.create_prim_func([x, topi.exp(x)])})

    assert parallelize_untuned(mod, parse_target(target), SCHEDULED) == (mod, 0)


# torch copies an exported program with a part of itself that it warns of.
pytestmark = pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")


def run_compile(library: Path, value: np.ndarray) -> np.ndarray:
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

    # The convolution and the first dense layer; reshape and the last one are too small for anything, and the
    # pooling for a search.
    assert (replace(tuned, names=()), plain) == (CompiledNetwork(5, 2, 1), CompiledNetwork(5, 0, 0))
    assert [name.rstrip("0123456789").split("_")[1] for name in tuned.names] == ["conv2d", "matmul"]
    assert source.torch is not None
    with torch.no_grad():
        wanted = source.torch(torch.from_numpy(value)).numpy()
    for name in ("tuned", "plain"):
        np.testing.assert_allclose(run_compile(tmp_path / f"{name}.so", value), wanted, atol=1e-5)


def test_schedules_are_found_whatever_the_weights(
    files: tuple[Path, Path], database: Path, target: str, tmp_path: Path
) -> None:
    found = compile_network(read_network(str(files[1])), parse_target(target), database, tmp_path / "x.so")

    assert found.tuned == 2


def test_a_network_for_another_machine_is_compiled_for_it(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights are made here, where nothing of that machine's runs."""
    linked: list[tuple[str | None, int]] = []

    def link(triple: str | None, objects: Sequence[str], library: str, options: Sequence[str]) -> None:
        heads = [Path(each).read_bytes()[:20] for each in objects]
        linked.extend((triple, *struct.unpack_from("<H", head, 18)) for head in heads)
        Path(library).touch()

    monkeypatch.setattr("costhub.search.whole_network.compile.link", link)
    there = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}
    compile_network(read_network(str(files[0])), parse_target(json.dumps(there)), None, tmp_path / "there.so")

    assert len(linked) > 1  # the kernels, and the weights
    assert set(linked) == {("aarch64-linux-gnu", 183)}  # EM_AARCH64 of elf.h


def test_the_schedule_of_the_best_median_for_this_target_counts(target: str, tmp_path: Path) -> None:
    from tvm.s_tir import meta_schedule as ms

    from costhub.dataset.trace import replay

    here = parse_target(target)
    elsewhere = parse_target(json.dumps({**json.loads(target), "num-cores": 99}))
    mod, records = find_workload("matmul.128x128x128").module(), SearchDatabase(tmp_path)
    measured = [([1e-4], elsewhere), ([1e-3, 1e-3, 9e-3], here), ([2e-3] * 3, here), (None, here)]
    programs = Sampler(mod, target, seed=1).random(len(measured))
    for program, (run_s, where) in zip(programs, measured, strict=True):
        info = ms.arg_info.ArgInfo.from_entry_func(mod, True)
        records.add(mod, ms.MeasureCandidate(replay(mod, program.trace), info), run_s, where)

    (found,) = _best_of(tmp_path, here).get_all_tuning_records()

    assert [float(s) for s in found.run_secs] == [1e-3]


def test_a_relax_module_is_compiled_with_all_its_arguments_as_inputs(
    relax_file: Path, database: Path, target: str, tmp_path: Path
) -> None:
    tuned, untuned = (tmp_path / name for name in ("tuned.so", "untuned.so"))

    found = build_network(str(relax_file), target, str(database), tuned=str(tuned), untuned=str(untuned))

    assert found.compiled.tuned == 2
    assert found.inputs[0].shape == (1, 3, 32, 32)
    assert len(found.inputs) == 7  # three layers with weights and biases
    assert tuned.is_file()
    assert untuned.is_file()


def test_what_tvm_cannot_read_is_a_reason(tmp_path: Path, target: str) -> None:
    path = tmp_path / "no.json"
    path.write_text("{}")

    libraries = {"tuned": str(tmp_path / "a.so"), "untuned": str(tmp_path / "b.so")}
    with pytest.raises(NetworkError, match="TVM's JSON"):
        build_network(str(path), target, str(tmp_path), **libraries)


def test_an_example_that_tells_nothing_is_replaced() -> None:
    assert distinguishing_input(np.zeros((2, 3), np.float32)).std() > 0.1
    words = np.array([3, 3, 3])
    assert distinguishing_input(words) is words
