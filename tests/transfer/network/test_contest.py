"""Forms of a network side by side; a form that crashes costs itself only."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from costhub.errors import MeasureError
from costhub.transfer.network.contest import Contest, Latency, in_turns


def test_a_latency_is_the_median_with_quartiles() -> None:
    assert Latency.of([5e-6]) == Latency(5.0, 5.0, 5.0, 1)
    many = Latency.of([float(i) * 1e-6 for i in range(1, 102)])
    assert (many.low_us, many.median_us, many.high_us) == pytest.approx((26.0, 51.0, 76.0))


def test_forms_take_turns_and_one_that_fails_is_asked_no_more() -> None:
    asked: list[str] = []

    def turn(name: str) -> list[float] | None:
        asked.append(name)
        return None if name == "dead" and len(asked) > 3 else [1e-6]

    found = in_turns(["tuned", "dead", "idle"], lambda n: [] if n == "idle" else turn(n), rounds=3)

    assert asked == ["tuned", "dead", "tuned", "dead", "tuned"]
    assert {name: latency.calls for name, latency in found.items()} == {"tuned": 3}


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


def minor_faults(pid: int | None) -> int:
    """Pages that a process was given so far without any disk."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


@pytest.mark.slow
def test_torch_does_not_wait_for_new_pages_at_each_call(tmp_path: Path) -> None:
    import torch

    layers = [torch.nn.Conv2d(3, 64, 1), torch.nn.ReLU6(), torch.nn.Conv2d(64, 256, 1), torch.nn.ReLU6()]
    network, image = torch.nn.Sequential(*layers).eval(), torch.ones(1, 3, 128, 128)
    torch.export.save(torch.export.export(network, (image,)), tmp_path / "wide.pt2")
    with Contest((image.numpy(),), threads=1) as contest:
        contest.load_torch("torch", str(tmp_path / "wide.pt2"))
        pid = contest._workers["torch"].pid
        before = minor_faults(pid)
        calls = contest.take(rounds=1, seconds=0.2)["torch"].calls
        found = (minor_faults(pid) - before) / calls

    pages_of_the_output = 256 * 128 * 128 * 4 / 4096
    assert found < pages_of_the_output / 4
