"""What a name, a file and an object stand for: workloads or whole networks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.api.subjects import Subjects, is_network, named_jobs, read_subjects
from costhub.api.tune_report import REPORT
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.workload import module_to_json, workload_id
from costhub.errors import DataError, UnknownNameError, WorkloadError
from costhub.search.database import FILES
from tests.relax_networks import two_layers


def test_a_name_a_suite_and_a_file_are_jobs(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(module_to_json(find_workload("matmul.128x128x128").module()))

    assert [job.name for job in named_jobs("matmul.128x128x128")] == ["matmul.128x128x128"]
    assert [job.name for job in named_jobs(str(path))] == ["mine"]
    assert len(named_jobs("resnet18")) > 5


def test_bytes_that_are_no_text_are_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "bytes.json"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(WorkloadError, match="is not a text file"):
        named_jobs(str(path))


@pytest.mark.parametrize(
    "nodes",
    [
        [{"type": "ffi.Array", "data": [2]}, {"type": "ffi.Array", "data": [1]}],
        [{"type": "ffi.Array", "data": [n + 2]} for n in range(300_000)] + [{"type": "None"}],
    ],
    ids=["a circle", "deep"],
)
def test_a_module_that_crashes_tvm_costs_a_child(nodes: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps({"root_index": 1, "nodes": [{"type": "None"}, *nodes]}))

    with pytest.raises(WorkloadError, match="TVM crashed"):
        named_jobs(str(path))


def test_a_pipe_is_no_module(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")

    with pytest.raises(WorkloadError, match="named pipe"):
        named_jobs(str(tmp_path / "pipe.json"))


def test_names_and_files_are_sorted_into_workloads_and_networks(tmp_path: Path) -> None:
    found = read_subjects(["softmax", "mobilenet_v2", tmp_path / "mine.pt2", "resnet18.c7"], tmp_path)

    assert found == Subjects(("softmax", "resnet18.c7"), ("mobilenet_v2", str(tmp_path / "mine.pt2")))
    with pytest.raises(UnknownNameError, match=r"no network, suite or workload named .resnet81.*resnet18"):
        read_subjects("resnet81", tmp_path).check()
    with pytest.raises(WorkloadError, match="There is no file"):
        found.check()
    with pytest.raises(WorkloadError, match="nothing to tune"):
        read_subjects([], tmp_path).check()


def test_a_file_with_a_relax_function_is_a_network(tmp_path: Path) -> None:
    import tvm
    from tvm import relax

    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.nn.relu(x)))
    mod = builder.get()
    relaxed, kernel = tmp_path / "relax.json", tmp_path / "kernel.json"
    relaxed.write_text(tvm.ir.save_json(mod))
    kernel.write_text(module_to_json(find_workload("matmul.128x128x128").module()))

    assert (is_network(str(relaxed)), is_network(str(kernel))) == (True, False)
    found = read_subjects({"net": mod}, tmp_path / "out")
    assert found.networks == (str(tmp_path / "out/net.json"),)
    assert is_network(found.networks[0])


def test_modules_and_functions_in_memory_are_jobs(tmp_path: Path) -> None:
    mod = find_workload("matmul.128x128x128").module()

    found = read_subjects({"mine": mod, "other": mod["main"].with_attr("global_symbol", "f")}, tmp_path)
    assert [job.name for job in found.jobs()] == ["mine", "other"]
    assert [name for name, _ in read_subjects([mod], tmp_path).modules] == ["workload"]
    assert found.names == ["mine", "other"]
    assert [v.name_hint for v in found.modules[1][1].get_global_vars()] == ["main"]


def test_a_function_of_any_name_is_the_workload_that_tvms_own_operators_make(tmp_path: Path) -> None:
    import tvm

    mod = find_workload("matmul.128x128x128").module()
    bare = mod["main"].without_attr("tirx.noalias").with_attr("global_symbol", "matmul")

    found = read_subjects({"alone": bare, "in a module": tvm.IRModule({"matmul": bare}), "as it is": mod}, tmp_path)

    assert {name: workload_id(each) for name, each in found.modules} == dict.fromkeys(found.names, workload_id(mod))


@pytest.mark.parametrize("name", [Path(name).stem for name in (REPORT, *FILES)])
def test_a_network_in_memory_does_not_replace_results(name: str, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot name a network in memory: the results have a file of that name"):
        read_subjects({name: two_layers(2)}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_exported_program_is_a_file_and_a_torch_module_is_told_to_be_exported(tmp_path: Path) -> None:
    import torch

    network = torch.nn.Linear(4, 2).eval()
    program = torch.export.export(network, (torch.zeros(1, 4),))

    assert read_subjects(program, tmp_path / "out").networks == (str(tmp_path / "out/network.pt2"),)
    assert (tmp_path / "out/network.pt2").stat().st_size > 0
    with pytest.raises(WorkloadError, match=r"class Linear cannot be tuned. Export it first: torch.export.export"):
        read_subjects(network, tmp_path)
    with pytest.raises(WorkloadError, match="class int cannot be tuned"):
        read_subjects(7, tmp_path)


def test_two_networks_in_memory_of_one_name_are_refused(tmp_path: Path) -> None:
    import torch

    first, second = (torch.export.export(torch.nn.Linear(4, width).eval(), (torch.zeros(1, 4),)) for width in (2, 3))

    with pytest.raises(WorkloadError, match="Two networks in memory are called network: pass a dictionary"):
        read_subjects([first, second], tmp_path / "out")
    assert len(read_subjects({"first": first, "second": second}, tmp_path / "out").networks) == 2


@pytest.mark.parametrize("name", ["mlp/large", "../x", ".hidden", "x" * 300, "a\0b", "\u540d" * 120])
def test_a_network_in_memory_with_a_name_that_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    import torch

    program = torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.zeros(1, 4),))

    with pytest.raises(WorkloadError, match="cannot name a network in memory"):
        read_subjects({name: program}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("make", [Path.symlink_to, lambda path, _: os.mkfifo(path)], ids=["link", "pipe"])
def test_a_network_in_memory_is_written_through_nothing_that_lies_in_the_folder(
    tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    import torch
    from tvm import relax

    (tmp_path / "mine").write_text("mine")
    (tmp_path / "out").mkdir()
    for name in ("torch.pt2", "relax.json"):
        make(tmp_path / "out" / name, tmp_path / "mine")
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.nn.relu(x)))
    program = torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.zeros(1, 4),))

    found = read_subjects({"torch": program, "relax": builder.get()}, tmp_path / "out")

    assert (tmp_path / "mine").read_text() == "mine"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".lock", "relax.json", "torch.pt2"]
    for name in found.networks:
        assert not Path(name).is_symlink()
        assert is_network(name)
    torch.export.load(found.networks[0])


@pytest.mark.parametrize("kind", ["torch", "relax"])
def test_a_network_in_memory_does_not_replace_that_of_a_search_in_progress(tmp_path: Path, kind: str) -> None:
    import torch

    from costhub.search.database import SearchFolder

    def network(width: int) -> Any:
        if kind == "relax":
            return two_layers(width)
        return torch.export.export(torch.nn.Linear(4, width).eval(), (torch.zeros(1, 4),))

    written = Path(read_subjects(network(2), tmp_path).networks[0])
    before = written.read_bytes()

    with SearchFolder(tmp_path), pytest.raises(DataError, match="is being written by another process"):
        read_subjects(network(3), tmp_path)

    assert written.read_bytes() == before


def test_a_network_comes_before_the_suite_of_its_name(tmp_path: Path) -> None:
    assert read_subjects("resnet18", tmp_path).networks == ("resnet18",)
    suite = read_subjects("resnet18.*", tmp_path)
    assert (suite.networks, len(suite.jobs())) == ((), 12)
    suite.check()


def test_a_file_with_a_workload_has_a_size(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text('{"nodes":[')
    os.truncate(path, 65 << 20)

    with pytest.raises(WorkloadError, match="At most 67,108,864 are read"):
        Subjects((str(path),)).check()
