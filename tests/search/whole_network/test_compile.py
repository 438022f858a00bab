"""Kernels that no search sees: shared among the cores where that pays, and still computing the same."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tvm
import tvm_ffi

from costhub.collector.propose.sampler import Sampler
from costhub.collector.workloads import network_source
from costhub.collector.workloads.kernel_extraction import KernelBounds, extract_kernels
from costhub.collector.workloads.network_source import Lowering, read_network
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.trace import replay
from costhub.dataset.workload import module_from_json, parse_target
from costhub.errors import NetworkError
from costhub.search.database import SearchDatabase
from costhub.search.whole_network import compile as compile_module
from costhub.search.whole_network.compile import (
    CompiledNetwork,
    _best_of,
    build_network,
    build_untuned,
    compile_network,
    distinguishing_input,
)
from costhub.search.whole_network.tuned_network import load_network

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

    monkeypatch.setattr("costhub.collector.build.linker.link", link)
    there = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}
    compile_network(read_network(str(files[0])), parse_target(json.dumps(there)), None, tmp_path / "there.so")

    assert len(linked) > 1  # the kernels, and the weights
    assert set(linked) == {("aarch64-linux-gnu", 183)}  # EM_AARCH64 of elf.h


def sources_of(module: Any) -> list[str]:
    """The CUDA code in a runtime module."""
    own = [str(module.inspect_source())] if module.kind == "cuda" else []
    return own + [text for each in module.imports for text in sources_of(each)]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90"])
def test_a_network_for_a_gpu_holds_schedules_of_the_search_and_of_dlight(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str
) -> None:
    """Up to the driver: TVM writes CUDA code without one, and costhub a library that needs one."""
    from costhub.search.whole_network import compile as compiler

    monkeypatch.setenv("TVM_COMPILE_FORCE_FALLBACK", "1")  # Where there is a GPU, TVM would compile for it by itself.
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}
    text = json.dumps({"kind": "cuda", "arch": arch, **limits})
    tuned_kernel(files[0], text, tmp_path)
    built: list[Any] = []
    make = compiler._build
    monkeypatch.setattr(compiler, "_build", lambda *args: built.append(make(*args)) or built[-1])

    source = read_network(str(files[0]))
    found = compile_network(source, parse_target(text), tmp_path, tmp_path / "gpu.so")

    assert (found.tuned, found.shared) == (1, found.kernels - 1)
    (code,) = sources_of(built[0].mod)
    assert code.count('extern "C" __global__') >= 2 * found.kernels  # declared and defined
    assert max(int(bound) for bound in re.findall(r"__launch_bounds__\((\d+)\)", code)) <= 1024
    assert (tmp_path / "gpu.so").stat().st_size > len(code)


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine may have a GPU")
def test_a_library_for_a_gpu_says_that_it_needs_one(files: tuple[Path, Path], tmp_path: Path) -> None:
    text = '{"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}'
    compile_network(read_network(str(files[0])), parse_target(text), None, tmp_path / "gpu.so")

    with pytest.raises(NetworkError, match=r"gpu\.so is for an NVIDIA GPU, and TVM cannot use one here"):
        load_network(tmp_path / "gpu.so")


def tuned_kernel(network: Path, target: str, folder: Path) -> None:
    """Records a random schedule of a dense layer for a target."""
    from tvm.s_tir import meta_schedule as ms

    found = extract_kernels(str(network), target, KernelBounds(2e5, 1e6, 1e9))
    mod = next(module_from_json(task.module_json) for task in found.tasks if "conv" not in task.name)
    (program,) = Sampler(mod, target, seed=0).random(1)
    candidate = ms.MeasureCandidate(replay(mod, program.trace), ms.arg_info.ArgInfo.from_entry_func(mod, True))
    SearchDatabase(folder).add(mod, candidate, [1e-5], parse_target(target))


def test_the_schedule_of_the_best_median_for_this_target_counts(target: str, tmp_path: Path) -> None:
    from tvm.s_tir import meta_schedule as ms

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
    assert set(found.stages) == {"reading", "compiling", "compiling untuned"}


def test_without_a_place_for_it_the_untuned_library_is_not_made(
    relax_file: Path, database: Path, target: str, tmp_path: Path
) -> None:
    found = build_network(str(relax_file), target, str(database), tuned=str(tmp_path / "tuned.so"), untuned=None)

    assert set(found.stages) == {"reading", "compiling"}
    assert [path.name for path in tmp_path.iterdir()] == ["tuned.so"]


def test_the_untuned_library_alone_has_no_schedules(relax_file: Path, target: str, tmp_path: Path) -> None:
    library = tmp_path / "untuned.so"

    found = build_untuned(str(relax_file), target, str(library))

    assert found.tuned == 0
    assert library.is_file()
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(NetworkError, match="TVM's JSON"):
        build_untuned(str(tmp_path / "no.json"), target, str(library))


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


def test_only_the_forms_that_are_compiled_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, example = torch.nn.Conv2d(16, 32, 3).eval(), torch.rand(1, 16, 10, 14)
    torch.export.save(torch.export.export(layer, (example,)), tmp_path / "layer.pt2")
    target = '{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "haswell", "num-cores": 2}'
    compiled: list[Any] = []
    lifted: list[int] = []
    lift = network_source._lifted
    monkeypatch.setattr(compile_module, "compile_network", lambda source, *_, **__: compiled.append(source))
    monkeypatch.setattr(
        network_source, "_lifted", lambda mod, lanes, **unit: (lifted.append(lanes), lift(mod, lanes, **unit))[1]
    )

    for untuned in (None, "untuned.so"):
        build_network(
            str(tmp_path / "layer.pt2"),
            target,
            "database",
            tuned="tuned.so",
            untuned=untuned,
            lowering=Lowering(layout="blocked"),
        )

    assert lifted == [8, 0, 8]
    alone, tuned, plain = (source.mod for source in compiled)
    tvm.ir.assert_structural_equal(alone, tuned)
    assert not tvm_ffi.structural_equal(alone, plain)
