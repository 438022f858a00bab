"""What Linux tells of ARM CPUs: texts as real boards and servers show them, and what costhub makes of them.

The texts are shortened: a board shows one block for each CPU. They are those of a Raspberry Pi 4 and 5, a Jetson Xavier
and Orin, a Rock 5B, and servers with an Ampere Altra and a Graviton3.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from costhub.collector.device import cpu_state, identity
from costhub.collector.device.arm_cpu import arm_facts, is_emulated
from costhub.collector.device.identity import identify
from costhub.dataset.schema import table_from_rows

OF_A72 = "fp asimd evtstrm crc32 cpuid"
OF_A76 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
OF_V1 = f"{OF_A76} jscvt fcma sha3 sm3 sm4 sha512 sve asimdfhm dit uscat ilrcpc flagm svei8mm svebf16 i8mm bf16 dgh rng"
OF_PI = "Revision\t: c04170\nSerial\t\t: 0000000000000000\nModel\t\t: Raspberry Pi 5 Model B Rev 1.0\n"
A55 = {"1 Data": "32K", "1 Instruction": "32K", "2 Unified": "128K", "3 Unified": "3072K"}
A76 = {"1 Data": "64K", "1 Instruction": "64K", "2 Unified": "512K", "3 Unified": "3072K"}

Board = Callable[..., dict[str, Any]]


def cpuinfo(parts: Sequence[str], features: str, *, implementer: str = "0x41", name: str = "", end: str = "") -> str:
    head = f"model name\t: {name}\nBogoMIPS\t: 108.00\n" if name else "BogoMIPS\t: 108.00\n"
    return (
        "".join(
            f"processor\t: {number}\n{head}Features\t: {features}\nCPU implementer\t: {implementer}\n"
            f"CPU architecture: 8\nCPU variant\t: 0x4\nCPU part\t: {part}\nCPU revision\t: 1\n\n"
            for number, part in enumerate(parts)
        )
        + end
    )


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    """Makes this machine look like a board: its CPUs are as many as the text describes."""

    def identified(
        text: str,
        *,
        compatible: str = "",
        model: str = "",
        clocks: Mapping[int, int] | None = None,
        caches: Sequence[Mapping[str, str]] = (),
    ) -> dict[str, Any]:
        tree, cpus, info = tmp_path / "device-tree", tmp_path / "cpus", tmp_path / "cpuinfo"
        tree.mkdir()
        info.write_text(text)
        for name, said in (("compatible", compatible), ("model", model)):
            if said:
                (tree / name).write_text(said)
        for cpu, clock in (clocks or {}).items():
            put(cpus / f"cpu{cpu}/cpufreq/cpuinfo_max_freq", str(clock))
        for cpu, levels in enumerate(caches):
            for number, (level, size) in enumerate(levels.items()):
                for name, said in zip(("level", "type", "size"), (*level.split(), size), strict=True):
                    put(cpus / f"cpu{cpu}/cache/index{number}/{name}", said)
        count = text.count("processor\t")
        monkeypatch.setattr(cpu_state, "usable_cpus", lambda: list(range(count)))
        monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: count)
        for function in (cpu_state.physical_cpus, cpu_state.fast_cpus):
            monkeypatch.setattr(function, "__defaults__", (cpus,))
        monkeypatch.setattr(arm_facts, "__defaults__", (tree,))
        monkeypatch.setattr(identity, "CPU_INFO", info)
        monkeypatch.setattr(identity, "CPU_ROOT", cpus)
        monkeypatch.setattr(platform, "machine", lambda: "aarch64")
        row = identify()
        assert table_from_rows("devices", [row]).num_rows == 1
        return row

    return identified


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def test_a_raspberry_pi_5_is_called_after_its_chip_and_its_own_core(board: Board) -> None:
    text = cpuinfo(["0xd0b"] * 4, OF_A76, end=OF_PI)
    row = board(
        text,
        compatible="raspberrypi,5-model-b\0brcm,bcm2712\0",
        model="Raspberry Pi 5 Model B Rev 1.0\0",
        clocks=dict.fromkeys(range(4), 2_400_000),
        caches=[A76] * 4,
    )
    assert (row["device_id"], row["vendor"], row["cores"]) == ("arm-bcm2712-cortex-a76-4c", "ARM", 4)
    assert (row["microarchitecture"], row["model_name"]) == ("cortex-a76", "Raspberry Pi 5 Model B Rev 1.0")
    assert (row["l1d_bytes"], row["l2_bytes"], row["l3_bytes"]) == (64 << 10, 512 << 10, 3072 << 10)
    assert (row["simd_bits"], row["isa_features"]) == (128, ["asimd", "asimdhp", "asimddp"])


def test_a_raspberry_pi_4_without_cache_or_clock_files_is_a_row_too(board: Board) -> None:
    row = board(cpuinfo(["0xd08"] * 4, OF_A72), compatible="raspberrypi,4-model-b\0brcm,bcm2711\0")
    assert row["device_id"] == "arm-bcm2711-cortex-a72-4c"
    assert (row["model_name"], row["isa_features"]) == ("Cortex-A72", ["asimd"])
    assert (row["l1d_bytes"], row["l2_bytes"], row["l3_bytes"]) == (None, None, None)


def test_where_a_container_hides_the_device_tree_the_board_is_in_the_cpuinfo(board: Board) -> None:
    row = board(cpuinfo(["0xd0b"] * 4, OF_A76, end=OF_PI))
    assert (row["device_id"], row["model_name"]) == ("arm-cortex-a76-4c", "Raspberry Pi 5 Model B Rev 1.0")


def test_boards_of_different_cores_never_share_a_name() -> None:
    facts = [{"CPU implementer": "0x41", "CPU part": part} for part in ("0xd03", "0xd08", "0xd99", "0xd98")]
    names = {arm_facts(each, Path("/nowhere"))["microarchitecture"] for each in facts}
    assert names == {"cortex-a53", "cortex-a72", "part-0xd99", "part-0xd98"}


def test_a_big_little_chip_is_its_big_cores_as_tvm_computes_on_no_others(board: Board) -> None:
    clocks = {cpu: 1_800_000 if cpu < 4 else 2_400_000 for cpu in range(8)}
    text = cpuinfo(["0xd05"] * 4 + ["0xd0b"] * 4, OF_A76, end="Serial\t\t: 0000000000000000\n")
    caches = [A55] * 4 + [A76] * 4
    row = board(text, compatible="radxa,rock-5b\0rockchip,rk3588\0", clocks=clocks, caches=caches)
    assert row["device_id"] == "arm-rk3588-cortex-a76-4c"
    assert (row["cores"], row["l1d_bytes"], row["l2_bytes"]) == (4, 64 << 10, 512 << 10)
    assert cpu_state.tvm_threads() == {"TVM_NUM_THREADS": "4"}
    assert cpu_state.pick_cpus(4, identity.CPU_ROOT) == (4, 5, 6, 7)
    assert cpu_state.pick_cpus(5, identity.CPU_ROOT) == (3, 4, 5, 6, 7)


def test_with_three_clocks_tvm_leaves_out_the_cpus_with_the_lowest(tmp_path: Path) -> None:
    for cpu, clock in enumerate((1_800_000, 2_256_000, 2_400_000, 1_800_000)):
        put(tmp_path / f"cpu{cpu}/cpufreq/cpuinfo_max_freq", str(clock))
    assert cpu_state.fast_cpus([0, 1, 2, 3], tmp_path) == [1, 2]
    assert cpu_state.fast_cpus([0, 1], tmp_path) == [1]
    assert cpu_state.fast_cpus([0, 3], tmp_path) == [0, 3]
    assert cpu_state.fast_cpus([], tmp_path) == []
    put(tmp_path / "cpu0/cpufreq/cpuinfo_max_freq", "<unknown>")
    assert cpu_state.fast_cpus([0, 1], tmp_path) == [1]


@pytest.mark.parametrize(
    ("text", "compatible", "name"),
    [
        (
            cpuinfo(["0x004"] * 8, OF_A72, implementer="0x4e", name="ARMv8 Processor rev 0 (v8l)"),
            "nvidia,p2972-0000\0nvidia,tegra194\0",
            ("nvidia-tegra194-carmel-8c", "Carmel"),
        ),
        (
            cpuinfo(["0xd42"] * 12, OF_A76, name="ARMv8 Processor rev 1 (v8l)"),
            "nvidia,p3737-0000+p3701-0000\0nvidia,p3701-0000\0nvidia,tegra234\0",
            ("arm-tegra234-cortex-a78ae-12c", "Cortex-A78Ae"),
        ),
        (cpuinfo(["0xd0c"] * 80, OF_A76), "", ("arm-neoverse-n1-80c", "Neoverse-N1")),
        (cpuinfo(["0xac3"] * 2, OF_V1, implementer="0xc0"), "", ("ampere-ampere1-2c", "Ampere1")),
    ],
)
def test_other_boards_and_servers(board: Board, text: str, compatible: str, name: tuple[str, str]) -> None:
    row = board(text, compatible=compatible)
    assert (row["device_id"], row["model_name"]) == name


def test_a_graviton3_has_vectors_of_128_bits_here_as_nothing_uses_sve(board: Board) -> None:
    row = board(cpuinfo(["0xd40"] * 2, OF_V1))
    assert (row["device_id"], row["simd_bits"]) == ("arm-neoverse-v1-2c", 128)
    assert row["isa_features"] == ["asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve"]


def test_an_emulated_cpu_is_not_taken_for_the_one_below(board: Board) -> None:
    below = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\nflags\t\t: sse2 avx2 avx512f\n\n"
    row = board(below, caches=[A76])
    assert (row["device_id"], row["vendor"]) == ("emulator-aarch64-1c", "emulator")
    assert row["model_name"] == "aarch64 in an emulator"
    assert (row["simd_bits"], row["isa_features"], row["l1d_bytes"]) == (128, ["asimd"], None)


def test_newer_emulators_show_a_cpu_without_a_maker() -> None:
    assert is_emulated("aarch64", {"CPU implementer": "0x00", "CPU part": "0x051"})
    assert not is_emulated("aarch64", {"CPU implementer": "0x41", "CPU part": "0xd08"})
    assert not is_emulated("aarch64", {})
    assert not is_emulated("x86_64", {"vendor_id": "GenuineIntel"})
