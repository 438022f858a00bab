"""Provides identify: identifies this machine, from archspec, the operating system and CUDA."""

from __future__ import annotations

import math
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import archspec.cpu
import psutil

from costhub.collector.device.arm_cpu import arm_facts, is_emulated
from costhub.collector.device.cpu_state import core_count, physical_cpus
from costhub.errors import DeviceError, UnknownNameError
from costhub.names import EMULATOR, close_names
from costhub.terminal_text import counted

CPU_INFO = Path("/proc/cpuinfo")
CPU_ROOT = Path("/sys/devices/system/cpu")

GPU_NODES = ("nvidia[0-9]*", "nvidiactl", "nvhost*", "nvmap", "dxg")
"""Entries of /dev that exist where NVIDIA's driver runs: on servers, on boards (Tegra), under Windows."""

# archspec compares instruction sets; under a hypervisor that masks some it falls back to an older CPU (a Zen 3 without
# protection keys becomes zen2) or to a generic level. The family number of the CPU's own identification cannot be
# masked away (AMD, "Revision Guide" of each family). Zen and Zen 2 share a family, which archspec tells apart.
AMD_FAMILIES = {25: "zen3", 26: "zen5"}
ZEN_OR_ZEN2 = 23
# The same of Intel, which numbers models within a family: archspec calls a Granite Rapids and an Emerald Rapids, both
# with matrix units, an Ice Lake (Linux, arch/x86/include/asm/intel-family.h). Model 85 is left to archspec: Skylake,
# Cascade Lake and Cooper Lake share it and differ in their instructions.
INTEL_FAMILY = 6
INTEL_MODELS = {
    79: "broadwell",
    86: "broadwell",
    106: "icelake",
    108: "icelake",
    143: "sapphirerapids",
    173: "graniterapids",
    174: "graniterapids",
    175: "sierraforest",
    207: "emeraldrapids",
    221: "clearwaterforest",
}
# Hypervisors also hide the model: a Granite Rapids with its matrix units may have the number of a Rocket Lake, and no
# CPU before Sapphire Rapids has such units. Then the oldest generation that has an L3 as large is taken, whose code the
# newer ones run as well (sizes: Intel, product pages of the Xeon Platinum 8490H and 8592+).
LARGEST_L3_MIB = {"sapphirerapids": 112.5, "emeraldrapids": 320, "graniterapids": math.inf}
"""The largest L3 of a socket of each Intel CPU with AMX, the oldest first; the newest takes whatever is larger."""
SIMD_BITS = (("avx512f", 512), ("avx2", 256), ("avx", 256), ("sse2", 128), ("asimd", 128), ("neon", 128))
X86_OF_INTEREST = "sse4_2 avx avx2 fma avx512f avx512vl avx512_vnni avx_vnni avx512_bf16 amx_tile".split()
ARM_OF_INTEREST = "asimd asimdhp asimddp i8mm bf16 sve sve2".split()
# LLVM's names for features that Linux names differently.
LINUX_NAMES = {
    **{"sse4.2": "sse4_2", "avx512vnni": "avx512_vnni", "avxvnni": "avx_vnni", "avx512bf16": "avx512_bf16"},
    **{"amx-tile": "amx_tile", "neon": "asimd", "fullfp16": "asimdhp", "dotprod": "asimddp"},
}

CACHES_OF_LINUX = {("1", "Data"): "l1d_bytes", ("2", "Unified"): "l2_bytes", ("3", "Unified"): "l3_bytes"}
CACHES = tuple(CACHES_OF_LINUX.values())

# What Linux calls the drivers of sensors inside a CPU, and the thermal zones of boards (bigcore0_thermal of an RK3588,
# CPU-therm of a Jetson); others sit on disks, boards and network cards.
CPU_SENSORS = re.compile(r"coretemp|k10temp|zenpower|(cpu\w*|soc|(big|little)core\d*)[-_]therm(al)?", re.IGNORECASE)


def identify(kind: str = "cpu", *, isa: str | None = None, threads: int | None = None) -> dict[str, Any]:
    """Describes a device of this machine as a row of the devices table, without the probed columns.

    Args:
        kind: TVM's name for the kind of device, ``cpu`` or ``cuda``.
        isa: Limits the CPU to an instruction set (a key of `ISA_LEVELS`), which makes it a separate device.
        threads: Limits the CPU to this many cores, which also makes it a separate device.

    Raises:
        DeviceError: This machine has no such device, or lacks that instruction set or that many cores.
        UnknownNameError: No instruction set has that name.

    Example:
        >>> identify()["kind"], identify(isa="sse4.2", threads=1)["simd_bits"]
        ('cpu', 128)
    """
    if kind == "cuda":
        return cuda_row(cuda_facts())
    row = _whole_cpu()
    return row if isa is None and threads is None else limited(row, isa, threads or row["cores"])


def limited(row: dict[str, Any], isa: str | None, threads: int) -> dict[str, Any]:
    """The row of the whole CPU as that of a part of it.

    Args:
        row: The row of the whole CPU.
        isa: As for `identify`; None for all instructions.
        threads: As for `identify`.

    Raises:
        DeviceError: The CPU lacks that instruction set or that many cores.
        UnknownNameError: No instruction set has that name.

    Example:
        >>> limited(identify(), "sse4.2", 1) == identify(isa="sse4.2", threads=1)
        True
    """
    if not 1 <= threads <= row["cores"]:
        raise DeviceError(f"This machine has {counted(row['cores'], 'core')}, but {threads} threads were requested.")
    device_id = row["device_id"].removesuffix(f"-{row['cores']}c") + f"-{threads}c"
    if isa is None:
        return {**row, "device_id": device_id, "cores": threads}
    level = isa_level(isa)
    if level.flag not in row["isa_features"]:
        raise DeviceError(f"This CPU has no {isa}; it has {', '.join(row['isa_features'])}.")
    kept = [flag for flag in row["isa_features"] if flag in level.features]
    limits = {"cores": threads, "simd_bits": level.simd_bits, "isa_features": kept}
    return {**row, "device_id": f"{device_id}-{isa}", **limits}


def _whole_cpu() -> dict[str, Any]:
    # On a big.LITTLE chip the last of the cores used is a big one, and CPU 0 is not.
    cpu = physical_cpus()[-1]
    facts, machine, cores = _cpuinfo(cpu), platform.machine(), core_count()
    if is_emulated(machine, facts):
        # Vectors of 128 bits are part of ARM's base; everything else that the system shows belongs to the host.
        name = f"{machine} in an emulator"
        named = {"vendor": EMULATOR, "microarchitecture": machine, "model_name": name, "soc": ""}
        flags, caches = {"asimd"}, dict.fromkeys(CACHES)
    else:
        flags, caches = _flags(facts), _caches(cpu)
        is_arm = "CPU implementer" in facts
        named = arm_facts(facts) if is_arm else _x86_facts(facts, flags, caches["l3_bytes"])
    soc = named.pop("soc", "")
    return {
        "device_id": _device_id(named["vendor"], named["model_name"], named["microarchitecture"], cores, soc),
        "aliases": [],
        "kind": "cpu",
        **named,
        "cores": cores,
        "simd_bits": next((bits for flag, bits in SIMD_BITS if flag in flags), None),
        **caches,
        "memory_bytes": psutil.virtual_memory().total,
        "driver": kernel_version(platform.system(), platform.release()),
        "isa_features": [flag for flag in (*X86_OF_INTEREST, *ARM_OF_INTEREST) if flag in flags],
        "target": None,
    }


def cpu_flags() -> set[str]:
    """The instruction sets that Linux lists for this machine's CPU, in its names; none on other systems."""
    return _flags(_cpuinfo(physical_cpus()[-1]))


def _flags(facts: dict[str, str]) -> set[str]:
    return set(facts.get("flags", facts.get("Features", "")).split())


def _x86_facts(facts: dict[str, str], flags: set[str], l3_bytes: int | None) -> dict[str, str]:
    return {
        "vendor": _vendor(facts),
        "microarchitecture": _microarchitecture(facts, flags, l3_bytes),
        "model_name": facts.get("model name", platform.processor() or platform.machine()),
    }


def kernel_version(system: str, release: str) -> str:
    """The operating system's kernel version, numbers only; any suffix could identify a single machine.

    Example:
        >>> kernel_version("Linux", "6.18.44-fc-v669"), kernel_version("Linux", "custom")
        ('Linux 6.18.44', 'Linux')
    """
    numbers = re.match(r"\d+(?:\.\d+)*", release)
    return f"{system} {numbers[0]}" if numbers else system


def clock_mhz() -> float | None:
    """The current clock as reported by the operating system, in MHz; None if it reports none."""
    frequency: Any = psutil.cpu_freq()  # None on some machines, which psutil's stubs do not mention
    return float(frequency.current) if frequency and frequency.current else None


def temperature_c() -> float | None:
    """The hottest sensor of the CPU in degrees Celsius; None without a sensor, as in a virtual machine."""
    sensors: dict[str, Any] = getattr(psutil, "sensors_temperatures", dict)()
    inside = (found for name, found in sensors.items() if CPU_SENSORS.fullmatch(name))
    return max((sensor.current for found in inside for sensor in found), default=None)


def _cpuinfo(cpu: int) -> dict[str, str]:
    """Linux's description of one CPU, or the first one listed, and of the board, in a block without a number."""
    if not CPU_INFO.exists():
        return {}
    texts = CPU_INFO.read_text(errors="replace").split("\n\n")
    blocks = [dict(_pair(line) for line in text.splitlines() if ":" in line) for text in texts]
    of_board = next((block for block in blocks if block and "processor" not in block), {})
    return {**of_board, **next((block for block in blocks if block.get("processor") == str(cpu)), blocks[0])}


def _pair(line: str) -> tuple[str, str]:
    key, _, value = line.partition(":")
    return key.strip(), value.strip()


def _microarchitecture(facts: dict[str, str], flags: set[str], l3_bytes: int | None = None) -> str:
    host = archspec.cpu.host()
    vendor = facts.get("vendor_id")
    if vendor not in ("AuthenticAMD", "GenuineIntel"):
        return str(host.name)
    family = int(facts.get("cpu family", 0))
    if vendor == "GenuineIntel":
        known = INTEL_MODELS if family == INTEL_FAMILY else {}
        named = known.get(int(facts.get("model", 0)))
        if "amx_tile" in flags and named not in LARGEST_L3_MIB:
            return _with_matrix_units(str(host.name), l3_bytes)
        return named or str(host.name)
    if family == ZEN_OR_ZEN2 and host.vendor == "generic":
        return "zen2"
    zen4 = family == 25 and "avx512f" in flags
    return "zen4" if zen4 else AMD_FAMILIES.get(family, str(host.name))


def _with_matrix_units(guess: str, l3_bytes: int | None) -> str:
    """An Intel CPU that has them, whose model is unknown: the newer of archspec's guess and of what the L3 tells."""
    described, names = archspec.cpu.TARGETS.get(guess), list(LARGEST_L3_MIB)
    if guess not in names and described is not None and "amx_tile" in described.features:
        return guess
    found = next(name for name, largest in LARGEST_L3_MIB.items() if (l3_bytes or 0) <= largest * (1 << 20))
    return max(found, guess, key=names.index) if guess in names else found


def _vendor(facts: dict[str, str]) -> str:
    names = {"AuthenticAMD": "AMD", "GenuineIntel": "Intel"}
    raw = facts.get("vendor_id", platform.machine())
    return names.get(raw, raw)


def _device_id(vendor: str, model_name: str, uarch: str, cores: int, soc: str = "") -> str:
    """E.g. ``amd-epyc-zen5-2c``: vendor, product line, microarchitecture, cores; without repetitions."""
    words = [vendor, soc, *re.findall(r"EPYC|Ryzen|Xeon|Core|Atom", model_name), uarch, f"{cores}c"]
    slug = "-".join(dict.fromkeys(re.sub(r"[^a-z0-9]+", "-", w.casefold()).strip("-") for w in words if w))
    return slug.strip("-")


def _caches(cpu: int) -> dict[str, int | None]:
    """Cache sizes in bytes as seen by one core: its own L1 data and L2 caches, and the shared L3."""
    sizes: dict[str, int | None] = dict.fromkeys(CACHES)
    for index in sorted(CPU_ROOT.glob(f"cpu{cpu}/cache/index*")):
        files = [index / name for name in ("level", "type", "size")]
        if not all(file.is_file() for file in files):
            continue  # Linux omits values that the firmware does not report, as on some boards.
        level, kind, size = (file.read_text().strip() for file in files)
        key = CACHES_OF_LINUX.get((level, kind))
        if key and size[:1].isdecimal():
            unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1], 1)
            sizes[key] = int(size.rstrip("KM")) * unit
    return sizes


@dataclass(frozen=True)
class IsaLevel:
    """The features that code for an instruction set may use."""

    mcpu: str
    """LLVM's name for a CPU with exactly these features."""
    flag: str
    """The feature that a CPU needs for it, as named by the operating system."""
    features: tuple[str, ...]
    simd_bits: int


_SSE = ("sse4_2",)
_AVX2 = (*_SSE, "avx", "avx2", "fma")
_AVX512 = (*_AVX2, "avx512f", "avx512vl")

# The levels of the x86-64 psABI, by their familiar names: these are what compilers and distributions build for.
ISA_LEVELS = {
    "sse4.2": IsaLevel("x86-64-v2", "sse4_2", _SSE, 128),
    "avx2": IsaLevel("x86-64-v3", "avx2", _AVX2, 256),
    "avx512": IsaLevel("x86-64-v4", "avx512vl", _AVX512, 512),
}


def isa_level(name: str) -> IsaLevel:
    """Returns the level called `name`.

    Raises:
        UnknownNameError: No level has that name.

    Example:
        >>> isa_level("avx2").mcpu
        'x86-64-v3'
    """
    if name not in ISA_LEVELS:
        raise UnknownNameError(
            "instruction set", name, close_names(name, list(ISA_LEVELS)), "`costhub probe --help`", list(ISA_LEVELS)
        )
    return ISA_LEVELS[name]


CUDA_NEEDS = "the driver, and the runtime of CUDA 13 (libcudart.so.13) where the system's loader finds it"
"""What TVM uses an NVIDIA GPU through."""
NO_ROCM = (
    "TVM's wheel is built without ROCm, so it runs nothing on an AMD GPU. `costhub estimate --device amd-mi50` "
    "estimates latencies without measuring. With a TVM that you build with ROCm (USE_ROCM), TVM's own functions "
    'search, with `costhub.tvm.CostModel("amd-mi50", device=costhub.devices("amd-mi50"))` as their cost model.'
)
"""What is said of AMD's GPUs where something has to be measured or compiled for one."""


def cuda_facts() -> dict[str, Any]:
    """What TVM's CUDA runtime reports about the first GPU.

    Raises:
        DeviceError: TVM sees no GPU.
    """
    if not any(list(Path("/dev").glob(pattern)) for pattern in GPU_NODES):
        # TVM, which takes seconds to load, would not find a GPU either.
        raise DeviceError("This machine has no NVIDIA GPU, or its driver is not loaded; --device auto is its CPU.")
    import tvm

    device = tvm.cuda(0)
    if not device.exist:
        raise DeviceError(f"TVM sees no cuda device on this machine; --device auto is its CPU. It needs {CUDA_NEEDS}.")
    return {
        "name": str(device.device_name),
        "compute_version": str(device.compute_version),
        "multiprocessors": int(device.multi_processor_count),
        "memory_bytes": int(device.total_global_memory),
        "l2_bytes": int(device.l2_cache_size_bytes),
        "driver": f"CUDA API {device.api_version}",
    }


def cuda_row(facts: dict[str, Any]) -> dict[str, Any]:
    """Makes the row of the devices table from the result of `cuda_facts`.

    Example:
        >>> facts = {"name": "NVIDIA H200", "compute_version": "9.0", "multiprocessors": 132,
        ...          "memory_bytes": 150_000_000_000, "l2_bytes": 62_914_560, "driver": "CUDA API 13000"}
        >>> cuda_row(facts)["device_id"], cuda_row(facts)["microarchitecture"]
        ('nvidia-h200', 'sm_90')
    """
    words = re.findall(r"[a-z0-9]+", facts["name"].removeprefix("NVIDIA").casefold())
    return {
        "device_id": "-".join(["nvidia", *words]),
        "aliases": [],
        "kind": "cuda",
        "vendor": "NVIDIA",
        "microarchitecture": "sm_" + facts["compute_version"].replace(".", ""),
        "model_name": facts["name"],
        "cores": facts["multiprocessors"],
        "l2_bytes": facts["l2_bytes"],
        "memory_bytes": facts["memory_bytes"],
        "driver": facts["driver"],
        "target": None,
    }
