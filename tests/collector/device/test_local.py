"""The devices that this machine offers, and targets that TVM's CPU rules accept."""

from __future__ import annotations

import json

import pytest

from costhub.collector.device import local
from costhub.collector.device.cpu_state import core_count
from costhub.collector.device.identity import identify
from costhub.collector.device.local import (
    find_by_target,
    find_local,
    local_kind,
    local_limits,
    local_names,
    local_target,
    probe_command,
)
from costhub.dataset.schema import table_from_rows
from costhub.dataset.tile_intrinsics import has_matrix_units
from costhub.errors import DeviceError


def test_any_number_of_cores_is_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("identity", "local"):
        monkeypatch.setattr(f"costhub.collector.device.{place}.core_count", lambda: 8)
    stem = str(identify()["device_id"]).removesuffix("8c")

    (part,) = find_local([f"{stem}4c"])

    assert (part.threads, part.target["num-cores"]) == (4, 4)
    assert local_kind(f"{stem}4c") == "cpu"
    assert local_limits(part.row) == ("cpu", None, 4)
    found = find_by_target(part.target)
    assert found is not None
    assert found.device_id == f"{stem}4c"
    assert f"{stem}4c" not in local_names()
    with pytest.raises(DeviceError, match=r"has no device named.* Did you mean .*`costhub devices` lists the parts"):
        find_local([f"{stem}9c"])
    with pytest.raises(DeviceError) as caught:
        find_local(["zzzz"])
    assert "Did you mean" not in str(caught.value)


def test_the_target_names_cpu_and_cores() -> None:
    import tvm

    target = local_target()
    assert tvm.target.Target(target).kind.name == "llvm"
    assert target["num-cores"] >= 1
    assert target["mcpu"]


def test_a_device_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(DeviceError, match="opencl"):
        local_target("opencl")


def test_every_name_leads_to_the_device_of_that_name() -> None:
    whole = identify()["device_id"]
    assert whole in local_names()
    for name, (isa, threads) in local_names().items():
        (device,) = find_local([name])
        assert device.device_id == name
        assert (device.isa, device.threads) == (isa, threads)
        assert device.target["num-cores"] == threads
        assert table_from_rows("devices", [device.row]).num_rows == 1


def test_auto_is_the_whole_cpu_and_a_name_counts_once() -> None:
    whole = identify()["device_id"]
    assert [d.device_id for d in find_local(["auto", whole])] == [whole]


def test_devices_that_need_other_builds_are_not_collected_together() -> None:
    names = list(local_names())
    limited = [name for name in names if name.endswith("-sse4.2")]
    if not limited:
        pytest.skip("this CPU knows no SSE4.2")
    with pytest.raises(DeviceError, match="one after the other"):
        find_local([names[0], limited[0]])


def test_another_machine_is_a_sentence_with_the_close_names() -> None:
    whole = identify()["device_id"]
    with pytest.raises(DeviceError, match=whole):
        find_local([whole + "x"])
    with pytest.raises(DeviceError, match=r"name a board with --tracker HOST:PORT --key KEY"):
        find_local(["raspberry-pi-5"])


@pytest.mark.parametrize("name", ["rocm", "amd-mi50", "mi300x", "radeon-instinct-mi50"])
def test_an_amd_gpu_is_told_what_tvm_lacks_and_what_to_do(name: str) -> None:
    with pytest.raises(DeviceError, match=f"{name} cannot be measured here. TVM's wheel is built without ROCm") as told:
        find_local([name])
    assert "`costhub estimate --device amd-mi50`" in str(told.value)


def test_a_device_has_a_kind_and_limits_before_tvm_is_loaded() -> None:
    whole = identify()
    one = identify(isa="sse4.2", threads=1)

    assert [
        local_kind(name) for name in ("auto", whole["device_id"], one["device_id"], "cuda", "nvidia-x9", "desk")
    ] == [
        "cpu",
        "cpu",
        "cpu",
        "cuda",
        "cuda",
        None,
    ]
    assert local_limits(whole) == ("cpu", None, None)
    assert local_limits(one) == ("cpu", "sse4.2", 1 if whole["cores"] > 1 else None)
    assert local_limits({"device_id": "nvidia-x9", "kind": "cuda"}) == ("cuda", None, None)
    assert probe_command(whole) == "costhub probe"
    assert probe_command(one) == "costhub probe --isa sse4.2" + " --threads 1" * (whole["cores"] > 1)
    assert probe_command({"device_id": "nvidia-x9", "kind": "cuda"}) == "costhub probe --kind cuda"


def test_a_target_names_the_part_of_this_machine_that_it_is_for() -> None:
    import tvm

    for isa, threads in local_names().values():
        target = local_target(isa=isa, threads=threads)
        found = find_by_target(json.loads(str(tvm.target.Target(target))))

        assert found is not None
        assert local_target(isa=found.isa, threads=found.threads) == target
        assert find_local([found.device_id])[0].target == target


@pytest.mark.parametrize("threads", [1, core_count()])
def test_the_target_that_tvm_detects_is_the_whole_cpu(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import tvm

    raw = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "rocketlake"})
    monkeypatch.setattr(tvm.target.Target, "from_device", staticmethod(lambda _: raw))
    monkeypatch.setattr(local, "cpu_flags", lambda: {*local.HIDEABLE.values()})
    named = {"microarchitecture": "graniterapids"}
    monkeypatch.setattr(local, "identify", lambda **limits: {**identify(**limits), **named})
    given = {"kind": "llvm", "mcpu": "rocketlake", "num-cores": threads}

    found = find_by_target(given)

    assert local_target(threads=threads)["mcpu"] == "graniterapids"
    assert found is not None
    assert (found.threads, found.isa, found.target) == (threads, None, given)


def test_a_target_of_no_device_here_has_none() -> None:
    assert find_by_target({**local_target(), "mcpu": "cortex-a72"}) is None
    assert find_by_target({**local_target(), "num-cores": 1024}) is None


@pytest.mark.parametrize("hidden", [["amx-bf16", "amx-int8", "amx-tile"], ["avx512bf16"], []])
def test_instructions_that_a_hypervisor_hides_are_left_out(hidden: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import tvm

    xeon = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "sapphirerapids"}
    listed = {flag for feature, flag in local.HIDEABLE.items() if feature not in hidden}
    monkeypatch.setattr(local, "cpu_flags", lambda: listed | {"avx2"})

    found = local.hidden_features(xeon)

    assert sorted(found) == hidden
    target = tvm.target.Target({**xeon, "mattr": [f"-{feature}" for feature in found]})
    assert has_matrix_units(target) == ("amx-bf16" not in hidden)


def test_an_intel_whose_model_is_hidden_is_compiled_for_by_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import tvm

    older = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "rocketlake"})
    monkeypatch.setattr(tvm.target.Target, "from_device", staticmethod(lambda _: older))
    monkeypatch.setattr(local, "identify", lambda: {"microarchitecture": "graniterapids"})
    monkeypatch.setattr(local, "cpu_flags", lambda: {*local.HIDEABLE.values()} - {"avx512_fp16"})

    found = local.local_target(threads=2)

    assert (found["mcpu"], found["mattr"]) == ("graniterapids", ["-avx512fp16"])
    assert has_matrix_units(tvm.target.Target(found))
    assert local.local_target(isa="avx2", threads=2)["mcpu"] == "x86-64-v3"
    monkeypatch.setattr(local, "identify", lambda: {"microarchitecture": "aarch64"})  # an emulator on such a machine
    assert local.local_target(threads=2)["mcpu"] == "rocketlake"
    monkeypatch.setattr(local, "identify", lambda: {"microarchitecture": "graniterapids"})
    monkeypatch.setattr(local, "cpu_flags", lambda: {"avx2"})
    assert local.local_target(threads=2)["mcpu"] == "rocketlake"


def test_without_a_list_of_instructions_nothing_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "cpu_flags", set)

    assert local.hidden_features({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "sapphirerapids"}) == []


def test_a_gpu_without_what_compiles_for_it_is_refused_before_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"pip install 'apache-tvm\[cuda\]=="):
        local.check_cuda_compiler()

    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "nvcc")
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr("tvm.support.nvcc.find_cuda_path", lambda: (_ for _ in ()).throw(RuntimeError("none")))
    with pytest.raises(DeviceError, match="set CUDA_PATH"):
        local.check_cuda_compiler()

    monkeypatch.setattr("tvm.support.nvcc.find_cuda_path", lambda: "/usr/local/cuda")
    local.check_cuda_compiler()
