"""Provides the service that computes features in a child process, where a crash of TVM costs one program."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from costhub.dataset.features.spec import Features
from costhub.dataset.features.specs import find_spec
from costhub.dataset.workload import module_from_json
from costhub.errors import WorkloadError
from costhub.isolation.limits import limit_memory

SERVICE = "costhub.dataset.features.feature_service:handle"


@dataclass(frozen=True)
class FeatureRequest:
    """Programs of one workload; with no traces it only makes the service load what the workload needs."""

    module_json: str
    target: str
    traces: tuple[str, ...] = ()
    spec: str = "per_store@1"


def handle(request: FeatureRequest) -> Features:
    """Computes one (rows, width) array per trace; None where that is not possible."""
    limit_memory()
    try:
        return find_spec(request.spec).extract(_module(request.module_json), request.traces, request.target)
    except WorkloadError:
        return [None] * len(request.traces)


@functools.lru_cache(maxsize=4)
def _module(text: str) -> Any:
    return module_from_json(text)
