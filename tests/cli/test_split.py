from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import list_splits, load_split

Costhub = Callable[..., Any]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Convolutions of two ResNets, which share one, and matrix products of none, on two devices."""
    build = runpy.run_path(str(Path(__file__).with_name("measured_folder.py")))["build_data"]
    path: Path = build(tmp_path / "data", each=4)
    build(path, device_id="blit-gpu", each=2)
    folder = DataFolder.open(path)
    rows = {row["workload_id"]: row for row in folder.workloads().to_pylist()}
    for number, networks in enumerate((["resnet-18"], ["resnet-18", "resnet-50"], ["resnet-50"])):
        rows[f"id-conv2d{number}"]["networks"] = [{"name": name, "weight": 1.0} for name in networks]
    folder.put_workloads(list(rows.values()))
    return path


def test_one_split_for_each_network_is_written_and_counted(costhub: Costhub, data: Path) -> None:
    output = costhub("split", str(data), "--by", "network")

    assert (output.code, output.err) == (0, "")
    assert [line.split() for line in output.out.splitlines()[1:]] == [
        ["network-resnet-18", "network", "4", "2", "24", "12"],
        ["network-resnet-50", "network", "4", "2", "24", "12"],
    ]
    assert load_split(data, "network-resnet-18").test == ("id-conv2d0", "id-conv2d1")


@pytest.mark.parametrize(
    ("options", "name", "test"),
    [
        (["network", "--hold-out", "resnet-18", "--hold-out", "ResNet_50"], "network-resnet-18+resnet-50", 3),
        (["network", "--tenset"], "network-tenset", 2),
        (["operator", "--hold-out", "matmul"], "operator-matmul", 3),
        (["workload", "--count", "3", "--seed", "4"], "workload-3-seed4", 3),
        (["workload"], "workload-2-seed0", 2),
        (["device", "--hold-out", "blit-gpu"], "device-blit-gpu", 6),
        (["device", "--hold-out", "blit-gpu", "--count", "2"], "device-blit-gpu-workload-2-seed0", 2),
    ],
)
def test_what_to_hold_out_can_be_named(costhub: Costhub, data: Path, options: list[str], name: str, test: int) -> None:
    output = costhub("split", str(data), "--by", *options, "--json")

    [found] = json.loads(output.out)
    assert (found["name"], found["test"], found["misfits"]) == (name, test, [])
    assert list_splits(data) == [name]
    before = (data / "splits" / f"{name}.json").read_bytes()
    assert costhub("split", str(data), "--by", *options).code == 0
    assert (data / "splits" / f"{name}.json").read_bytes() == before


def test_every_device_is_held_out_once(costhub: Costhub, data: Path) -> None:
    output = costhub("split", str(data), "--by", "device")

    assert [line.split()[-2:] for line in output.out.splitlines()[1:]] == [["12", "24"], ["24", "12"]]
    assert list_splits(data) == ["device-acme-one", "device-blit-gpu"]


def test_the_splits_of_a_folder_are_listed_with_what_does_not_fit(costhub: Costhub, data: Path) -> None:
    assert costhub("split", str(data)).out == f"{data} has no splits; make some with --by.\n"
    costhub("split", str(data), "--by", "operator", "--hold-out", "matmul")
    folder = DataFolder.open(data)
    folder.put_workloads([{**folder.workloads().to_pylist()[0], "workload_id": "new-one"}])

    output = costhub("split", str(data))

    assert output.out.splitlines()[1].split() == ["operator-matmul", "operator", "3", "3", "18", "18"]
    assert output.out.splitlines()[2] == (
        "operator-matmul: 1 workload of the folder is on neither side, such as new-one."
    )
    # A split of that name made now would be another one.
    again = costhub("split", str(data), "--by", "operator", "--hold-out", "matmul")
    assert again.code == 2
    assert "is another split of that name" in again.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--tenset"], "--tenset goes with --by network"),
        (["--by", "network", "--tenset", "--hold-out", "vit"], "--tenset goes with"),
        (["--by", "workload", "--hold-out", "vit"], "--hold-out goes with"),
        (["--by", "network", "--count", "2"], "--count goes with"),
        (["--by", "network", "--hold-out", "resnet-81"], "Did you mean resnet-18"),
        (["--by", "moon"], "moon"),
        (["--out", "splits"], "--out goes with --by"),
    ],
)
def test_what_makes_no_sense_is_refused(costhub: Costhub, data: Path, options: list[str], words: str) -> None:
    output = costhub("split", str(data), *options)

    assert output.code == 2
    assert words in output.err
    assert list_splits(data) == []


def test_a_folder_that_does_not_know_its_networks_says_so(costhub: Costhub, tmp_path: Path) -> None:
    build = runpy.run_path(str(Path(__file__).with_name("measured_folder.py")))["build_data"]
    build(tmp_path / "data", each=1)

    output = costhub("split", str(tmp_path / "data"), "--by", "network")

    assert output.code == 2
    assert "its workloads do not say which networks they come from" in output.err
