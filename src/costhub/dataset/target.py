"""Provides parse_target: a TVM target out of its JSON."""

from __future__ import annotations

import json
from typing import Any

from costhub.errors import WorkloadError


def parse_target(target: str) -> Any:
    """Builds the ``tvm.target.Target`` of a JSON text.

    Raises:
        WorkloadError: TVM does not accept it.
    """
    from tvm.target import Target

    try:
        return Target(json.loads(target))
    except Exception as error:
        raise WorkloadError(
            f"The target {target:.200} is not one of TVM; "
            f'it must be JSON such as {{"kind": "llvm", "num-cores": 2}}.'
        ) from error
