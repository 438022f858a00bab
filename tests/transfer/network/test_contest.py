"""Forms of a network side by side; a form that crashes costs itself only."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from costhub.errors import MeasureError
from costhub.transfer.network.contest import Contest, Latency


def test_a_latency_is_the_median_with_quartiles() -> None:
    assert Latency.of([5e-6]) == Latency(5.0, 5.0, 5.0, 1)
    many = Latency.of([float(i) * 1e-6 for i in range(1, 102)])
    assert (many.low_us, many.median_us, many.high_us) == pytest.approx((26.0, 51.0, 76.0))


@pytest.mark.slow
def test_a_form_that_dies_is_left_out_and_one_that_cannot_be_loaded_is_a_sentence(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    value = np.ones((1, 3, 32, 32), np.float32)
    with Contest((value,), threads=1) as contest:
        with pytest.raises(MeasureError, match="does not run as tuned"):
            contest.load_library("tuned", str(tmp_path / "missing.so"))
        (output,) = contest.load_torch("torch", str(files[0]))
        contest.load_torch("dead", str(files[0]))
        pid = contest._workers["dead"].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        found = contest.take(rounds=2, seconds=0.0)

    assert output.shape == (1, 10)
    assert list(found) == ["torch"]
    assert found["torch"].calls == 2
