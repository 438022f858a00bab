"""Provides CANDIDATES: the models among which a guarded transfer chooses."""

from __future__ import annotations

ADAPTED, SOURCE, LOCAL = "adapted", "source", "local"
"""The model after transfer, the model as it came, and one that knows the target alone."""
CANDIDATES = (ADAPTED, SOURCE, LOCAL)
