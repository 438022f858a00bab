"""The child's part: which kernels of a network are worth measuring, and what they are called."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

from costhub.collector.workloads.kernel_extraction import KernelBounds, NetworkKernels, extract_kernels
from costhub.collector.workloads.network_source import Lowering
from costhub.dataset.workload import module_from_json, workload_id
from costhub.errors import WorkloadError

# torch uses a part of itself that it warns of when it copies an exported program.
pytestmark = pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")


class Small(nn.Module):
    """A convolution, two equal dense layers and another one, reshapes and transposes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.first, self.second, self.last = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 3, height, width) to (batch, 8, pixels)."""
        pixels = torch.relu(self.conv(x)).flatten(2).transpose(1, 2).contiguous()
        return torch.sigmoid(self.last(self.second(self.first(pixels)))).transpose(1, 2)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("network") / "small.pt2"
    torch.export.save(torch.export.export(Small().eval(), (torch.randn(1, 3, 8, 8),)), path)
    return str(path)


def extracted(network: str, *, flop: float = 0, least: float = 0, most: float = 1e9) -> NetworkKernels:
    return extract_kernels(network, '{"kind": "llvm", "num-cores": 2}', KernelBounds(flop, least, most))


def test_weights_count_the_calls_of_a_kernel(file: str) -> None:
    found = extracted(file)

    weights = sorted((task.family, task.weight) for task in found.tasks)
    assert weights == [("conv", 1.0), ("matmul", 1.0), ("matmul", 2.0)]
    assert found.functions > 4
    assert found.reading_s > 0.0


def test_what_moves_data_only_is_left_out_and_counted(file: str) -> None:
    found = extracted(file)

    assert found.left_out["moves data only"] >= 2
    assert all(task.flop > 0 for task in found.tasks)
    assert not any(task.name.startswith(("reshape.", "transpose.")) for task in found.tasks)


@pytest.mark.parametrize(
    ("flop", "least", "most", "reason"),
    [(1e9, 1e9, 1e9, "too little work"), (0, 0, 100, "too much memory")],
)
def test_limits_leave_out_everything_with_the_reason(
    file: str, flop: float, least: float, most: float, reason: str
) -> None:
    found = extracted(file, flop=flop, least=least, most=most)

    assert found.tasks == ()
    assert found.left_out[reason] >= 2
    assert sum(extracted(file).left_out.values()) < sum(found.left_out.values())


def test_bytes_keep_a_kernel_that_computes_little(file: str) -> None:
    assert extracted(file, flop=1e9, least=0).tasks == extracted(file).tasks


def test_ids_and_names_are_those_of_the_module(file: str) -> None:
    for task in extracted(file).tasks:
        assert task.workload_id == workload_id(module_from_json(task.module_json))
        assert task.name.endswith(f".{task.workload_id[:6]}")
    assert "conv2d_add_relu.1x3x8x8.16x3x3x3" in {task.name[:-7] for task in extracted(file).tasks}


def test_words_are_no_workload_of_floats() -> None:
    found = extracted("bert_tiny")

    assert found.left_out["not float32 throughout"] >= 1
    assert {"matmul", "batch_matmul", "norm", "softmax"} <= {task.family for task in found.tasks}


@pytest.mark.slow
def test_fast_math_makes_other_workloads_of_the_same_families() -> None:
    plain, fast = (
        extract_kernels("bert_tiny", '{"kind": "llvm", "num-cores": 2}', KernelBounds(0, 0, 1e9), Lowering(fast_math))
        for fast_math in (False, True)
    )

    families = [Counter({t.family: t.weight for t in found.tasks}) for found in (plain, fast)]
    assert families[0] == families[1]
    changed = {t.workload_id for t in fast.tasks} - {t.workload_id for t in plain.tasks}
    assert {t.family for t in fast.tasks if t.workload_id in changed} >= {"softmax", "matmul"}


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken"])
def test_a_broken_file_is_a_reason(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.pt2"
    path.write_bytes(content)

    with pytest.raises(WorkloadError, match=r"is not an archive that torch\.export\.save wrote"):
        extract_kernels(str(path), '{"kind": "llvm"}', KernelBounds(0, 0, 1e9))


def test_sizes_left_open_are_those_of_the_example(tmp_path: Path) -> None:
    path, size = tmp_path / "any.pt2", torch.export.Dim("size", min=2, max=64)
    network = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    program = torch.export.export(network, (torch.randn(4, 8),), dynamic_shapes=({0: size},))
    torch.export.save(program, path)

    found = extracted(str(path))

    assert [task.name[:-7] for task in found.tasks] == ["matmul_add_relu.4x8.8x8"]


def test_a_relax_file_has_the_kernels_of_the_network_that_it_was_made_of(file: str, tmp_path: Path) -> None:
    import tvm

    from costhub.collector.workloads.network_source import read_network

    path = tmp_path / "small.json"
    path.write_text(str(tvm.ir.save_json(read_network(file, device="meta").mod)))

    assert extracted(str(path)) == extracted(file)
