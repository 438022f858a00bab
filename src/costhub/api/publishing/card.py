"""Provides card: writes the card of a model, with its figures on workloads that it was not trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.api.evaluation import described_figures, evaluate
from costhub.api.models import dataset_revision
from costhub.cards.markdown import CARD
from costhub.cards.model_card import text_list
from costhub.cards.model_facts import METRICS
from costhub.errors import ArgumentError, DataError
from costhub.files import write_replacing
from costhub.hub.catalogue.find import find_model
from costhub.hub.catalogue.hubs import CONFIG, EVALUATION, read_config
from costhub.hub.data import DataAddress, find_data
from costhub.hub.install import card_files, read_figures
from costhub.hub.pull import models_root, pull_resolved
from costhub.hub.remote.manifest import MANIFEST, verify, write_manifest
from costhub.terminal_text import Printed
from costhub.versions import load_pandas

if TYPE_CHECKING:
    from costhub.dataset.splits.split import Split


@dataclass(frozen=True, repr=False)
class WrittenCard(Printed):
    """The card that `costhub.card` wrote; `print` shows where it is, and the figures on it."""

    path: Path
    """The card: `README.md` in the folder of the model."""
    figures: Mapping[str, Any]
    """What the card is made from, the content of `evaluation.json` beside it."""

    @property
    def totals(self) -> dict[str, float]:
        """Metric -> its mean over the workloads."""
        return {metric: self.figures["totals"][metric] for metric in METRICS}

    def to_json(self) -> dict[str, Any]:
        """Where the card is, and the means, as JSON values."""
        return {"card": str(self.path), **self.totals}

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per workload: its name, operator, device and figures."""
        return load_pandas().DataFrame(list(self.figures.get("workloads", ())))

    def __str__(self) -> str:
        return f"Wrote {self.path}: {', '.join(f'{metric} {value:.3f}' for metric, value in self.totals.items())}"


def card(
    model: str | Path,
    data: str | Path | DataAddress | None = None,
    *,
    device: str | Sequence[str] | None = None,
    split: str | Split | None = None,
    out: str | Path | None = None,
) -> WrittenCard:
    """Writes the card of a model (`README.md`), with its figures and a picture of them.

    With data, the model is first evaluated on workloads that it was not trained on, as by `costhub.evaluate`; without,
    the card shows the figures in the folder. `costhub.publish` requires a card.

    Args:
        model: A model folder or, with `out`, a name as for `costhub.load_model`.
        data: Measurements to evaluate the model on first, as for `costhub.load_programs`.
        device: Devices whose measurements to use; not needed if the data or the split have only one.
        split: The split whose test workloads to use: its name in the data, its file, or a `Split`.
        out: Folder for a copy of the model with its card; by default the card goes into the model's own folder.
            Required for a model of a hub, which is not changed.

    Returns:
        Where the card is, and the figures on it.

    Raises:
        ArgumentError: The model belongs to a hub and `out` is missing, or a device or split is named without data.
        DataError: There are no figures, they are for other devices than the model, or the data do not exist.
        ModelError: The model is damaged, or its folder holds a link.
        CosthubError: No model has this name.

    Example:
        >>> import tempfile
        >>> made = card("nvidia-h200-gbt", out=Path(tempfile.mkdtemp()) / "mine")
        >>> made.path.name, made.totals["top_1"] > 0.5
        ('README.md', True)
    """
    if data is None and (device or split):
        raise ArgumentError(
            "--device and --split (device=, split= in Python) select from measurements: give --data (data=) as well."
        )
    folder = _own_folder(str(model), None if out is None else Path(out))
    config = read_config(folder)
    has_manifest = (folder / MANIFEST).is_file()
    if has_manifest:
        verify(folder)  # a damaged model must not get a valid manifest
    place = data if data is None or isinstance(data, DataAddress) else find_data(data)
    found = _evaluated(folder, place, device, split)
    _refuse_others(folder, config, found)
    made = WrittenCard(folder / CARD, found)
    described = {**config, "metrics": made.totals, **({} if place is None else _tested_on(place, found))}
    _write_documents(folder, config, described, found, has_manifest=has_manifest)
    return made


def _tested_on(place: DataAddress, figures: Mapping[str, Any]) -> dict[str, list[str]]:
    """The entries of the configuration about the measurements that the model was evaluated on."""
    return {
        "test_workloads": sorted({row["workload_id"] for row in figures["workloads"]}),
        "test_datasets": list(dataset_revision(place)),
    }


def _write_documents(
    folder: Path,
    config: Mapping[str, Any],
    described: Mapping[str, Any],
    figures: Mapping[str, Any],
    *,
    has_manifest: bool,
) -> None:
    """Writes the card, the configuration with its figures, and last the manifest of both.

    An interruption may leave the folder without a manifest, which only models of a hub need.
    """
    documents = card_files(folder, described, figures, name=folder.resolve().name)
    if described != config:
        documents[CONFIG] = _config_text(folder, described).encode()
    # A folder without a manifest is a model, but one whose manifest does not fit is damaged.
    (folder / MANIFEST).unlink(missing_ok=True)
    for file, content in documents.items():
        write_replacing(folder / file, content)
    if has_manifest:
        write_manifest(folder)


def _config_text(folder: Path, config: Mapping[str, Any]) -> str:
    try:
        return json.dumps(config, indent=2, allow_nan=False) + "\n"
    except ValueError as error:
        raise DataError(
            f"{folder / CONFIG} or the figures hold a number that is not finite, which JSON does not have. "
            "Train or evaluate the model again."
        ) from error


def _own_folder(model: str, out: Path | None) -> Path:
    """The folder of the user's to write the card into: that of the model, or a copy."""
    if out is None and (Path(model) / CONFIG).is_file():
        if Path(model).resolve().is_relative_to(models_root().resolve()):
            raise ArgumentError(
                f"{model} is the cache's copy of a model of a hub and is not changed; name a folder with --out "
                "(out= in Python)."
            )
        return Path(model)
    found = find_model(model)
    if out is not None:
        return pull_resolved(found, out=out)
    if found.commit is None and not found.entry.is_published:
        return found.entry.folder
    raise ArgumentError(
        f"{found.entry.name} belongs to a hub and is not changed; name a folder with --out (out= in Python)."
    )


def _evaluated(
    folder: Path,
    place: DataAddress | None,
    device: str | Sequence[str] | None,
    split: str | Split | None,
) -> Mapping[str, Any]:
    """The figures for the card: evaluated now, or those in the folder."""
    if place is None:
        found = read_figures(folder, EVALUATION)
        if found is None:
            raise DataError(
                f"{folder} holds no figures for a card ({EVALUATION} is missing). Use --data (data= in Python) to name "
                "measurements to evaluate the model on."
            )
        return found
    return described_figures(evaluate(str(folder.resolve()), place, device=device, split=split), place.folder)


def _refuse_others(folder: Path, config: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    """Refuses figures of devices that the model is not for."""
    own = {config["device_id"], *text_list(config, "train_devices")}
    strange = sorted({str(row["device_id"]) for row in figures.get("workloads", ()) if "device_id" in row} - own)
    if strange:
        raise DataError(
            f"The figures are for {', '.join(strange)}, but {folder} is a model for {config['device_id']}. "
            "Choose measurements of the model's device with --data and --device (data=, device= in Python)."
        )
