"""A dataset on a hub, and a pull request with measurements for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.hub.contribute import contribute

TO = "hf-hub:acme/data"


@pytest.fixture
def offered(measured: Any, unchecked: Any, tmp_path: Path, publish_rows: Any) -> Callable[..., str]:
    """Publishes rows of one session once, and offers others; gives the address of the pull request."""
    publish_rows(session=0)

    def offer(name: str = "mine", **rows: Any) -> str:
        done = contribute(measured(tmp_path / name, **(rows or {"session": 1})), TO, deep=False, agree=True)
        assert done is not None
        return f"{TO}@refs/pr/{done.pull_request}"

    return offer
