"""Provides check_model and check_loadable: check an untrusted model for everything that loading relies on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from costhub.cards.card_check import check_card
from costhub.cards.markdown import CARD
from costhub.cards.model_card import is_as_rendered, parse
from costhub.cards.model_facts import ADDRESSED_VERSION, METRICS, ModelCard, dataset_figures, held_out_figures
from costhub.errors import CosthubError, ModelError
from costhub.hub.catalogue.hubs import CONFIG, EVALUATION
from costhub.hub.model_check.model_files import check_model_files, check_tensor_header, read_strict_json, read_text
from costhub.hub.remote.manifest import MANIFEST, scan, verify
from costhub.isolation.child import Child, ChildDied, ChildTimeout
from costhub.isolation.limits import Limits
from costhub.models.folder import load_model
from costhub.models.info import ModelInfo
from costhub.terminal_text import clean

LOAD_S = 120.0
LIMITS = Limits(address_space_bytes=16 << 30, cpu_s=LOAD_S, file_bytes=1 << 20)
"""torch and xgboost map about 8 GiB but use little of it; a model adds twice the size of its file."""
_KNOWN = frozenset({"costhub_format", "options", *(field.name for field in fields(ModelInfo))})


def check_model(folder: str | Path, *, needs_card: bool = True) -> ModelInfo:
    """Checks a model folder without running anything in it; it is loaded in a child process with limits.

    Checks the files, then their headers, the configuration, the card, and finally the weights.

    Args:
        folder: The model folder.
        needs_card: Reject a model without a card.

    Returns:
        The origin of the model.

    Raises:
        CosthubError: A ModelError or DataError with the first problem.

    Example:
        >>> from costhub.hub.catalogue.find import find_model
        >>> check_model(find_model("nvidia-h200").entry.folder).device_id
        'nvidia-h200'
    """
    root = Path(folder)
    info = _read(root)
    if (root / MANIFEST).is_file():
        _check_manifest(root)
    if (root / CARD).is_file():
        _check_card(root, info)
    elif needs_card:
        raise ModelError(
            f"{root} has no card ({CARD}): `costhub card {root} --data DATA` writes one, from measurements of "
            "workloads that the model has not learned from."
        )
    load_in_child(root)
    return info


def check_loadable(folder: str | Path) -> ModelInfo:
    """Checks what loading a model folder relies on, as `check_model` does, but not its card.

    Returns:
        The origin of the model.

    Raises:
        CosthubError: A ModelError or DataError with the first problem.
    """
    info = _read(Path(folder))
    load_in_child(folder)
    return info


def find_problem(folder: str) -> str:
    """Loads a model folder; returns a sentence describing the problem, empty if there is none."""
    try:
        load_model(folder)
    except CosthubError as error:
        return str(error)
    except MemoryError:
        return f"Loading {folder} takes more memory than a cost model needs."
    except Exception as error:  # native parsers of damaged files can raise anything
        return f"{folder} cannot be loaded ({type(error).__name__}). Train or fetch the model again."
    return ""


def load_in_child(folder: str | Path) -> None:
    """Loads a model folder in a child process, where a crash or hang does no harm.

    Raises:
        ModelError: It does not load.
        MeasureError: The child process cannot be started.
    """
    with Child(limits=LIMITS, is_shared=False) as child:
        try:
            problem = child.call(find_problem, str(folder), timeout_s=LOAD_S)
        except ChildDied:
            problem = f"Loading {folder} crashed its process: the weights are damaged or hostile."
        except ChildTimeout:
            problem = f"Loading {folder} took more than {LOAD_S:g} s, more than any cost model needs."
    if problem:
        raise ModelError(problem)


def _read(root: Path) -> ModelInfo:
    check_model_files(root)
    for path in sorted(root.rglob("*.safetensors")):
        check_tensor_header(path)
    if not (root / CONFIG).is_file():
        raise ModelError(f"{root} is not a model folder: it has no {CONFIG}. `costhub train` makes one.")
    return _info(read_strict_json(root / CONFIG))


def _info(config: Mapping[str, Any]) -> ModelInfo:
    unknown = sorted(set(config) - _KNOWN)
    if unknown:
        # Other libraries import the code named by such keys (auto_map, _target_).
        raise ModelError(
            f"{CONFIG} holds the unknown key {clean(unknown[0], 40)!r}; costhub does not write it. Remove it, "
            "or update costhub."
        )
    return ModelInfo.from_config(config, path=CONFIG)


def _check_manifest(root: Path) -> None:
    listed, present = verify(root).files, scan(root).files
    extra = sorted(set(present) - set(listed))
    if extra:
        raise ModelError(f"{root} holds {clean(extra[0], 99)}, which its {MANIFEST} does not list. Remove it.")


def _check_card(root: Path, info: ModelInfo) -> None:
    text = read_text(root / CARD)
    check_card(text, CARD)
    card = parse(text)
    if not is_as_rendered(text):
        raise ModelError(
            f"{CARD} does not follow from its own data: a figure or a sentence was changed. Render it again."
        )
    for name in ("device_id", "arch", "feature_spec", "licence"):
        if getattr(card, name) != getattr(info, name):
            raise ModelError(f"{CARD} names another {name} than {CONFIG}: it is the card of another model.")
    if not (root / EVALUATION).is_file():
        raise ModelError(f"{CARD} shows figures, but there is no {EVALUATION} with them. Evaluate again.")
    evaluation = read_strict_json(root / EVALUATION)
    for name, totals in (
        (EVALUATION, evaluation.get("totals")),
        (CONFIG, info.metrics or card.totals),  # missing if the model was evaluated later
    ):
        if not isinstance(totals, dict) or any(totals.get(key) != card.totals[key] for key in METRICS):
            raise ModelError(f"{CARD} shows figures that differ from those in {name}. Render it again.")
    _check_summary(card, evaluation)
    for key in METRICS:
        least = -1 if key == "spearman" else 0
        if not least <= card.totals[key] <= 1:
            raise ModelError(f"{CARD} has a {key} of {card.totals[key]:g}; {least} to 1 was expected.")


def _check_summary(card: ModelCard, evaluation: Mapping[str, Any]) -> None:
    """Rejects figures by operator, device or dataset that do not follow from the figures of the workloads."""
    if card.version < ADDRESSED_VERSION:
        return  # it contains the workloads themselves
    try:
        named = card.training.get("test_datasets")
        by_dataset = dataset_figures(evaluation, named.split(", ") if isinstance(named, str) else ())
        held_out = {**held_out_figures(evaluation["workloads"]), "tested": by_dataset}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelError(f"{EVALUATION} has no rows of workloads that a card could show. Evaluate again.") from error
    summary = {**held_out, "noise_floor": evaluation.get("noise_floor")}
    if any(getattr(card, key) != value for key, value in summary.items()):
        raise ModelError(
            f"{CARD} shows figures by operator, device or dataset that differ from {EVALUATION}. Render it again."
        )
