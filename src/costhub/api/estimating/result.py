"""Provides Estimate: how long kernels and networks take on a device, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.errors import ArgumentError
from costhub.terminal_text import Printed
from costhub.versions import __version__, load_pandas

KIND, VERSION = "estimate", 1
"""Of the JSON; the version is raised whenever the code can no longer read what it wrote before."""
MEASURED, PREDICTED = "measured", "predicted"


@dataclass(frozen=True)
class KernelEstimate:
    """How long one call of a kernel takes."""

    workload: str
    """Its name."""
    workload_id: str
    operator: str
    calls: float
    """How often its network calls it; 1 for a single kernel."""
    latency_us: float
    low_us: float
    high_us: float
    source: str
    """`MEASURED`, the best of the hub's programs for it on this device, or `PREDICTED`."""
    programs: int | None
    """How many programs were measured; None for a predicted kernel."""


@dataclass(frozen=True)
class NetworkEstimate:
    """How long one call of a network takes: its kernels times their calls, plus the rest."""

    network: str
    kernels: tuple[KernelEstimate, ...]
    kernels_us: float
    """The sum over the kernels."""
    rest_us: float | None
    """What small kernels and the runtime add to them; None if that is not known (GPUs)."""
    low_us: float
    high_us: float

    @property
    def latency_us(self) -> float:
        """The kernels plus the rest."""
        return self.kernels_us + (self.rest_us or 0.0)

    @property
    def measured_share(self) -> float:
        """The part of the kernels' time that comes from measurements."""
        measured = sum(each.calls * each.latency_us for each in self.kernels if each.source == MEASURED)
        return measured / self.kernels_us


@dataclass(frozen=True, repr=False)
class Estimate(Printed):
    """How long kernels and networks take on a device; `print` shows it as a table.

    Example:
        >>> kernel = KernelEstimate("softmax", "5f", "softmax", 1.0, 10.0, 8.0, 12.0, MEASURED, 32)
        >>> print(Estimate("cpu-2c", 64, 0.9, (kernel,), ()))
        cpu-2c, search of 64 programs, 90 % intervals
        kernel   latency (us)  from  to  source
        softmax          10.0   8.0  12.0  measured, best of 32

    With a single kernel or network, the figures are at hand:

        >>> found = Estimate("cpu-2c", 64, 0.9, (kernel,), ())
        >>> float(found), found.low_us, found.high_us
        (10.0, 8.0, 12.0)
    """

    device_id: str
    trials: int
    """How many programs the search measures, as assumed for predicted kernels."""
    interval: float
    """The share of figures that should lie between `low_us` and `high_us`."""
    kernels: tuple[KernelEstimate, ...]
    """The single workloads asked for."""
    networks: tuple[NetworkEstimate, ...]
    is_new_device: bool = False
    """Whether the predictor has not learned from any measurement of the device."""
    figures_of: str | None = None
    """The part of the same chip whose peak and bandwidth stand for those of the device; None if it has been probed."""

    @property
    def latency_us(self) -> float:
        """That of the kernel or network asked for.

        Raises:
            ArgumentError: There are several, or none.
        """
        return self._only().latency_us

    @property
    def low_us(self) -> float:
        """The lower end of its interval; raises as `latency_us` does."""
        return self._only().low_us

    @property
    def high_us(self) -> float:
        """The upper end of its interval; raises as `latency_us` does."""
        return self._only().high_us

    def __float__(self) -> float:
        """`latency_us`."""
        return self.latency_us

    def _only(self) -> KernelEstimate | NetworkEstimate:
        found: list[KernelEstimate | NetworkEstimate] = [*self.kernels, *self.networks]
        if len(found) != 1:
            raise ArgumentError(
                f"{len(found)} kernels and networks were estimated, so there is no single latency; "
                "each has its own in `kernels` and `networks`."
            )
        return found[0]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each kernel: the fields of `KernelEstimate` and `network`, which is empty for single workloads."""
        found = [{"network": "", **asdict(kernel)} for kernel in self.kernels]
        return found + [
            {"network": each.network, **asdict(kernel)} for each in self.networks for kernel in each.kernels
        ]

    @property
    def summary(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "costhub": KIND,
            "version": VERSION,
            "costhub_version": __version__,
            "device": self.device_id,
            "is_new_device": self.is_new_device,
            "figures_of": self.figures_of,
            "trials": self.trials,
            "interval": self.interval,
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "networks": [
                {**asdict(each), "latency_us": each.latency_us, "measured_share": each.measured_share}
                for each in self.networks
            ],
        }

    def to_json(self) -> str:
        """The summary as JSON."""
        return json.dumps(self.summary, indent=1) + "\n"

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` of `rows`."""
        return load_pandas().DataFrame(self.rows)

    def __str__(self) -> str:
        share = f"{self.interval * 100:g} % intervals"
        lines = [f"{self.device_id}, search of {self.trials} programs, {share}"]
        has_predicted = any(kernel.source == PREDICTED for kernel in self.kernels)
        if self.is_new_device and (has_predicted or any(each.measured_share < 1 for each in self.networks)):
            rest_on = "its probe"
            if self.figures_of:
                rest_on = f"those of {self.figures_of} for each core, since it has not been probed (`costhub probe`)"
            lines.append(
                f"The predictor has not learned from {self.device_id}: predicted figures rest on {rest_on}, and their "
                "intervals are wider."
            )
        if self.kernels:
            lines.append(plain_table([_line(each, 1.0) for each in self.kernels], _columns("us")))
        for each in self.networks:
            lines += ["", _network_text(each)]
        return "\n".join(lines)


def _columns(unit: str, *, calls: bool = False) -> Sequence[TableColumn]:
    return (
        TableColumn("name", "kernel"),
        *([number("calls", "calls", "g")] if calls else []),
        number("latency", f"latency ({unit})", ".1f" if unit == "us" else ".3f"),
        number("low", "from", ".1f" if unit == "us" else ".3f"),
        number("high", "to", ".1f" if unit == "us" else ".3f"),
        TableColumn("source", "source"),
    )


def _line(kernel: KernelEstimate, per: float) -> dict[str, Any]:
    source = f"{MEASURED}, best of {kernel.programs}" if kernel.source == MEASURED else PREDICTED
    times = {"latency": kernel.latency_us, "low": kernel.low_us, "high": kernel.high_us}
    return {
        "name": kernel.workload,
        "calls": kernel.calls,
        "source": source,
        **{name: us * kernel.calls / per for name, us in times.items()},
    }


def _network_text(network: NetworkEstimate) -> str:
    lines: list[Mapping[str, Any]] = [_line(kernel, 1e3) for kernel in network.kernels]
    if network.rest_us is not None:
        lines.append(
            {"name": "small kernels, runtime", "latency": network.rest_us / 1e3, "source": "as in other networks"}
        )
    total = {"latency": network.latency_us / 1e3, "low": network.low_us / 1e3, "high": network.high_us / 1e3}
    note = f"{network.measured_share * 100:.0f} % of the kernels' time measured"
    return plain_table([*lines, {"name": network.network, **total, "source": note}], _columns("ms", calls=True))
