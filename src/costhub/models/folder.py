"""Provides save_model and load_model: a model as a folder of weights, `config.json` and documents."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from costhub.errors import ModelError, UnknownNameError
from costhub.files import read_regular, swap_in
from costhub.isolation.scratch import ScratchFolder
from costhub.models.architectures import ARCHITECTURES, new_model
from costhub.models.info import ModelInfo
from costhub.models.protocol import CostModel

CONFIG = "config.json"
FORMAT = 1
"""Version of the folder format, raised by one whenever the code can no longer read older folders."""
MAX_CONFIG_BYTES = 16 << 20


def save_model(
    model: CostModel,
    folder: str | Path,
    info: ModelInfo,
    *,
    documents: Mapping[str, str | bytes] | None = None,
) -> Path:
    """Writes a model folder, which appears complete or not at all.

    Args:
        model: A fitted model.
        folder: The folder to create. An existing model folder is replaced; anything else is left alone.
        info: Where the model comes from.
        documents: Further files, name -> content, such as its card and the pictures on it.

    Returns:
        The folder.

    Raises:
        ModelError: The model is not fitted, is not the one `info` describes, could not be loaded again, or `folder`
            holds something else.
    """
    folder = Path(folder)
    if (info.arch, info.feature_spec) != (model.arch, model.feature_spec):
        raise ModelError(
            f"The info describes a {info.arch} model of {info.feature_spec}, but the model is a {model.arch} "
            f"of {model.feature_spec}."
        )
    check_replaceable(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with ScratchFolder(folder.parent) as scratch:
        new = scratch.path / "new"
        new.mkdir()
        model.save_weights(new)
        # What cannot be read again must not take the place of a model that can.
        if info.arch in ARCHITECTURES:  # a class that nobody has registered may still be kept
            new_model(info.arch, feature_spec=info.feature_spec).load_weights(new, model.config())
        contents: dict[str, str | bytes] = {
            CONFIG: json.dumps(config_of(model, info), indent=2, allow_nan=False) + "\n",
            **(documents or {}),
        }
        for name, content in contents.items():
            (new / name).write_bytes(content.encode() if isinstance(content, str) else content)
        _sync(new)
        if folder.exists():
            # Not within the scratch folder, nor under a name like it: that one may be removed at any time.
            swap_in(folder, new, folder.with_name(f".{folder.name}-old-{secrets.token_hex(6)}"))
        else:
            new.rename(folder)
    return folder


def load_model(folder: str | Path) -> tuple[CostModel, ModelInfo]:
    """Reads a model folder; nothing in it is run.

    Args:
        folder: What `save_model` wrote.

    Returns:
        The model and where it comes from.

    Raises:
        ModelError: The folder is missing or incomplete, was written by a newer costhub, or holds something
            other than its configuration says.
    """
    folder = Path(folder)
    config = _read_config(folder)
    info = ModelInfo.from_config(config, path=str(folder / CONFIG))
    options = config.get("options")
    if not isinstance(options, dict):
        raise ModelError(f"{folder / CONFIG} needs options, an object; fetch or train the model again.")
    try:
        model = new_model(info.arch, feature_spec=info.feature_spec)
    except UnknownNameError as error:
        raise ModelError(
            f"{folder} holds a model of the architecture {info.arch!r}, which this costhub lacks. Update it, or "
            "install the package that adds the architecture."
        ) from error
    model.load_weights(folder, options)
    return model, info


def check_replaceable(folder: str | Path) -> None:
    """Refuses a folder to which `save_model` would not write; call it before hours of training.

    Raises:
        ModelError: There is something that is neither an empty folder nor one of costhub's models, or it is the
            current folder.
    """
    folder = Path(folder)
    if not folder.exists() and not folder.is_symlink():
        return
    if folder.exists() and folder.samefile(os.curdir):
        raise ModelError(
            f"{folder} is the current folder. A model replaces a whole folder, and you would be left in one that is "
            "gone: give the name of another folder."
        )
    try:
        empty = not any(folder.iterdir())
        if not empty:
            _read_config(folder)
    except (ModelError, OSError) as error:
        raise ModelError(f"{folder} exists and is not a model folder; give the name of a new folder.") from error


def config_of(model: CostModel, info: ModelInfo) -> dict[str, Any]:
    """The content of `config.json`."""
    return {"costhub_format": FORMAT, **asdict(info), "options": model.config()}


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not os.path.lexists(path):
        raise ModelError(f"{folder} is not a model folder: it has no {CONFIG}. `costhub train` makes one.")
    try:
        config = json.loads(read_regular(path, limit=MAX_CONFIG_BYTES, error=ModelError))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error}); fetch or train the model again.") from error
    version = config.get("costhub_format") if isinstance(config, dict) else None
    if type(version) is not int:
        raise ModelError(f"{path} has no costhub_format, so it was not written by costhub.")
    if version != FORMAT:
        raise ModelError(f"{path} has format {version}, this costhub reads {FORMAT}. Update costhub.")
    return dict(config)


def _sync(folder: Path) -> None:
    """Flushes every file of the folder to disk, so that the rename cannot happen before them."""
    for path in (*folder.rglob("*"), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
