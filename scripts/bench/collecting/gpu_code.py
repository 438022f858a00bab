"""Generates CUDA code for recorded programs and whole networks, and compiles it for GPUs that are not here.

NVIDIA's run-time compiler needs no GPU. TVM calls it with the same options when it builds for one.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.collector.workloads.network_source import read_network
from costhub.dataset.folder import DataFolder
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.trace import replay
from costhub.dataset.workload import module_from_json
from costhub.errors import class_and_end
from costhub.search.whole_network import compile as network_compiler
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS

OF_GPUS = {"nvidia-v100": "sm_70", "nvidia-a100": "sm_80", "nvidia-h200": "sm_90", "amd-mi50": "gfx906"}
NETWORKS = ("resnet18", "mobilenet_v2", "efficientnet_b0", "bert_small", "vit_s16", "gpt2", "lstm", "unet")
LIMITS = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}


def target_of(arch: str) -> Any:
    """A target with the limits that every GPU since the V100 has."""
    import tvm

    if arch.startswith("gfx"):
        return tvm.target.Target({"kind": "rocm", "mcpu": arch, **LIMITS, "thread_warp_size": 64})
    return tvm.target.Target({"kind": "cuda", "arch": arch, **LIMITS})


def without_rocm() -> None:
    """Lets TVM generate objects for AMD's GPUs without ROCm: unlinked, and without its library of functions."""
    import tvm_ffi

    tvm_ffi.register_global_func("tvm_callback_rocm_bitcode_path", lambda *_: [], override=True)
    tvm_ffi.register_global_func("tvm_callback_rocm_link", lambda unlinked: unlinked, override=True)


@contextmanager
def cuda_at(folder: Path) -> Iterator[None]:
    """Lets TVM find the compiler and the headers of pip's packages in `folder`, as a CUDA installation has them."""
    (library,) = folder.glob("nvidia/cuda_nvrtc/lib/libnvrtc.so.*")
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    with tempfile.TemporaryDirectory() as root:
        include = Path(root, "include")
        include.mkdir()
        for package in ("cuda_runtime", "cuda_cccl"):
            for entry in (folder / "nvidia" / package / "include").iterdir():
                if not (include / entry.name).exists():
                    (include / entry.name).symlink_to(entry)
        os.environ["CUDA_PATH"] = root
        os.environ["TVM_COMPILE_FORCE_FALLBACK"] = "1"  # Where there is a GPU, TVM would compile for it by itself.
        yield


def compiled_size(module: Any, arch: str) -> int:
    """Bytes of the machine code of a runtime module for GPUs; none for AMD's, whose code TVM has generated itself."""
    from tvm.support.nvcc import compile_cuda

    if arch.startswith("gfx"):
        return 0
    sources = [each.inspect_source() for each in _with_imports(module) if each.kind == "cuda"]
    if not sources:
        raise ValueError("TVM has made no CUDA code of it.")
    return sum(len(compile_cuda(source, "cubin", arch=arch, compiler="nvrtc")) for source in sources)


def _with_imports(module: Any) -> list[Any]:
    return [module, *(each for imported in module.imports for each in _with_imports(imported))]


def drawn_programs(name: str, each: int, seed: int) -> Iterator[tuple[Any, str]]:
    """Some good programs of every workload of a dataset: the workload as a module, and the trace."""
    data = DataFolder.open(DATASETS / name)
    texts = {row["workload_id"]: row["module_json"] for row in data.workloads().to_pylist()}
    (device,) = data.device_ids()
    traces: dict[str, list[str]] = {}
    for row in data.measurements(device, columns=["workload_id", "trace"], status="ok").to_pylist():
        traces.setdefault(row["workload_id"], []).append(row["trace"])
    rng = np.random.default_rng(seed)
    for workload, known in sorted(traces.items()):
        for place in rng.permutation(len(known))[:each]:
            yield module_from_json(texts[workload]), known[place]


def programs_row(name: str, arch: str, each: int, seed: int) -> dict[str, Any]:
    """What becomes of recorded programs."""
    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    target, counts, reasons, size = target_of(arch), Counter[str](), Counter[str](), 0
    load_intrinsics(target.kind.name)
    for module, trace in drawn_programs(name, each, seed):
        counts["drawn"] += 1
        try:
            scheduled = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(replay(module, trace).mod)
            with target:
                built = tvm.tirx.build(scheduled, target=target)
            counts["generated"] += 1
            size += compiled_size(built, arch)
            counts["compiled"] += 1
        except Exception as error:
            reasons[class_and_end(error)] += 1
    return {"of": name, "arch": arch, **counts, "code_bytes": size, "reasons": dict(reasons)}


def network_row(name: str, arch: str) -> dict[str, Any]:
    """What becomes of a network none of whose kernels is tuned: TVM's dlight schedules all of them."""
    built: list[Any] = []
    make = network_compiler._build

    def kept(mod: Any, target: Any) -> Any:
        built.append(make(mod, target))
        return built[-1]

    network_compiler._build = kept
    try:
        with tempfile.TemporaryDirectory() as place:
            library = Path(place, "network.so")
            made = network_compiler.compile_network(read_network(name), target_of(arch), None, library)
            size = compiled_size(built[0].mod, arch)
    except Exception as error:
        return {"of": name, "arch": arch, "reasons": {class_and_end(error): 1}}
    finally:
        network_compiler._build = make
    counts = {"drawn": made.kernels, "generated": made.shared, "compiled": made.shared}
    return {"of": name, "arch": arch, **counts, "code_bytes": size, "reasons": {}}


@click.command()
@click.option(
    "--cuda",
    type=click.Path(path_type=Path, exists=True),
    required=True,
    help="Folder of `pip install --target FOLDER --no-deps 'cuda-bindings<13' cuda-pathfinder nvidia-cuda-nvrtc-cu12 "
    "nvidia-cuda-runtime-cu12 nvidia-cuda-cccl-cu12`; PYTHONPATH must name it too.",
)
@click.option("--each", default=1, show_default=True, help="Programs of every workload.")
@click.option("--network", "networks", multiple=True, default=NETWORKS)
@click.option("--seed", default=0, show_default=True)
@options.json_file()
def main(cuda: Path, each: int, networks: Sequence[str], seed: int, path: Path | None) -> None:
    """Compiles for the V100, A100, H200 and MI50 what was recorded on each, and networks for NVIDIA's."""
    rows = []
    without_rocm()
    with cuda_at(cuda):
        for name, arch in OF_GPUS.items():
            rows.append(programs_row(name, arch, each, seed))
            click.echo(rows[-1])
        for name in networks:
            for arch in (each for each in OF_GPUS.values() if each.startswith("sm_")):
                rows.append(network_row(name, arch))
                click.echo(rows[-1])
    machine.write_result(path, {"rows": rows})
