"""Provides arm_facts and is_emulated: identifies an ARM CPU, which Linux describes by numbers instead of names.

On x86 ``/proc/cpuinfo`` names the CPU. On ARM it has the numbers of the register MIDR_EL1, for each CPU its own: those
of a big.LITTLE chip differ. archspec names an ARM CPU after its features, which are the same in many: it calls a
Cortex-A76 a Neoverse N1, and a Cortex-A53 and a Cortex-A72 alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

DEVICE_TREE = Path("/proc/device-tree")
"""How the firmware describes a board; servers have ACPI instead, and containers often hide it."""

# The numbers are those of arch/arm64/include/asm/cputype.h in Linux, the names those of the vendors, as in LLVM.
VENDORS = {
    **{"0x41": "ARM", "0x42": "Broadcom", "0x43": "Cavium", "0x46": "Fujitsu", "0x48": "HiSilicon", "0x4e": "NVIDIA"},
    **{"0x50": "APM", "0x51": "Qualcomm", "0x61": "Apple", "0x6d": "Microsoft", "0xc0": "Ampere"},
}
PARTS = {
    "0x41": {
        **{"0xd02": "cortex-a34", "0xd03": "cortex-a53", "0xd04": "cortex-a35", "0xd05": "cortex-a55"},
        **{"0xd07": "cortex-a57", "0xd08": "cortex-a72", "0xd09": "cortex-a73", "0xd0a": "cortex-a75"},
        **{"0xd0b": "cortex-a76", "0xd0c": "neoverse-n1", "0xd0d": "cortex-a77", "0xd0e": "cortex-a76ae"},
        **{"0xd40": "neoverse-v1", "0xd41": "cortex-a78", "0xd42": "cortex-a78ae", "0xd44": "cortex-x1"},
        **{"0xd46": "cortex-a510", "0xd47": "cortex-a710", "0xd48": "cortex-x2", "0xd49": "neoverse-n2"},
        **{"0xd4b": "cortex-a78c", "0xd4c": "cortex-x1c", "0xd4d": "cortex-a715", "0xd4e": "cortex-x3"},
        **{"0xd4f": "neoverse-v2", "0xd80": "cortex-a520", "0xd81": "cortex-a720", "0xd82": "cortex-x4"},
        **{"0xd84": "neoverse-v3", "0xd85": "cortex-x925", "0xd87": "cortex-a725", "0xd8e": "neoverse-n3"},
    },
    "0x43": {"0x0a1": "thunderx", "0x0af": "thunderx2"},
    "0x46": {"0x001": "a64fx"},
    "0x48": {"0xd01": "tsv110"},
    "0x4e": {"0x003": "denver2", "0x004": "carmel"},
    "0xc0": {"0xac3": "ampere1", "0xac4": "ampere1a"},
}


def arm_facts(facts: Mapping[str, str], device_tree: Path = DEVICE_TREE) -> dict[str, str]:
    """Vendor, microarchitecture, model name and, if the firmware names it, system on a chip.

    A CPU that is not in our list is named after its number, so that two different ones never share a name.

    Args:
        facts: The lines of ``/proc/cpuinfo`` for one CPU.
        device_tree: Where Linux shows the firmware's device tree.

    Example:
        >>> facts = {"CPU implementer": "0x41", "CPU part": "0xd08"}
        >>> arm_facts(facts, Path("/nowhere"))["microarchitecture"]
        'cortex-a72'
    """
    implementer, part = facts["CPU implementer"], facts.get("CPU part", "unknown")
    name = PARTS.get(implementer, {}).get(part, f"part-{part}")
    # The last name in "raspberrypi,5-model-b", "brcm,bcm2712" is the most general one.
    compatible = _texts(device_tree / "compatible")
    # Some kernels put "ARMv8 Processor rev 0 (v8l)" in place of the CPU's name.
    own = facts.get("model name", "ARM")
    model = [*_texts(device_tree / "model"), facts.get("Model", ""), "" if own.startswith("ARM") else own]
    return {
        "vendor": VENDORS.get(implementer, implementer),
        "microarchitecture": name,
        "model_name": next(filter(None, model), name.title()),
        "soc": compatible[-1].rpartition(",")[2] if compatible else "",
    }


def is_emulated(machine: str, facts: Mapping[str, str]) -> bool:
    """Whether an ARM CPU is emulated on another one, such as by QEMU in a container for another platform.

    Older emulators show the ``/proc/cpuinfo`` of the host machine, newer ones a CPU without a vendor.

    Args:
        machine: The instruction set, as ``platform.machine()`` returns it.
        facts: The lines of ``/proc/cpuinfo`` for one CPU.

    Example:
        >>> is_emulated("aarch64", {"vendor_id": "AuthenticAMD"}), is_emulated("x86_64", {"vendor_id": "AuthenticAMD"})
        (True, False)
    """
    if machine not in ("aarch64", "arm64"):
        return False
    return "vendor_id" in facts or int(facts.get("CPU implementer", "1"), 16) == 0


def _texts(file: Path) -> Sequence[str]:
    """The strings of a device tree property, each of which ends with a zero byte."""
    try:
        return [text for text in file.read_bytes().decode(errors="replace").split("\0") if text]
    except OSError:
        return []
