"""What this machine is: its CPU, its GPU, and the instruction sets that it can be limited to."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from costhub.collector.device import identity as device
from costhub.collector.device.identity import ISA_LEVELS, cuda_facts, cuda_row, identify, isa_level
from costhub.dataset.schema import table_from_rows
from costhub.errors import DeviceError, UnknownNameError


def test_each_level_has_all_that_the_one_before_it_has() -> None:
    levels = list(ISA_LEVELS.values())
    for smaller, larger in itertools.pairwise(levels):
        assert set(smaller.features) < set(larger.features)
        assert smaller.simd_bits < larger.simd_bits


def test_llvm_knows_them_and_their_vectors_are_as_wide_as_we_say() -> None:
    import tvm

    for level in ISA_LEVELS.values():
        target = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": level.mcpu})
        with target:
            features = set(tvm.target.codegen.llvm_get_cpu_features(target))
        assert level.flag.replace("_", ".") in features or level.flag in features
        assert ("avx512f" in features) == (level.simd_bits == 512)
        assert ("avx2" in features) == (level.simd_bits >= 256)


def test_an_unknown_one_is_a_sentence() -> None:
    with pytest.raises(UnknownNameError, match="avx512"):
        isa_level("avx51")


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("6.18.44-fc-v669", "Linux 6.18.44"),
        ("5.15.0-1071-aws", "Linux 5.15.0"),
        ("6.1.0-ada-lovelace.lab+", "Linux 6.1.0"),
        ("6.9.3.node17", "Linux 6.9.3"),
        ("custom", "Linux"),
        ("", "Linux"),
    ],
)
def test_a_kernel_is_its_numbers(release: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.platform, "system", lambda: "Linux")
    monkeypatch.setattr(device.platform, "release", lambda: release)
    assert identify()["driver"] == said


FACTS = {
    "name": "NVIDIA GeForce RTX 4090",
    "compute_version": "8.9",
    "multiprocessors": 128,
    "memory_bytes": 25_000_000_000,
    "l2_bytes": 75_497_472,
    "driver": "CUDA API 13000",
}


def test_the_row_fits_the_table_and_its_name_the_hub() -> None:
    row = cuda_row(FACTS)
    assert table_from_rows("devices", [row]).num_rows == 1
    assert row["device_id"] == "nvidia-geforce-rtx-4090"
    assert row["microarchitecture"] == "sm_89"
    assert row["cores"] == 128


def test_this_machine_has_a_gpu_or_a_sentence_says_that_it_has_none() -> None:
    import tvm

    if tvm.cuda(0).exist:
        assert cuda_row(cuda_facts())["vendor"] == "NVIDIA"
    else:
        with pytest.raises(DeviceError, match=r"no NVIDIA GPU|no cuda device"):
            cuda_facts()


def test_where_no_driver_runs_tvm_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costhub.collector.device.identity.GPU_NODES", ("no-such-node",))
    monkeypatch.setitem(sys.modules, "tvm", None)  # importing it would raise

    with pytest.raises(DeviceError, match="no NVIDIA GPU, or its driver is not loaded"):
        identify("cuda")


def test_the_identity_is_a_row_and_stable() -> None:
    row = identify()
    assert table_from_rows("devices", [row]).num_rows == 1
    assert identify()["device_id"] == row["device_id"]
    assert row["cores"] >= 1


def test_a_masked_cpu_is_named_by_its_family() -> None:
    facts = {"vendor_id": "AuthenticAMD", "cpu family": "26"}

    class Host:
        vendor = "generic"
        name = "x86_64_v4"

    original = device.archspec.cpu.host
    device.archspec.cpu.host = lambda: Host
    try:
        assert device._microarchitecture(facts, set()) == "zen5"
        assert device._microarchitecture({**facts, "cpu family": "25"}, {"avx512f"}) == "zen4"
        assert device._microarchitecture({"vendor_id": "Other"}, set()) == "x86_64_v4"
        assert device._microarchitecture({"model": "IBM,8286-42A"}, set()) == "x86_64_v4"
    finally:
        device.archspec.cpu.host = original


@pytest.mark.parametrize(("family", "named"), [("25", "zen3"), ("23", "zen2"), ("99", "zen2")])
def test_a_zen3_without_protection_keys_is_no_zen2(family: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What archspec says of a Zen 3 (Milan) whose hypervisor masks protection keys (pku).
    host = SimpleNamespace(vendor="AuthenticAMD", name="zen2")
    monkeypatch.setattr(device.archspec.cpu, "host", lambda: host)

    assert device._microarchitecture({"vendor_id": "AuthenticAMD", "cpu family": family}, {"avx2"}) == named


@pytest.mark.parametrize(
    ("family", "model", "named"),
    [("6", "207", "emeraldrapids"), ("6", "173", "graniterapids"), ("6", "85", "icelake"), ("15", "207", "icelake")],
)
def test_an_intel_is_named_by_its_model(family: str, model: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What archspec says of both Xeons with matrix units, whose hypervisor masks a few instructions.
    monkeypatch.setattr(device.archspec.cpu, "host", lambda: SimpleNamespace(vendor="GenuineIntel", name="icelake"))
    facts = {"vendor_id": "GenuineIntel", "cpu family": family, "model": model}

    assert device._microarchitecture(facts, {"avx512f"}) == named


@pytest.mark.parametrize(
    ("model", "l3_mib", "named"),
    [
        *[("167", 480, "graniterapids"), ("106", 480, "graniterapids"), ("167", 260, "emeraldrapids")],
        *[("167", 105, "sapphirerapids"), ("167", None, "sapphirerapids"), ("207", 480, "emeraldrapids")],
    ],
)
def test_an_intel_with_matrix_units_whose_model_is_hidden_is_named_by_its_l3(
    model: str, l3_mib: int | None, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A Granite Rapids of 480 MiB whose hypervisor gives the model number of a Rocket Lake, 167.
    facts = {"vendor_id": "GenuineIntel", "cpu family": "6", "model": model}
    l3_bytes = l3_mib and l3_mib << 20

    for guess in ("icelake", "sapphirerapids"):
        host = SimpleNamespace(vendor="GenuineIntel", name=guess)
        monkeypatch.setattr(device.archspec.cpu, "host", lambda host=host: host)
        assert device._microarchitecture(facts, {"avx512f", "amx_tile"}, l3_bytes) == named
    assert device._microarchitecture({**facts, "model": "106"}, {"avx512f"}, l3_bytes) == "icelake"


def test_a_newer_intel_with_matrix_units_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.archspec.cpu, "host", lambda: SimpleNamespace(vendor="GenuineIntel", name="later"))
    monkeypatch.setitem(device.archspec.cpu.TARGETS, "later", SimpleNamespace(features={"amx_tile"}))
    facts = {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "250"}

    assert device._microarchitecture(facts, {"amx_tile"}, 480 << 20) == "later"


def test_a_cache_that_the_system_does_not_describe_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, facts in enumerate(({"level": "1", "type": "Data", "size": "48K"}, {"level": "2"})):
        (tmp_path / f"cpu0/cache/index{number}").mkdir(parents=True)
        for name, text in facts.items():
            (tmp_path / f"cpu0/cache/index{number}" / name).write_text(text)
    monkeypatch.setattr(device, "CPU_ROOT", tmp_path)

    assert device._caches(0) == {"l1d_bytes": 48 << 10, "l2_bytes": None, "l3_bytes": None}


def test_an_id_repeats_no_word_and_holds_no_odd_character() -> None:
    assert device._device_id("AMD", "AMD EPYC 9B14", "zen5", 2) == "amd-epyc-zen5-2c"
    assert device._device_id("Intel", "Intel(R) Xeon(R) Platinum 8272CL", "cascadelake", 16) == (
        "intel-xeon-cascadelake-16c"
    )


def test_the_temperature_is_that_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    sensors = {"nvme": [55.0], "k10temp": [41.0, 44.0]}
    found = {name: [SimpleNamespace(current=c) for c in values] for name, values in sensors.items()}
    monkeypatch.setattr(device.psutil, "sensors_temperatures", lambda: found, raising=False)
    assert device.temperature_c() == 44.0
    del found["k10temp"]
    assert device.temperature_c() is None
    # What Linux calls them on a Raspberry Pi, an RK3588 and a Jetson.
    for degrees, name in enumerate(("cpu_thermal", "littlecore_thermal", "bigcore0_thermal", "CPU-therm"), start=60):
        found[name] = [SimpleNamespace(current=float(degrees))]
        assert device.temperature_c() == degrees


def test_clock_and_temperature_are_numbers_or_nothing() -> None:
    assert device.clock_mhz() is None or device.clock_mhz() > 0  # type: ignore[operator]
    assert device.temperature_c() is None or -50 < device.temperature_c() < 150  # type: ignore[operator]
