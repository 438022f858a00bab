"""The kernels of whole networks as jobs of a search."""

from __future__ import annotations

import json
import math
from pathlib import Path
from time import perf_counter

import pytest

from costhub.api.network_jobs import each_once, launched_reader, network_jobs
from costhub.collector.workloads import network_kernels
from costhub.collector.workloads.network_kernels import network_reader
from costhub.collector.workloads.network_source import Lowering
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.workload import argument_shapes
from costhub.errors import UnknownNameError
from costhub.search.options import Job
from costhub.search.result import EXTRACTING, READING, StageTimer


def test_no_network_is_no_job_and_an_unknown_one_is_refused() -> None:
    assert network_jobs([], "{}") == []
    with pytest.raises(UnknownNameError, match="resnet18"):
        network_jobs(["resnet81"], "{}")


@pytest.mark.slow
def test_the_last_layer_of_a_language_model_is_tuned_too() -> None:
    jobs = network_jobs(["gpt2"], json.dumps({"kind": "llvm", "num-cores": 1}))

    megabytes = [sum(4 * math.prod(shape) for _, shape in argument_shapes(job.mod)) / 2**20 for job in jobs]
    assert 100 < max(megabytes) < 256


@pytest.mark.parametrize("hidden", [[], ["-amx-tile", "-amx-bf16", "-amx-int8"]])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_who_wants_bfloat16_where_matrix_units_are_hidden_is_told_that_it_does_not_pay(
    hidden: list[str], precision: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    xeon = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "sapphirerapids", "mattr": hidden}
    monkeypatch.setattr(network_kernels, "network_workloads", lambda *_, **__: [])

    network_jobs(["resnet18"], json.dumps(xeon), Lowering(layout="blocked", precision=precision))

    is_warned = "(AMX) are hidden: bfloat16 is slower than float32 here" in caplog.text
    assert is_warned == (bool(hidden) and precision == "bf16")


@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")
def test_a_network_of_which_nothing_is_in_bfloat16_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import torch

    for name, layer, shape in (
        ("dense", torch.nn.Linear(512, 512), (64, 512)),
        ("line", torch.nn.Conv1d(64, 64, 5), (1, 64, 512)),
    ):
        torch.export.save(torch.export.export(layer.eval(), (torch.ones(shape),)), tmp_path / f"{name}.pt2")
    zen4 = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver4", "num-cores": 2}

    network_jobs(
        [str(tmp_path / "dense.pt2"), str(tmp_path / "line.pt2")],
        json.dumps(zen4),
        Lowering(layout="blocked", precision="bf16"),
    )

    assert "No kernel of line that can be tuned multiplies in bfloat16" in caplog.text


@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")
def test_reading_a_network_is_a_stage_beside_finding_its_kernels(tmp_path: Path) -> None:
    import torch

    program = torch.export.export(torch.nn.Linear(512, 512).eval(), (torch.ones(3, 512),))
    torch.export.save(program, tmp_path / "dense.pt2")
    stages, start = StageTimer(), perf_counter()

    jobs = network_jobs([str(tmp_path / "dense.pt2")], '{"kind": "llvm", "num-cores": 1}', stages=stages)

    seconds = stages.seconds()
    assert len(jobs) == 1
    assert seconds[READING] > 0.0
    assert seconds[EXTRACTING] > 0.0
    assert sum(seconds.values()) <= perf_counter() - start

    with launched_reader([]) as nobody, launched_reader([str(tmp_path / "dense.pt2")]) as reader:
        assert nobody is None
        assert reader is not None
        pid = reader.pid
        assert network_jobs([str(tmp_path / "dense.pt2")], '{"kind": "llvm", "num-cores": 1}', reader=reader)
        assert reader.pid is None
        with network_reader([]) as again:
            again.start()
            assert again.pid == pid


@pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning")
def test_a_size_that_the_export_leaves_open_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import torch

    network, example = torch.nn.Linear(512, 512).eval(), (torch.ones(3, 512),)
    for name, shapes in (("open", ({0: torch.export.Dim("batch", max=64)},)), ("closed", None)):
        program = torch.export.export(network, example, dynamic_shapes=shapes)
        torch.export.save(program, tmp_path / f"{name}.pt2")

    with caplog.at_level("INFO", logger="costhub"):
        for name in ("open", "closed"):
            network_jobs([str(tmp_path / f"{name}.pt2")], '{"kind": "llvm", "mcpu": "haswell", "num-cores": 2}')

    said = [record.getMessage() for record in caplog.records if "leaves" in record.getMessage()]
    assert said == [
        "open leaves the size of axis 0 of input open; 3 is used, as in its example input. For another size, export it "
        "again without dynamic_shapes, with an example input of that size."
    ]


def test_a_workload_by_a_second_name_is_tuned_once(caplog: pytest.LogCaptureFixture) -> None:
    first, other = (find_workload(name).module() for name in ("matmul.128x128x128", "softmax.64x1000"))
    jobs = [Job("a", first), Job("b", other), Job("c", first)]

    assert [job.name for job in each_once(jobs, [])] == ["a", "b"]
    assert "c is the same workload as a: it is tuned only once, as a." in caplog.text
    assert [job.name for job in each_once(jobs, [Job("kernel", other)])] == ["a", "kernel"]
