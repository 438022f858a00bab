from __future__ import annotations

import json
from types import ModuleType
from typing import Any

from costhub.dataset.metaschedule.replay import Replayed
from costhub.dataset.metaschedule.service import (
    SERVICE,
    LoadedWorkload,
    LoadRequest,
    ReplayReply,
    ReplayRequest,
)
from costhub.worker import Worker


def test_the_service_reads_workloads_and_replays_traces(tiny_matmul: Any, old_format: ModuleType) -> None:
    line = old_format.workload_line(tiny_matmul.module_json)
    good, bad = tiny_matmul.traces[1], tiny_matmul.bad_trace
    with Worker(SERVICE) as worker:
        assert worker.call(LoadRequest(), timeout_s=180) == ""
        loaded = worker.call(LoadRequest(line), timeout_s=180)
        torn = worker.call(LoadRequest(line[:-5]), timeout_s=180)
        request = ReplayRequest(tiny_matmul.module_json, json.dumps("llvm -num-cores 2"), (good, bad))
        reply = worker.call(request, timeout_s=180)
        no_target = worker.call(ReplayRequest(tiny_matmul.module_json, "null", (good,)), timeout_s=180)

    assert isinstance(loaded, LoadedWorkload)
    assert loaded.row["workload_id"] == tiny_matmul.workload_id
    assert (loaded.row["name"], loaded.row["operator"]) == ("", "matmul")
    assert "cut off" in torn
    assert isinstance(reply, ReplayReply)
    assert (reply.target, reply.device_kind) == ('{"kind":"llvm","num-cores":2}', "cpu")
    assert reply.programs[0] == Replayed(good, False)
    assert "does not fit the workload" in reply.programs[1]
    assert "neither an object nor a string" in no_target
