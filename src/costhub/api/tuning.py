"""Provides Tuning: what `costhub.tune` found, as numbers, as a table and as something to call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.cards.reports.tune_summary import summary_text
from costhub.errors import NetworkError
from costhub.terminal_text import Printed
from costhub.versions import load_pandas

TORCH, TUNED = "torch", "tuned"
"""Forms of a network in `FinishedNetwork.latencies`."""

if TYPE_CHECKING:
    from costhub.search.result import TuneResult
    from costhub.search.whole_network.finish import FinishedNetwork
    from costhub.search.whole_network.tuned_network import TunedNetwork


@dataclass(frozen=True, repr=False)
class Tuning(Printed):
    """The outcome of a search; `print` shows it as a table.

    Example:
        >>> tuning = costhub.tune("mobilenet_v2", "tuned", trials=8)  # doctest: +SKIP
        >>> tuning.before_us > tuning.latency_us  # doctest: +SKIP
        True
    """

    out: Path
    """The folder of the results."""
    workloads: tuple[TuneResult, ...]
    """What was found for each workload or kernel."""
    networks: tuple[FinishedNetwork, ...]
    """The whole networks, compiled, checked and timed; empty if none was tuned, or it cannot be compiled."""
    summary: Mapping[str, Any]
    """The content of `report.json`."""

    @property
    def before_us(self) -> float | None:
        """Latency of the network in PyTorch, in microseconds; None for single workloads and relax networks."""
        return self._networks_us(TORCH)

    @property
    def latency_us(self) -> float | None:
        """Latency of the network, or of the workload, in microseconds; for several, the sum.

        Kernels of a network that was not compiled count as often as it calls them. None if any is unknown.
        """
        if self.networks:
            return self._networks_us(TUNED)
        known = [row["weight"] * row["best_us"] for row in self._rows if row["best_us"] is not None]
        return sum(known) if len(known) == len(self._rows) else None

    @property
    def speedup(self) -> float | None:
        """`before_us` over `latency_us`."""
        before, after = self.before_us, self.latency_us
        return before / after if before and after else None

    @property
    def report(self) -> Path:
        """The page to open in a browser; `report.md` and `report.json` beside it have the same content."""
        return self.out / "report.html"

    @property
    def database(self) -> Path:
        """The folder of the TVM database, for ``ms.database.JSONDatabase(work_dir=...)``."""
        return self.out

    @property
    def libraries(self) -> dict[str, Path]:
        """Network -> its compiled library; networks whose outputs differ from torch's are left out."""
        return {network.network: Path(network.library) for network in self.networks if network.library}

    @property
    def library(self) -> Path | None:
        """The compiled library of the network; None if no or several networks were compiled."""
        return next(iter(self.libraries.values())) if len(self.libraries) == 1 else None

    def load(self, network: str | None = None) -> TunedNetwork:
        """The tuned network as a function of torch tensors.

        Args:
            network: Its name; not needed if only one was tuned.

        Raises:
            NetworkError: No network was compiled, or several were and none is named.
        """
        from costhub.search.whole_network.tuned_network import TunedNetwork

        libraries = self.libraries
        if network is None and len(libraries) == 1:
            (network,) = libraries
        if network not in libraries:
            have = f"the compiled networks are {', '.join(libraries)}" if libraries else "no network was compiled"
            raise NetworkError(
                f"{network or 'Which network'}: {have}. "
                f"A single workload is compiled from the database; {self.out / 'report.md'} shows how."
            )
        threads = next(each.threads for each in self.networks if each.network == network)
        return TunedNetwork(libraries[network], threads=threads)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per workload: latencies in microseconds, trials, failures, seconds."""
        names = ("workload", "weight", "best_us", "gflops", "untuned_us", "speedup", "trials", "failures", "seconds")
        return load_pandas().DataFrame([{name: row[name] for name in names} for row in self._rows])

    def __str__(self) -> str:
        return summary_text(self.summary, networks=len(self.networks))

    @property
    def _rows(self) -> Sequence[Mapping[str, Any]]:
        """This search's rows of the report; those of earlier searches in its folder come after them."""
        rows: Sequence[Mapping[str, Any]] = self.summary["workloads"][: len(self.workloads)]
        return rows

    def _networks_us(self, form: str) -> float | None:
        timed = [network.latencies.get(form) for network in self.networks]
        known = [latency.median_us for latency in timed if latency is not None]
        return sum(known) if known and len(known) == len(timed) else None
