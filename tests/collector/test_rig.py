"""A rig holds all that measures on this machine, and leaves nothing behind."""

from __future__ import annotations

import psutil

from costhub.collector.evaluator import Evaluator
from costhub.collector.local import find_local, local_names
from costhub.collector.rig import Rights, local_rig


def test_devices_share_one_builder_for_the_one_with_the_most_threads() -> None:
    devices = find_local([name for name, (isa, _) in local_names().items() if isa is None])
    before = set(psutil.Process().children())
    with local_rig(devices, evaluator=Evaluator(), rights=Rights("me", "MIT")) as rig:
        rig.builder.launch()
        rig.bench.launch()
        children = set(psutil.Process().children()) - before
        cores = [s.target["num-cores"] for s in rig.sessions]
        assert {s.device_id for s in rig.sessions} == {d.device_id for d in devices}
        assert len(set(cores)) == 1
        assert cores[0] == max(d.threads or 0 for d in devices)
        assert {(s.contributor, s.licence) for s in rig.sessions} == {("me", "MIT")}
        assert all(s.cpu_affinity for s in rig.sessions)
        assert [row["device_id"] for row in rig.rows] == [s.device_id for s in rig.sessions]
        assert len(children) >= len(devices) + 1
    assert not any(child.is_running() for child in children)
