"""`costhub.estimate`: devices by name, file and row, kernels that were measured and kernels that were not."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest

import costhub
from costhub.api.estimating.estimate import FEWEST_PROGRAMS, PREDICTOR, estimate, find_row, load_predictor
from costhub.api.estimating.result import MEASURED, PREDICTED
from costhub.dataset.folder import DataFolder
from costhub.errors import ArgumentError, CosthubError, DeviceError, ModelError, WorkloadError
from costhub.hub.catalogue.devices import find_device
from costhub.hub.catalogue.hubs import EMBEDDED, HUB_VARIABLE

DEVICE, NAME = "amd-epyc-zen5-2c", "matmul.512x512x512"
ROW = {"device_id": "board", "kind": "cpu", "cores": 4, "simd_bits": 128, "peak_gflops": 60.0, "dram_gbs": 8.0}


@cache
def mine() -> dict[str, Any]:
    """A product of matrices that no dataset has."""
    import tvm
    from tvm import te

    size = 160
    a, b = (te.placeholder((size, size), name=name) for name in "AB")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return {"mine": tvm.IRModule({"main": te.create_prim_func([a, b, c]).with_attr("global_symbol", "main")})}


def one(what: Any, device: Any = DEVICE, **options: Any) -> Any:
    (kernel,) = estimate(what, device, progress=False, **options).kernels
    return kernel


def test_a_measured_kernel_has_the_latency_of_its_best_program() -> None:
    rows = costhub.load_measurements(DEVICE, workload=NAME, status="ok", columns=["run_s"])["run_s"].to_pylist()

    found = one(NAME)

    assert (found.source, found.programs) == (MEASURED, len(rows))
    assert found.latency_us == pytest.approx(min(np.median(run_s) for run_s in rows) * 1e6)
    assert found.low_us < found.latency_us < found.high_us


def test_a_kernel_that_nobody_measured_is_predicted() -> None:
    found = one(mine())

    assert (found.source, found.programs) == (PREDICTED, None)
    least = 2 * 160**3 / find_device(DEVICE).peak_gflops / 1e3  # type: ignore[union-attr, operator]
    assert least < found.latency_us < 20 * least


def test_intervals_of_larger_shares_are_wider_and_more_trials_are_faster() -> None:
    narrow, wide = (one(mine(), interval=share) for share in (0.5, 0.9))
    assert wide.low_us < narrow.low_us <= narrow.latency_us <= narrow.high_us < wide.high_us

    assert one(mine(), trials=16).latency_us > one(mine(), trials=64).latency_us


def test_a_device_is_named_or_described(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    path.write_text(json.dumps({"this_machine": None, "devices": [ROW]}))

    found = [one(mine(), device).latency_us for device in (ROW, json.dumps(ROW), path, str(path))]

    assert len(set(found)) == 1
    assert estimate(mine(), ROW, progress=False).is_new_device
    assert not estimate(mine(), DEVICE, progress=False).is_new_device


def test_a_part_of_a_chip_takes_figures_of_the_other_part() -> None:
    row, target = find_row("intel-xeon-graniterapids-1c")
    whole = find_device("intel-xeon-graniterapids-2c")

    assert whole is not None
    assert row["peak_gflops"] == whole.peak_gflops / 2  # type: ignore[operator]
    assert target is not None


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ("toaster", "no device named 'toaster'"),
        ("any-cpu", "stands for many devices, and an estimate is for one"),
        ("missing.json", "no file missing.json"),
        ("{", "is not JSON"),
        ("[1]", "no device named"),
        ('{"devices": []}', "the row of one device"),
        ('{"kind": "cpu"}', "does not hold the row of one device"),
        ({**ROW, "peak_gflops": None}, "needs peak_gflops"),
        ({**ROW, "peak_gflops": "many"}, "not a number"),
        ({**ROW, "target": "x"}, "is not a TVM target in JSON"),
        ({**ROW, "target": 5}, "is not a TVM target in JSON"),
        ({**ROW, "target": '{"kind": "llvm", "mcpu": "znver44"}'}, "no CPU .* 'znver44'.* The row of board has it"),
        ({**ROW, "target": '{"kind": "llvm", "cl-opt": ["-x"]}'}, "in board has cl-opt: no options of LLVM"),
        ({**ROW, "target": '{"kind": "llvm", "mattr": ["+\\u001b[2J"]}'}, "has characters that cannot be printed"),
        ({**ROW, "aliases": 5}, "aliases of the device .* is 5, not a list"),
    ],
)
def test_a_device_that_cannot_be_estimated_is_refused(device: Any, says: str) -> None:
    with pytest.raises(CosthubError, match=says):
        one(mine(), device)


@pytest.mark.parametrize("options", [{"trials": 0}, {"interval": 1.0}, {"interval": 0.0}, {"fast_math": True}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        one(NAME, **options)


def test_data_of_your_own_count_as_measured(tmp_path: Path) -> None:
    own = {**ROW, "device_id": DEVICE}
    assert one(NAME, own, data=[DEVICE]).source == MEASURED
    assert one(NAME, {**own, "device_id": "board"}, data=[DEVICE]).source == PREDICTED


def own_programs(path: Path, count: int, run_s: float) -> Path:
    """A data folder in which the board has measured some programs of a workload."""
    source = DataFolder.open(EMBEDDED / "datasets" / "costhub" / "amd-epyc-zen5")
    (workload,) = source.workloads().filter(pc.field("name") == NAME).to_pylist()
    rows = source.select_measurements([DEVICE], None, pc.field("workload_id") == workload["workload_id"])
    folder = DataFolder.create(path)
    folder.put_device(ROW)
    folder.put_workloads([workload])
    with folder.writer(ROW["device_id"]) as writer:
        for number, row in enumerate(rows.slice(0, count).to_pylist()):
            writer.append({**row, "device_id": "board", "record_id": f"r{number}", "run_s": [run_s]})
    return path


def test_a_few_programs_only_bound_a_prediction(tmp_path: Path) -> None:
    predicted = one(NAME, ROW)
    few, slow, enough = (
        one(NAME, ROW, data=[own_programs(tmp_path / f"{count} {run_s}", count, run_s)])
        for count, run_s in ((FEWEST_PROGRAMS - 1, 1e-4), (FEWEST_PROGRAMS - 1, 1.0), (FEWEST_PROGRAMS, 1.0))
    )

    assert (few.source, few.latency_us) == (PREDICTED, pytest.approx(100.0))
    assert few.high_us / few.low_us == pytest.approx(predicted.high_us / predicted.low_us)
    assert (slow.source, slow.latency_us) == (PREDICTED, predicted.latency_us)
    assert (enough.source, enough.latency_us) == (MEASURED, pytest.approx(1e6))


def test_a_predictor_that_was_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    place = Path(shutil.copytree(EMBEDDED / PREDICTOR, tmp_path / PREDICTOR))
    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path))
    assert load_predictor().devices

    (place / "config.json").write_text((place / "config.json").read_text().replace("known/cpu", "known/gpu", 1))
    with pytest.raises(ModelError, match=r"config\.json"):
        load_predictor()


@pytest.mark.slow
def test_a_network_is_the_sum_of_its_kernels_and_the_rest() -> None:
    (network,) = estimate("resnet18", DEVICE, progress=False).networks

    total = sum(kernel.calls * kernel.latency_us for kernel in network.kernels)
    assert network.kernels_us == pytest.approx(total)
    assert network.rest_us is not None
    assert 0 < network.rest_us < 0.2 * total
    assert network.low_us < network.latency_us < network.high_us
    assert network.measured_share > 0.9
    # Errors of kernels partly cancel in the sum.
    worst = sum(kernel.calls * kernel.high_us for kernel in network.kernels)
    assert network.high_us - network.rest_us < worst


@pytest.mark.slow
def test_a_network_on_a_gpu_has_no_figure_for_the_rest() -> None:
    (network,) = estimate("resnet18", "nvidia-h200", progress=False).networks

    assert network.rest_us is None
    assert network.latency_us == network.kernels_us


@pytest.mark.slow
def test_a_network_is_taken_apart_for_a_device_without_a_target() -> None:
    (network,) = estimate("resnet18", ROW, progress=False).networks

    assert {kernel.source for kernel in network.kernels} == {PREDICTED}
    assert network.measured_share == 0.0


def test_a_device_error_names_the_probe() -> None:
    with pytest.raises(DeviceError, match="costhub probe"):
        find_row({"device_id": "board", "kind": "cpu"})


@pytest.mark.slow
def test_a_network_of_which_no_kernel_is_worth_tuning_is_refused() -> None:
    import torch

    program = torch.export.export(torch.nn.Linear(8, 8).eval(), (torch.zeros(1, 8),))

    with pytest.raises(WorkloadError, match="network has no kernel that can be estimated; the log says why"):
        estimate({"network": program}, "amd-epyc-zen5-2c", progress=False)


def test_a_predictor_that_was_trained_again_is_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(EMBEDDED / PREDICTOR, folder)
    estimate("matmul.128x128x128", "amd-epyc-zen4-2c", predictor=folder, progress=False)

    (folder / "config.json").write_text("{}")
    with pytest.raises(ModelError):
        estimate("matmul.128x128x128", "amd-epyc-zen4-2c", predictor=folder, progress=False)
