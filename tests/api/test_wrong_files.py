"""Files that people give instead of an exported network, and how they are told what to export."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from costhub.api.subjects import Subjects, read_subjects
from costhub.errors import WorkloadError


def written(path: Path, *names: str) -> str:
    """A zip archive with empty files of these names, which is all that is looked at."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(f"net/{name}", "")
    return str(path)


@pytest.mark.parametrize(
    ("name", "entries", "words"),
    [
        ("net.pt", ["data.pkl", "version"], "was written by torch.save, not torch.export.save"),
        ("net.pt2", ["data.pkl", "version"], "was written by torch.save, not torch.export.save"),
        ("net.pt", ["data.pkl", "constants.pkl"], "is TorchScript"),
        ("net.pt2", ["data.pkl", "constants.pkl"], "is TorchScript"),
        ("net.onnx", [], "is an ONNX model, which costhub does not read"),
        ("net.py", [], "is Python code, which costhub does not run"),
        ("net", [], "is not an exported network"),
    ],
)
@pytest.mark.parametrize("as_network", [False, True])
def test_a_file_that_is_no_exported_network_is_named_with_the_way_to_export_one(
    tmp_path: Path, name: str, entries: list[str], words: str, as_network: bool
) -> None:
    path = written(tmp_path / name, *entries)
    subjects = Subjects(networks=(path,)) if as_network else read_subjects(path, tmp_path)

    with pytest.raises(WorkloadError) as caught:
        subjects.check()

    assert str(caught.value).startswith(f"{path} {words}")
    assert "torch.export.save(torch.export.export(network.eval(), (example_input,)), 'net.pt2')" in str(caught.value)


def test_a_name_beside_a_file_of_that_name_is_meant_as_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "mine.pt2")

    with pytest.raises(WorkloadError, match=r"named 'mine', but a file mine\.pt2: give that as the network\.$"):
        read_subjects("mine", tmp_path).check()


def test_a_path_to_nothing_and_a_folder_are_named(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "nets/mine", "There is no file "), (tmp_path, f"{tmp_path} is a folder")):
        with pytest.raises(WorkloadError, match=words):
            read_subjects(path, tmp_path).check()


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_what_torch_writes_is_told_apart(tmp_path: Path) -> None:
    import torch

    network, example = torch.nn.Linear(4, 2).eval(), (torch.zeros(1, 4),)
    torch.export.save(torch.export.export(network, example), tmp_path / "net.pt2")
    torch.save(network, tmp_path / "saved.pt2")
    torch.jit.save(torch.jit.trace(network, example), tmp_path / "script.pt2")

    read_subjects(tmp_path / "net.pt2", tmp_path).check()
    for name, words in (("saved", "written by torch.save"), ("script", "is TorchScript")):
        with pytest.raises(WorkloadError, match=words):
            read_subjects(tmp_path / f"{name}.pt2", tmp_path).check()
