"""What a GPU says of itself becomes a row of the devices table."""

from __future__ import annotations

import pytest

from costhub.collector.cuda_device import cuda_facts, cuda_row
from costhub.dataset.schema import table_from_rows
from costhub.errors import DeviceError

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
        with pytest.raises(DeviceError, match="no cuda device"):
            cuda_facts()
