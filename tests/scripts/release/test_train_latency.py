"""What the latency predictor learns from, and whom its card credits with it.

It learns from kernels in the layouts in which `costhub estimate` takes networks apart.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from costhub.api.estimating.estimate import PREDICTOR
from costhub.dataset.folder import DataFolder
from costhub.hub.catalogue.hubs import EMBEDDED
from scripts.release.train_latency import LEAST_ROWS, card, embedded_table, is_in_torch_layouts, session_slowness
from tests.models.latency.made_layouts import DEVICE, EACH, NETWORK, kernels, made_layouts

CREDIT = (
    "costhub (CC-BY-4.0), microsoft/nnfusion (MIT; replayed from logs of Ansor), measurer not recorded (Apache-2.0)."
)


class Table:
    inputs = np.zeros((3, 61))

    def __len__(self) -> int:
        return 3


def test_the_card_names_those_who_measured_once_with_their_licences() -> None:
    datasets = [f"costhub/{name}@0" for name in ("amd-epyc-zen4", "nvidia-k80", "nvidia-h200", "amd-mi50")]
    predictor: Any = SimpleNamespace(devices=("one",), workloads=("w",), facts={"datasets": datasets})

    text = card(predictor, cast(Any, Table()))

    assert f"- Who measured the data, and their licences: {CREDIT}\n" in text
    assert text.endswith("under CC-BY-4.0 (https://creativecommons.org/licenses/by/4.0/), like the data of the CPUs.\n")


def test_the_shipped_card_says_so_too() -> None:
    text = (EMBEDDED / PREDICTOR / "README.md").read_text()

    assert "- Who measured the data, and their licences: costhub (CC-BY-4.0), " in text
    assert all(f"{who} (MIT" in text for who in ("lac-dcc/bennu", "microsoft/nnfusion"))
    assert "measurer not recorded (Apache-2.0)" in text
    assert "The predictor itself is under CC-BY-4.0" in text


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_layouts(tmp_path_factory.mktemp("datasets"))


def test_only_programs_in_torchs_layouts_are_learned_from(datasets: Path) -> None:
    table = embedded_table(sorted(datasets.iterdir()))

    (pool,) = table.pools  # neither the kernel of blocked layouts alone, nor the two programs of `plain`
    assert (pool.workload_id, pool.device_id) == (kernels()[0], DEVICE)
    np.testing.assert_allclose(pool.latency_s, np.arange(1, 2 * EACH + 1) / 1e3)
    assert (table.operators, table.networks, table.chips) == (("softmax",), (NETWORK,), (DEVICE,))


def test_a_dataset_with_a_blocked_program_is_known_by_it(datasets: Path) -> None:
    found = {place.name: is_in_torch_layouts(DataFolder.open(place)) for place in datasets.iterdir()}

    assert found == {"plain": True, "with-blocked": False}


def test_a_session_is_as_slow_as_its_reference_kernel() -> None:
    counts = {"fast": LEAST_ROWS, "slow": LEAST_ROWS, "short": LEAST_ROWS - 1}
    seconds = {"fast": 0.002, "slow": 0.003, "short": 0.001}
    rows = [(name, seconds[name]) for name, count in counts.items() for _ in range(count)]
    sessions, references = map(list, zip(*rows, strict=True))
    table = pa.table({"session": sessions, "reference_s": references})
    folder = SimpleNamespace(iter_measurements=lambda *_: iter([table.slice(0, 150), table.slice(150)]))

    assert session_slowness(cast(Any, folder), DEVICE) == {"fast": 1.0, "slow": pytest.approx(1.5)}


def test_a_device_without_a_reference_kernel_has_no_slow_session() -> None:
    folder = DataFolder.open(EMBEDDED / "datasets" / "costhub" / "nvidia-v100")
    assert session_slowness(folder, "nvidia-v100") == {}
