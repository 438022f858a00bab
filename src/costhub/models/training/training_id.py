"""Provides training_id: which training it is that has left its progress."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from costhub.dataset.programs import Programs


def training_id(train: Programs, valid: Programs | None, settings: Mapping[str, Any]) -> str:
    """32 hex digits that change with the programs, their order, and the settings.

    Args:
        train: What is learned from.
        valid: What tells when to stop.
        settings: All else that the result depends on, as JSON values.
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for programs in (train, valid):
        digest.update(b"programs" if programs is not None else b"none")
        if programs is not None:
            for array in (programs.rows, programs.counts, programs.group, programs.throughput()):
                digest.update(f"{array.shape}{array.dtype}".encode())
                digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:32]
