"""Networks by name and from files, with weights and without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import tvm
import tvm_ffi
from torch import nn

from costhub.collector.workloads.network_source import Lowering, read_network, read_torch
from costhub.errors import ArgumentError, UnknownNameError, WorkloadError

# torch copies an exported program with a part of itself that it warns of.
pytestmark = pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "small.pt2"
    torch.export.save(torch.export.export(nn.Linear(8, 4).eval(), (torch.ones(2, 8),)), path)
    return path


def test_a_torch_network_comes_with_its_weights_or_without(file: Path) -> None:
    full, empty = read_network(str(file)), read_network(str(file), device="meta")

    assert [tuple(w.shape) for w in full.weights] == [(4, 8), (4,)]
    assert all(w.is_meta for w in empty.weights)
    assert full.inputs[0].shape == (2, 8)
    assert full.torch(*full.inputs).shape == (2, 4)  # type: ignore[misc]
    assert tvm_ffi.structural_equal(full.mod, empty.mod)


class Causal(nn.Module):
    """Makes a tensor itself, as attention makes its mask."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.full((8, 8), -1e9, device=x.device).triu(1)


def test_what_a_network_makes_itself_needs_no_memory_either(tmp_path: Path) -> None:
    path = tmp_path / "causal.pt2"
    torch.export.save(torch.export.export(Causal(), (torch.ones(8, 8),)), path)

    full, empty = read_network(str(path)), read_network(str(path), device="meta")

    assert empty.inputs[0].is_meta
    assert tvm_ffi.structural_equal(full.mod, empty.mod)


def test_a_relax_file_has_arguments_of_the_right_shape(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_text(str(tvm.ir.save_json(read_network(str(file), device="meta").mod)))

    found = read_network(str(path))

    assert found.torch is None
    assert [value.shape for value in found.inputs] == [(2, 8), (4,), (8, 4)]
    assert all(value.dtype == np.float32 for value in found.inputs)


@pytest.mark.parametrize(
    ("text", "words"), [("{}", "not a module in TVM's JSON"), ("tir", "no relax function named main")]
)
def test_a_file_without_a_network_is_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    from costhub.collector.workloads.suites import find_workload

    path = tmp_path / "x.json"
    tir = str(tvm.ir.save_json(find_workload("matmul.128x128x128").module()))
    path.write_text(tir if text == "tir" else text)

    with pytest.raises(WorkloadError, match=words):
        read_network(str(path))


def test_sizes_that_are_left_open_are_refused(tmp_path: Path) -> None:
    from tvm import relax

    value = relax.Var("x", relax.TensorType((tvm.tirx.Var("n", "int64"), 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [value]):
        builder.emit_func_output(value)
    path = tmp_path / "open.json"
    path.write_text(str(tvm.ir.save_json(builder.get())))

    with pytest.raises(WorkloadError, match=r"x of main is not a tensor of known size; tvm\.relax\.transform\.Bind"):
        read_network(str(path))


class Joined(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y.sum(1, keepdim=True)


@pytest.mark.slow
def test_sizes_that_an_export_leaves_open_are_those_of_the_example(file: Path, tmp_path: Path) -> None:
    path, batch, width = tmp_path / "open.pt2", torch.export.Dim("batch", max=64), torch.export.Dim("width", max=64)
    example = (torch.ones(3, 8), torch.ones(3, 5))
    torch.export.save(torch.export.export(Joined(), example, dynamic_shapes=({0: batch}, {0: batch, 1: width})), path)

    found = read_network(str(path), device="meta")

    assert found.open_sizes == {"axis 0 of x and axis 0 of y": 3, "axis 1 of y": 5}
    assert [tuple(value.shape) for value in found.inputs] == [(3, 8), (3, 5)]
    assert read_network(str(file), device="meta").open_sizes == {}


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (torch.bfloat16, r"in bfloat16; export it in float32, with network\.float\(\) .*add --precision bf16"),
        (torch.float16, r"in float16; export it in float32, with network\.float\(\) and float32 inputs$"),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_a_network_exported_in_half_precision_is_refused(
    tmp_path: Path, dtype: torch.dtype, words: str, *, bias: bool
) -> None:
    path, network = tmp_path / "half.pt2", nn.Linear(8, 4, bias=bias).eval().to(dtype)
    torch.export.save(torch.export.export(network, (torch.ones(2, 8, dtype=dtype),)), path)

    with pytest.raises(WorkloadError, match=words):
        read_network(str(path), device="meta")


def test_tables_in_float16_are_read_where_the_rest_is_float32(tmp_path: Path) -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.dense = nn.Embedding(16, 8).half(), nn.Linear(8, 4)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.dense(self.table(ids).float())

    path = tmp_path / "table.pt2"
    torch.export.save(torch.export.export(Table().eval(), (torch.tensor([1, 2]),)), path)

    assert {weight.dtype for weight in read_network(str(path), device="meta").weights} == {torch.float16, torch.float32}


def test_a_network_of_the_zoo_is_built_by_name() -> None:
    network, (value,) = read_torch("lstm")

    assert value.shape == (1, 4, 256)
    assert not network.training


def test_the_blocks_of_a_network_read_once_are_those_of_one_read_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "convolution.pt2"
    example = (torch.ones(1, 4, 6, 6),)
    torch.export.save(torch.export.export(nn.Conv2d(4, 8, 3).eval(), example), path)
    plain, blocked = (read_network(str(path), lanes=lanes) for lanes in (0, 4))

    found = plain.in_blocks(4)

    tvm.ir.assert_structural_equal(found.mod, blocked.mod)
    tvm.ir.assert_structural_equal(found.transform, blocked.transform)
    assert "NCHW4c" in str(found.mod)
    assert "NCHW4c" not in str(plain.mod)
    assert plain.in_blocks(0) is plain


def test_a_relax_module_keeps_its_layouts(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(str(tvm.ir.save_json(read_network(str(file), device="meta").mod)))

    found = read_network(str(path))

    assert found.in_blocks(4) is found


def test_unknown_layouts_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownNameError, match="blocked"):
        Lowering(layout="blockd")
    with pytest.raises(UnknownNameError, match="bf16"):
        Lowering(layout="blocked", precision="bfloat16")


def test_bfloat16_needs_blocked_layouts_instructions_and_a_network_of_torch() -> None:
    with pytest.raises(ArgumentError, match="needs the layout blocked"):
        Lowering(precision="bf16")
    lowering, target = Lowering(layout="blocked", precision="bf16"), '{"kind": "llvm", "mtriple": "%s", "mcpu": "%s"}'
    lowering.check(target % ("x86_64-linux-gnu", "znver4"), ["net.pt2", "bert_tiny"])
    for triple, cpu in (("x86_64-linux-gnu", "znver3"), ("aarch64-linux-gnu", "cortex-a76")):
        with pytest.raises(ArgumentError, match="AVX512-BF16"):
            lowering.check(target % (triple, cpu), ["net.pt2"])
        Lowering(layout="blocked").check(target % (triple, cpu), ["net.json"])
    with pytest.raises(ArgumentError, match="is a relax module, which keeps its own types"):
        lowering.check(target % ("x86_64-linux-gnu", "znver4"), ["net.json"])


def test_pairs_of_weights_are_made_before_the_network_runs(file: Path) -> None:
    found = read_network(str(file), device="meta", lanes=4, bf16_unit="vectors")

    assert found.transform is not None
    of_weights, of_network = ({g.name_hint for g in mod.get_global_vars()} for mod in (found.transform, found.mod))
    assert any("weight_pairs" in name for name in of_weights)
    assert not any("weight_pairs" in name for name in of_network)
    assert any("row_pairs" in name for name in of_network)
    assert not any("row_pairs" in name for name in of_weights)
