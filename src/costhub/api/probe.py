"""Provides probe: identifies a device of this machine and measures what it can do."""

from __future__ import annotations

import json
import logging
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.api.devices import DeviceFacts, this_machine
from costhub.api.measuring import warn_if_busy
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.errors import CosthubError, MeasureError
from costhub.hub.catalogue.figures import FIGURES, low_figures
from costhub.progress import bar

if TYPE_CHECKING:
    from costhub.collector.device.local import LocalDevice

log = logging.getLogger("costhub")

_ORDER = (
    ("peak_gflops_float64", "float64 arithmetic", "peak_gflops", "float32", 20.0),
    ("l1_gbs", "reading L1", "dram_gbs", "reading memory", 3.0),
    ("l2_gbs", "reading L2", "dram_gbs", "reading memory", 3.0),
    ("l3_gbs", "reading L3", "dram_gbs", "reading memory", 3.0),
)
"""A figure, another one, and how many times the second may exceed the first; beyond that, the probe was disturbed."""
_COLUMNS = (TableColumn("what", "what"), number("value", "best", ",.4g"), TableColumn("unit", "unit"))


def probe(
    device: str | LocalDevice = "auto",
    *,
    budget_s: float = 25.0,
    out: str | Path | None = None,
    replace: bool = False,
    progress: bool = True,
) -> DeviceFacts:
    """Identifies a device of this machine and measures its limits; nothing else should run meanwhile.

    The figures are stored on this machine, where searches and adaptations for the device find them. Other programs
    only make figures worse, so each figure is the best of all probes of the device on this machine.

    Args:
        device: `auto` for the whole CPU, `cuda`, or a name such as ``amd-epyc-zen5-1c-avx2``, which limits the CPU
            to one core and an instruction set.
        budget_s: Roughly how many seconds it takes.
        out: A data folder to write the figures to as well, created if it is missing.
        replace: Forget the figures of earlier probes.
        progress: Show a progress bar on a terminal.

    Returns:
        The row of the devices table; `print` shows the measured figures.

    Raises:
        DeviceError: This machine has no such device.
        MeasureError: The device cannot run the first kernel, or other programs made the figures impossible.

    Example:
        >>> probe()["peak_gflops"]  # doctest: +SKIP
        236.8
    """
    from costhub.api.measuring import local_devices
    from costhub.collector.device.local import find_local
    from costhub.collector.probe.probe import probe as measure

    (local,) = find_local(local_devices(device)) if isinstance(device, str) else [device]
    is_busy = warn_if_busy()
    with bar(None, desc=local.device_id, unit="step", enabled=progress) as shown:

        def show(what: str, done: int, total: int) -> None:
            shown.total = total
            shown.set_postfix_str(what, refresh=False)
            shown.update(1)

        kind, threads = str(local.row["kind"]), local.threads
        found = measure(
            local.target, device=local.row, device_kind=kind, threads=threads, budget_s=budget_s, on_step=show
        )
    row = {**local.row, "target": json.dumps(local.target), **found}
    _check_plausible(row)
    row = row if replace else _best_of_all(row)
    _keep(row)
    _report_differences(row, is_busy=is_busy)
    if out is not None:
        row = _put(Path(out), row)
    return DeviceFacts(row, _page(row))


def _check_plausible(row: Mapping[str, Any]) -> None:
    """Refuses figures that no CPU can have: on a busy machine, some come out wrong by any factor.

    Raises:
        MeasureError: A figure is far below another that it cannot be below.
    """
    if row["kind"] != "cpu":
        return
    for low, low_what, high, high_what, most in _ORDER:
        if row.get(low) and row.get(high) and row[high] / row[low] > most:
            raise MeasureError(
                f"{low_what} came out at {row[low]:.3g}, {row[high] / row[low]:,.0f} times below {high_what}, which is "
                "impossible on a CPU: other programs were using the cores. The figures were not kept. Run "
                "`costhub probe` again on an idle machine."
            )


def _report_differences(row: Mapping[str, Any], *, is_busy: bool) -> None:
    """Warns of figures that are far below those of the device index, or that other programs may have lowered."""
    for sentence in low_figures(row):
        log.warning("%s Probe again with nothing else running.", sentence)
    if is_busy:
        log.warning("Other programs ran, so these figures may be too low: probe again when the machine is quiet.")


def _best_of_all(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the figures of earlier probes where these are better: other programs only make figures worse."""
    from costhub.hub.catalogue.devices import probed_figures

    try:
        stored = probed_figures(row["device_id"])
    except (OSError, CosthubError):  # `_keep` says it
        return row
    better = {}
    for key, what, unit in FIGURES:
        before, now = stored.get(key), row.get(key)
        if before and (not now or (before < now if unit == "us" else before > now)):
            better[key] = f"{what} {before:,.4g} {unit}"
            row = {**row, key: before}
    if better:
        log.info(
            "Better in an earlier probe of this machine, and kept from there, since other programs only make figures "
            "worse: %s. `costhub probe --replace` takes the new ones.",
            ", ".join(better.values()),
        )
    return row


def _keep(row: Mapping[str, Any]) -> None:
    """Stores the figures where searches and adaptations on this machine find them."""
    from costhub.hub.catalogue.devices import find_device, keep_probed_figures

    users = "`costhub tune` and `costhub adapt` on this machine"
    if row["device_id"] != this_machine():  # A part of it, or its GPU.
        users = f"{users} with `--device {row['device_id']}`"
    try:
        keep_probed_figures(row)
    except (OSError, CosthubError) as error:  # The figures are still printed.
        log.warning("%s will not use these figures: they cannot be stored (%s).", users, error)
        return
    if find_device(row["device_id"]):  # models learned from the index's figures
        log.info("%s keep using the figures of the device index; these are stored as well.", users)
    else:
        log.info("%s now use these figures.", users)


def _put(out: Path, row: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the row to a data folder: replaces the measured figures and keeps the other facts."""
    from costhub.dataset.folder import DataFolder
    from costhub.dataset.schema import PROBED

    folder = DataFolder.create(out)
    rows: list[dict[str, Any]] = folder.devices().to_pylist()
    before = next((old for old in rows if old["device_id"] == row["device_id"]), {})
    kept = {name: value for name, value in before.items() if name not in PROBED and value is not None}
    folder.put_device({**row, **kept})
    log.info("The figures are in the row of %s in %s.", row["device_id"], out)
    return {**row, **kept}


def _page(row: Mapping[str, Any]) -> str:
    """The figures as text."""
    figures = [{"what": what, "value": row[key], "unit": unit} for key, what, unit in FIGURES]
    scaling = row["thread_scaling"]
    if scaling and len(scaling) > 1:
        figures.append({"what": f"{len(scaling)} threads", "value": scaling[-1], "unit": "times one thread"})
    name = f"{row['device_id']}: {row['model_name']}, {row['microarchitecture']}, cores: {row['cores']}"
    return "\n".join([name, plain_table(figures, _COLUMNS), textwrap.fill(row["probe_method"], 100)])
