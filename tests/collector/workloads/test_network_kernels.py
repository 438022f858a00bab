"""Networks as workloads: merged over networks, named, ready for the sampler."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from costhub.collector.propose.sampler import Sampler
from costhub.collector.workloads.network_kernels import NetworkReport, NetworkWorkload, network_workloads
from costhub.collector.workloads.zoo.networks import NETWORKS
from costhub.dataset.operator_class import FAMILIES
from costhub.dataset.workload import workload_id
from costhub.errors import UnknownNameError, WorkloadError

PAGE = Path(__file__).parents[3] / "docs/networks.md"


@pytest.fixture(scope="module")
def stem(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with the first layers of ResNet-18 under other names, and nothing else that is alike."""
    path = tmp_path_factory.mktemp("network") / "stem.pt2"
    layers = (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 7, 1))
    program = torch.export.export(nn.Sequential(*layers).eval(), (torch.randn(1, 3, 224, 224),))
    torch.export.save(program, path)
    return str(path)


@pytest.fixture(scope="module")
def found(stem: str, target: str) -> tuple[tuple[NetworkWorkload, ...], list[NetworkReport]]:
    reports: list[NetworkReport] = []
    return network_workloads(["resnet18", stem], target=target, on_network=reports.append), reports


def test_a_kernel_of_two_networks_is_one_workload(
    found: tuple[tuple[NetworkWorkload, ...], list[NetworkReport]],
) -> None:
    workloads, _ = found

    shared = [dict(w.networks) for w in workloads if len(w.networks) == 2]
    assert shared == [{"resnet-18": 1.0, "stem": 1.0}]
    assert len({workload_id(w.module()) for w in workloads}) == len(workloads)
    assert len({w.name for w in workloads}) == len(workloads)


def test_weights_are_how_often_the_network_has_the_layer(
    found: tuple[tuple[NetworkWorkload, ...], list[NetworkReport]],
) -> None:
    workloads, _ = found

    # ResNet-18 has 20 convolutions and a dense layer.
    of_resnet = [(w.family, dict(w.networks).get("resnet-18", 0)) for w in workloads]
    assert sum(weight for family, weight in of_resnet if family in {"conv", "pointwise"}) == 20
    assert sum(weight for family, weight in of_resnet if family == "matmul") == 1
    assert {family for family, _ in of_resnet} <= set(FAMILIES)


def test_reports_count_what_is_kept_and_what_is_not(
    found: tuple[tuple[NetworkWorkload, ...], list[NetworkReport]],
) -> None:
    _, (resnet, stem) = found

    assert (resnet.network, stem.network) == ("resnet-18", "stem")
    for report in (resnet, stem):
        assert report.kept + sum(report.left_out.values()) == report.tasks <= report.functions
    assert resnet.left_out["moves data only"] == 1


def test_the_sampler_draws_programs_of_the_kernels(
    found: tuple[tuple[NetworkWorkload, ...], list[NetworkReport]], target: str
) -> None:
    for workload in found[0][::3]:
        assert len(Sampler(workload.module(), target, seed=0).random(2)) == 2


def test_an_unknown_network_lists_the_close_ones(target: str) -> None:
    with pytest.raises(UnknownNameError, match="resnet18"):
        network_workloads(["resnet81"], target=target)


def test_a_file_that_is_none_or_no_network_is_refused(tmp_path: Path, target: str) -> None:
    with pytest.raises(WorkloadError, match=r"no file .*none\.pt2"):
        network_workloads([str(tmp_path / "none.pt2")], target=target)

    (tmp_path / "broken.pt2").write_text("broken")
    with pytest.raises(WorkloadError, match=r"network broken cannot be turned .*torch\.export"):
        network_workloads([str(tmp_path / "broken.pt2")], target=target)


def test_a_file_with_code_is_refused_and_the_code_does_not_run(stem: str, tmp_path: Path, target: str) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {tmp_path}/exploded",)

    path = tmp_path / "evil.pt2"
    with zipfile.ZipFile(stem) as sound, zipfile.ZipFile(path, "w") as evil:
        for name in sound.namelist():
            evil.writestr(name, pickle.dumps(Bomb()) if "sample_inputs" in name else sound.read(name))

    with pytest.raises(WorkloadError, match=r"network evil cannot be turned .*holds more than tensors"):
        network_workloads([str(path)], target=target)

    assert not (tmp_path / "exploded").exists()


def test_two_networks_of_one_name_are_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "resnet-18.pt2").write_text("anything")

    names = ["resnet18", str(tmp_path / "resnet-18.pt2")]
    for both in (names, names[::-1]):
        with pytest.raises(WorkloadError, match=r"Two networks are called resnet-18; rename the file .*resnet-18\.pt2"):
            network_workloads(both, target=target)


def test_the_page_lists_every_network_with_its_parameters() -> None:
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\d[\dx, of]+) \| ([\d,]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)

    assert rows == [(n.name, n.module, n.inputs, f"{n.parameters:,}") for n in NETWORKS.values()]


@pytest.mark.slow
def test_the_whole_zoo_gives_many_workloads_of_many_families(target: str) -> None:
    workloads = network_workloads(["all"], target=target)

    assert len(workloads) > 300
    assert len({w.name for w in workloads}) == len(workloads)
    assert len({w.family for w in workloads}) >= 9
    assert {label for w in workloads for label, _ in w.networks} == {n.label for n in NETWORKS.values()}


@dataclass
class Output:
    """As libraries define outputs of their networks."""

    logits: torch.Tensor


class WithOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> Output:
        return Output(self.layer(x))


def test_outputs_of_a_class_of_another_library_are_a_sentence(tmp_path: Path, target: str) -> None:
    with contextlib.suppress(ValueError):  # it has been registered by an earlier run
        torch.export.register_dataclass(Output, serialized_type_name="elsewhere.Output")
    path = tmp_path / "classy.pt2"
    torch.export.save(torch.export.export(WithOutput().eval(), (torch.randn(2, 8),)), path)

    with pytest.raises(
        WorkloadError, match=r"returns objects of 'elsewhere\.Output', a class of a library .*export a module"
    ):
        network_workloads([str(path)], target=target)
