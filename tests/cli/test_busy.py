from __future__ import annotations

import os

import pytest

from costhub.cli.busy import tell_if_busy


@pytest.mark.parametrize(("over", "told"), [(-0.5, False), (0.5, True)])
def test_a_machine_with_more_to_do_than_cores_is_named(
    over: float, told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("costhub.cli.busy._load_average", lambda: (os.cpu_count() or 1) + over)

    tell_if_busy()

    said = capsys.readouterr()
    assert said.out == ""
    assert ("latencies will be noisy" in said.err) is told
