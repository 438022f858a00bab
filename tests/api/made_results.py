"""What a search found, for the tests of its report and of what Python gets: two workloads and a network."""

from __future__ import annotations

from costhub.search.result import TuneResult
from costhub.search.whole_network.finish import FinishedNetwork
from costhub.search.whole_network.network_timer import Latency

RESULTS = [
    TuneResult("conv", 2, 0, 1.0, 9.0, 5.0, [(1, 0.1, 7.0), (2, 0.2, 5.0)], stages={"running": 1.0}),
    TuneResult("<b>relu</b>".replace("/", ""), 1, 0, 1.0, 3.0, 2.0, [(1, 0.1, 2.0)], stages={"other": 1.0}),
]
NETWORK = FinishedNetwork(
    "net",
    2,
    library="out/net.so",
    inputs=(("float32", (1, 3)),),
    kernels=4,
    kernels_tuned=2,
    latencies={"untuned": Latency(90.0, 80.0, 99.0, 7), "tuned": Latency(30.0, 29.0, 31.0, 9)},
    notes=("torch.compile was not timed.",),
)
