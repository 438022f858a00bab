"""Provides load_in_child: a stranger's model is loaded in a child process first."""

from __future__ import annotations

from pathlib import Path

from costhub.errors import CosthubError, ModelError
from costhub.isolation.child import Child, ChildDied, ChildTimeout
from costhub.isolation.limits import Limits
from costhub.models.folder import load_model

LOAD_S = 120.0
LIMITS = Limits(address_space_bytes=16 << 30, cpu_s=LOAD_S, file_bytes=1 << 20)
"""torch and xgboost map some 8 GiB of which they use little; a model adds twice the size of its file."""


def find_problem(folder: str) -> str:
    """Loads a model folder; returns a sentence on what is wrong with it, empty if nothing is."""
    try:
        load_model(folder)
    except CosthubError as error:
        return str(error)
    except MemoryError:
        return f"Loading {folder} takes more memory than a cost model needs."
    except Exception as error:  # native parsers of damaged files raise anything
        return f"{folder} cannot be loaded ({type(error).__name__}). Train or fetch the model again."
    return ""


def load_in_child(folder: str | Path) -> None:
    """Loads a model folder in a child process, where a crash or a hang costs nothing.

    Raises:
        ModelError: It does not load.
        MeasureError: The child process does not start.
    """
    with Child(limits=LIMITS) as child:
        try:
            problem = child.call(find_problem, str(folder), timeout_s=LOAD_S)
        except ChildDied:
            problem = f"Loading {folder} crashed its process: the weights are damaged or hostile."
        except ChildTimeout:
            problem = f"Loading {folder} took more than {LOAD_S:g} s, more than any cost model needs."
    if problem:
        raise ModelError(problem)
