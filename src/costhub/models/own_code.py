"""Provides scorer_given and imported: cost models and strategies of the user's own, whose mistakes become sentences."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from costhub.dataset.programs import FloatArray, IntArray
from costhub.errors import ArgumentError, CosthubError, ModelError, class_and_line, failing_as
from costhub.models.protocol import CostModel, Scores


class OwnModel:
    """Wraps an object that has ``predict(rows, counts)`` but is not a `CostModel`, and attributes its errors to it.

    Args:
        model: The object; its other attributes, such as `name` and `feature_spec`, are those of this one.

    Example:
        >>> import numpy as np
        >>> class Rows:
        ...     def predict(self, rows, counts):
        ...         return -counts
        >>> OwnModel(Rows()).predict(np.ones((3, 2)), np.array([1, 2])).tolist()
        [-1.0, -2.0]
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.name = name_of(model)
        self.arch = self.name

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) scores of programs; higher is faster.

        Args:
            rows: (r, d) feature rows of all programs, program after program.
            counts: (n,) number of rows of each program.

        Raises:
            ModelError: The object's own method fails, or does not return n numbers.
        """
        with failing_as(ModelError, f"`predict` of {self.name}"):
            found = self.model.predict(rows, counts)
        return checked_scores(found, len(counts), whose=self.name)

    def __getattr__(self, name: str) -> Any:
        if name == "model":  # a copy that has no attributes yet
            raise AttributeError(name)
        return getattr(self.model, name)


def scorer_given(model: Any, *, before_making: Callable[[type], None] | None = None) -> Any:
    """The model that is not looked up by name for each device; None for one that is.

    Args:
        model: A name, FILE.py:NAME, MODULE:NAME, a class or an object.
        before_making: Called with a class before it makes its model, which may take as long as a training.
    """
    if model is None or (isinstance(model, str | os.PathLike) and not _is_reference(os.fspath(model))):
        refuse_file_alone(str(model))
        return None
    found = imported(os.fspath(model)) if isinstance(model, str | os.PathLike) else model
    if before_making is not None and isinstance(found, type):
        before_making(found)
    with failing_as(ModelError, f"{model}()"):
        made = found() if isinstance(found, type) else found
    if not callable(getattr(made, "predict", None)):
        raise ArgumentError(f"{model} has no method `predict(rows, counts)`; a model needs one that returns scores.")
    return made if isinstance(made, CostModel | OwnModel) else OwnModel(made)


def learned_from(scorer: Any, on: Iterable[str] = ()) -> tuple[tuple[str, ...], set[str]]:
    """The ids of the devices and workloads that a model has learned from, empty for one that keeps no such record.

    Args:
        scorer: The model.
        on: Ids of the devices on which it is to score. What the source of an adapted model has learned from elsewhere
            is a fair test there, so its workloads count only if it has learned from one of these devices.
    """
    info: Any = getattr(scorer, "info", None)
    if not (hasattr(info, "device_ids") and hasattr(info, "train_workloads")):
        return (), set()  # an object of the user's own may call anything `info`
    devices, before = tuple(info.device_ids), tuple(getattr(info, "base_devices", ()))
    own = set(info.train_workloads)
    known = own if set(before).isdisjoint(on) else own | set(info.base_workloads)
    return tuple(dict.fromkeys((*devices, *before))), known


def refuse_file_alone(text: str) -> None:
    """Refuses a Python file without the name of what it defines.

    Raises:
        ArgumentError: It is one.
    """
    if text.endswith(".py"):
        raise ArgumentError(f"{text} names a Python file alone: name what it defines as well, {text}:NAME.")


def _is_reference(text: str) -> bool:
    place, _, name = text.rpartition(":")
    return name.isidentifier() and (place.endswith(".py") or place.replace(".", "").isidentifier())


def imported(reference: str) -> Any:
    """What FILE.py:NAME or MODULE:NAME stands for. This runs the file, which must be code of your own.

    The file may import the files beside it: its folder stays at the end of Python's path.

    Raises:
        ArgumentError: The file, module or name does not exist, or importing it fails.

    Example:
        >>> imported("math:pi") > 3
        True
    """
    place, _, name = reference.rpartition(":")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            if spec is None or spec.loader is None or not Path(place).is_file():
                raise ArgumentError(f"There is no file {place}. Use the form FILE.py:NAME.")
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(spec.name, module)
            beside = str(Path(place).absolute().parent)
            if beside not in sys.path:  # last, so that a file beside it replaces no installed package
                sys.path.append(beside)
            spec.loader.exec_module(module)
        else:
            module = import_module(place)
    except CosthubError:
        raise
    except (Exception, SystemExit) as error:
        raise ArgumentError(f"{reference} cannot be imported: {class_and_line(error)}") from error
    try:
        return getattr(module, name)
    except AttributeError as error:
        raise ArgumentError(f"{place} has nothing named {name}; give FILE.py:NAME or MODULE:NAME.") from error


def name_of(model: Any) -> str:
    """The name of a model: its own, or that of its class."""
    return str(getattr(model, "name", "") or type(model).__name__)


def checked_scores(scores: Any, n: int, *, whose: str) -> Scores:
    """(n,) what `predict` returned, as numbers.

    Args:
        scores: What it returned.
        n: The number of programs.
        whose: The name of the model.

    Raises:
        ModelError: It is not one number for each program.

    Example:
        >>> checked_scores([1, 2], 2, whose="mine").tolist()
        [1.0, 2.0]
    """
    try:
        found: Scores = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:  # a tensor of torch that needs a gradient
        raise ModelError(
            f"`predict` of {whose} returned something else than numbers ({class_and_line(error):.200}). It must return "
            f"a NumPy array of shape ({n},)."
        ) from error
    if found.shape != (n,):
        hint = "; `.squeeze(1)` removes the last dimension" if found.shape == (n, 1) else ""
        raise ModelError(
            f"`predict` of {whose} returned an array of shape {found.shape} for {n} programs; it must be ({n},){hint}."
        )
    return found
