"""What `costhub.compile` is told: the target, whose rows apply, and which workloads are held out."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from costhub.api.compile_inputs import (
    MOST_DEVICES,
    check_held_out,
    check_target,
    data_folders,
    find_target,
    held_out,
    known_rows,
    own_folders,
)
from costhub.collector.device.identity import identify
from costhub.collector.device.local import local_names
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.workload import workload_id
from costhub.errors import CosthubError, UnknownNameError, WorkloadError
from costhub.hub.catalogue import names
from costhub.hub.catalogue.devices import find_device

ARM = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("nvidia-h200", "nvidia-h200 is a GPU, and this compiles for CPUs only"),
        ("cuda", "cuda is a GPU"),
        ("rocm", "rocm is a GPU, and this compiles for CPUs only. TVM's wheel is built without ROCm"),
        ("amd-mi50", "amd-mi50 is a GPU.*without ROCm.*`costhub estimate --device amd-mi50`"),
        ('{"kind": "rocm", "mcpu": "gfx906"}', "is a GPU.*without ROCm"),
        ("any-cpu", "any-cpu stands for many CPUs and has no target; name a CPU"),
        ("amd-epyc-zen9", "There is no device named 'amd-epyc-zen9'"),
        ("{", "is not JSON; write for example"),
        ("{}", 'A target needs "kind": "llvm" and "num-cores"'),
        ('{"kind": "cuda", "num-cores": 2}', 'A target needs "kind": "llvm"'),
        ('{"kind": "llvm", "num-cores": true}', "the number of threads"),
        ('{"kind": "llvm", "num-cores": 0}', "the number of threads"),
        ('{"kind": "llvm", "num-cores": 1000000000}', "at most 65,536"),
        (json.dumps({"kind": "llvm", "num-cores": 2, "mcpu": "\x1b[2J"}), "has characters that cannot be printed"),
    ],
)
def test_what_cannot_be_compiled_for_is_refused_with_a_sentence(device: str, words: str) -> None:
    with pytest.raises(CosthubError, match=words) as refused:
        check_target(device)
    assert refused.value.exit_code == 2


def test_a_target_that_tvm_does_not_accept_is_refused() -> None:
    with pytest.raises(WorkloadError, match="TVM does not accept the target"):
        find_target('{"kind": "llvm", "num-cores": 2, "mcpu": 3}')
    with pytest.raises(WorkloadError, match="LLVM does not accept the target"):
        find_target('{"kind": "llvm", "num-cores": 2, "cl-opt": ["-info-output-file=x"]}')


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["nonsense", "../../x-linux-gnu", "csky-linux-gnu", 7])
def test_a_machine_for_which_llvm_has_no_code_is_refused(machine: Any, tmp_path: Path) -> None:
    """TVM crashes on it."""
    target = json.dumps({"kind": "llvm", "mtriple": machine, "num-cores": 2})
    path = tmp_path / "board.json"
    path.write_text(json.dumps({"device_id": "board", "kind": "cpu", "target": target}))

    for device in (target, str(path)):
        with pytest.raises(CosthubError, match=r"cannot generate code for the machine|TVM does not accept the target"):
            find_target(device)


def test_an_unknown_cpu_of_a_file_is_refused_with_close_names(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    target = json.dumps({**ARM, "mcpu": "cortex-a27"})
    path.write_text(json.dumps({"device_id": "board", "kind": "cpu", "target": target}))

    with pytest.raises(CosthubError, match=r"There is no CPU \(mcpu\) named 'cortex-a27'\. Did you mean"):
        find_target(str(path))


def test_this_machine_runs_what_is_compiled_for_it_or_a_part_of_it() -> None:
    whole, part = find_target("auto"), find_target(f"{min(local_names(), key=len)}")

    assert whole.row["device_id"] == identify()["device_id"]
    assert whole.target.threads == identify()["cores"]
    assert part.target.runs_here


def test_an_alias_of_this_machine_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    here = identify()["device_id"]
    monkeypatch.setattr(names, "resolve_device", lambda _: SimpleNamespace(device_id=here))

    found = find_target("my-chip")

    assert found.row["device_id"] == here
    assert found.target.runs_here


def test_a_device_of_the_index_and_a_target_alone_are_only_built_for() -> None:
    other = next(name for name in ("amd-epyc-zen4-2c", "amd-epyc-zen5-2c") if name not in local_names())
    indexed, alone = find_target(other), find_target(json.dumps(ARM))

    assert json.loads(indexed.target.text) == json.loads(find_device(other).target)  # type: ignore[union-attr,arg-type]
    assert not indexed.target.runs_here
    assert not alone.target.runs_here
    assert (alone.row["device_id"], alone.row["cores"], alone.row["simd_bits"]) == ("cortex-a72-4c", 4, 128)


def test_a_file_describes_a_device_that_nobody_has_listed(tmp_path: Path) -> None:
    row = {**row_of("amd-epyc-zen4-2c"), "device_id": "acme-one-2c"}
    (tmp_path / "acme.json").write_text(json.dumps(row))
    found = find_target(str(tmp_path / "acme.json"))

    assert (found.row["device_id"], found.row["peak_gflops"]) == ("acme-one-2c", row["peak_gflops"])
    assert json.loads(found.target.text)["mcpu"] == "znver4"
    assert not found.target.runs_here


def test_a_file_without_a_target_says_so(tmp_path: Path) -> None:
    (tmp_path / "acme.json").write_text(json.dumps({"device_id": "acme-one-2c", "kind": "cpu"}))
    with pytest.raises(CosthubError, match="acme-one-2c has no target in its file; name a CPU, or give a target"):
        check_target(str(tmp_path / "acme.json"))
    for target, words in (
        (3, "a text in JSON was expected"),
        ('{"kind": "llvm"}', "the number of threads"),
        ("x", "JSON"),
        ('{"kind": "llvm", "num-cores": 2, "cl-opt": ["-x"]}', "no options of LLVM"),
    ):
        (tmp_path / "nvidia-grace.json").write_text(json.dumps({"device_id": "a", "kind": "cpu", "target": target}))
        with pytest.raises(CosthubError, match=words):
            check_target(str(tmp_path / "nvidia-grace.json"))
    with pytest.raises(CosthubError, match=r"There is no file gone\.json"):
        check_target("gone.json")


def test_a_file_with_a_cpu_that_llvm_does_not_know_says_so(tmp_path: Path) -> None:
    target = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver44", "num-cores": 2}
    row = {**row_of("amd-epyc-zen4-2c"), "device_id": "acme-one-2c", "target": json.dumps(target)}
    (tmp_path / "acme.json").write_text(json.dumps(row))

    for device, where in ((str(tmp_path / "acme.json"), r"The target in .*acme\.json names it"), (row["target"], "")):
        with pytest.raises(UnknownNameError, match=rf"There is no CPU \(mcpu\) named 'znver44'.*znver4.*{where}"):
            find_target(device)


def test_an_unknown_device_is_told_of_files_and_targets() -> None:
    with pytest.raises(CosthubError, match=r"costhub probe --json > chip\.json.*or give a TVM target such as \{"):
        check_target("acme-one")


def row_of(name: str) -> dict[str, Any]:
    found = find_device(name)
    assert found is not None
    return found.row()


def test_the_device_itself_comes_first_then_those_with_its_instructions() -> None:
    rows = known_rows(row_of("amd-epyc-zen5-1c"), data_folders())

    assert (rows[0].device_id, rows[0].is_target) == ("amd-epyc-zen5-1c", True)
    assert not any(each.is_target for each in rows[1:])
    assert len(rows) == MOST_DEVICES
    like = {each.device_id: each.is_like_target for each in rows}
    assert like["amd-epyc-zen5-2c"]
    assert not like.get("amd-epyc-zen5-1c-avx2", False), "its vectors are half as wide"
    assert not any(each.is_own for each in rows)


def test_rows_of_a_folder_that_the_user_named_are_the_users_own() -> None:
    own = own_folders(["amd-epyc-zen5"])
    rows = known_rows(row_of("amd-epyc-zen5-1c"), data_folders(own), own)

    assert {each.data.name for each in rows if each.is_own} == {"amd-epyc-zen5"}
    assert "amd-epyc-zen5" not in {each.data.name for each in rows if not each.is_own}


def test_a_folder_of_the_user_counts_however_many_devices_of_the_hub_are_nearer() -> None:
    own = own_folders("amd-epyc-zen3")
    rows = known_rows(row_of("amd-epyc-zen5-1c"), data_folders(own), own)

    assert {each.data.name for each in rows if each.is_own} == {"amd-epyc-zen3"}
    assert len([each for each in rows if not each.is_own]) == MOST_DEVICES


def test_nothing_on_x86_is_like_an_arm() -> None:
    rows = known_rows(find_target(json.dumps(ARM)).row, data_folders())

    assert rows
    assert not any(each.is_like_target for each in rows)


def test_workloads_are_held_out_by_name_id_suite_and_network() -> None:
    folders = data_folders()
    one = workload_id(find_workload("matmul.128x128x128").module())

    assert held_out(["matmul.128x128x128"], folders) == held_out([one], folders) == {one}
    assert one in held_out(["matmul"], folders)
    assert len(held_out(["resnet18"], folders)) > 10
    check_held_out(["mobilenet_v2", "softmax", one], folders)


def test_an_unknown_name_to_hold_out_is_refused() -> None:
    with pytest.raises(CosthubError, match="There is no workload, suite or network named 'matmull'"):
        check_held_out(["matmull"], data_folders())


def test_a_target_has_the_features_that_linux_would_show_of_the_cpu() -> None:
    def features(triple: str, mcpu: str) -> list[str]:
        fields = {"kind": "llvm", "mtriple": triple, "mcpu": mcpu, "num-cores": 4}
        row = find_target(json.dumps(fields)).row
        assert row["simd_bits"] == (128 if triple.startswith("aarch64") else 512)
        return list(row["isa_features"])

    assert features("aarch64-linux-gnu", "cortex-a72") == ["asimd"]
    assert features("aarch64-linux-gnu", "cortex-a76") == ["asimd", "asimdhp", "asimddp"]
    assert "bf16" in features("aarch64-linux-gnu", "neoverse-v1")
    assert {"sse4_2", "avx512_vnni", "avx_vnni", "amx_tile"} <= set(features("x86_64-linux-gnu", "sapphirerapids"))
