"""Provides cache_root: where costhub keeps what can be fetched or computed again."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "COSTHUB_CACHE"


def cache_root() -> Path:
    """The folder of pulled models and of features: $COSTHUB_CACHE, or ~/.cache/costhub."""
    return Path(os.environ.get(CACHE_VARIABLE) or "~/.cache/costhub").expanduser()
