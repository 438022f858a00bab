"""A small network in three forms, and a database with a program for each of its kernels."""

from __future__ import annotations

from pathlib import Path

import pytest


def small(seed: int) -> object:
    """A convolution, which is tuned, a pooling, which is too small for that, and two dense layers."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(8),
        nn.Flatten(),
        nn.Linear(1024, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    ).eval()


def export(path: Path, seed: int) -> Path:
    import torch

    torch.export.save(torch.export.export(small(seed), (torch.zeros(1, 3, 32, 32),)), path)  # type: ignore[arg-type]
    return path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The network, and the same one with other weights."""
    folder = tmp_path_factory.mktemp("networks")
    return export(folder / "small.pt2", 0), export(folder / "other.pt2", 1)


@pytest.fixture(scope="session")
def relax_file(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network as a relax module, its weights among the arguments."""
    import tvm

    from costhub.collector.workloads.network_source import read_network

    path = tmp_path_factory.mktemp("relax") / "small.json"
    path.write_text(str(tvm.ir.save_json(read_network(str(files[0]), device="meta").mod)))
    return path


@pytest.fixture(scope="session")
def database(files: tuple[Path, Path], target: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One random program of every kernel that is worth tuning."""
    from tvm.s_tir import meta_schedule as ms

    from costhub.collector.propose.sampler import Sampler
    from costhub.collector.workloads.kernel_extraction import KernelBounds, extract_kernels
    from costhub.dataset.trace import replay
    from costhub.dataset.workload import module_from_json, parse_target
    from costhub.search.database import SearchDatabase

    folder = tmp_path_factory.mktemp("database")
    found = extract_kernels(str(files[0]), target, KernelBounds(2e5, 1e6, 1e9))
    assert len(found.tasks) == 2
    for task in found.tasks:
        mod = module_from_json(task.module_json)
        (program,) = Sampler(mod, target, seed=0).random(1)
        schedule = replay(mod, program.trace)
        candidate = ms.MeasureCandidate(schedule, ms.arg_info.ArgInfo.from_entry_func(mod, True))
        SearchDatabase(folder).add(mod, candidate, [1e-5], parse_target(target))
    return folder
