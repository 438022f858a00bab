"""Provides site_contents: everything that the page of some hubs shows, read from their folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costhub.cards.site_facts import Site, SiteDataset, SiteModel
from costhub.cards.tables import one_line
from costhub.errors import CosthubError
from costhub.hub.index import read_devices
from costhub.hub.roots import Root
from costhub.hub.shelf import named_folders
from costhub.hub.site_model import read_body, read_site_model


@dataclass(frozen=True)
class SiteContents:
    """What goes into a site."""

    site: Site
    pictures: Mapping[str, bytes]
    """Address in the site -> PNG."""
    left_out: tuple[str, ...]
    """A sentence for each folder or index that cannot be read."""


def site_contents(roots: Sequence[Root]) -> SiteContents:
    """Reads hubs for a page; what is damaged is left out and named.

    Args:
        roots: The hubs; of two folders or devices of one name the one in the earlier hub is taken.

    Example:
        >>> from costhub.hub.roots import embedded_root
        >>> found = site_contents([embedded_root()])
        >>> [model.name for model in found.site.models][-1], found.left_out
        ('costhub/nvidia-h200-gbt', ())
    """
    models: dict[str, SiteModel] = {}
    datasets: dict[str, SiteDataset] = {}
    pictures: dict[str, bytes] = {}
    left_out: list[str] = []
    for name, folder in named_folders(roots, "models").items():
        try:
            models[name], drawn = read_site_model(folder, name)
            pictures |= drawn
        except (CosthubError, OSError) as error:
            left_out.append(_sentence(folder, error))
    for name, folder in named_folders(roots, "datasets").items():
        try:
            datasets[name] = _dataset(folder, name)
        except (CosthubError, OSError) as error:
            left_out.append(_sentence(folder, error))
    used = {model.device_id for model in models.values()}
    used |= {device_id for dataset in datasets.values() for device_id in dataset.rows}
    site = Site(
        devices=_devices(roots, used, left_out),
        models=tuple(sorted(models.values(), key=_order)),
        datasets=tuple(datasets[name] for name in sorted(datasets)),
    )
    return SiteContents(site, pictures, tuple(left_out))


def _order(model: SiteModel) -> tuple[Any, ...]:
    """By device, the best model first."""
    return model.device_id, -model.figures.get("top_1", -1.0), model.name


def _dataset(folder: Path, name: str) -> SiteDataset:
    # pyarrow is heavy, and a hub without datasets needs none of it.
    from costhub.dataset.load import open_folder
    from costhub.dataset.stats.coverage import coverage
    from costhub.dataset.stats.observations import read_observations
    from costhub.hub.data_facts import count_facts

    observed = read_observations(open_folder(folder))
    facts = count_facts(observed.to_batches())
    return SiteDataset(
        name=name,
        rows=facts.rows,
        ok=facts.ok,
        workloads=facts.workloads,
        licences=facts.licences,
        tvm_versions=facts.tvm_versions,
        coverage=coverage(observed),
        card=read_body(folder),
    )


def _devices(roots: Sequence[Root], used: set[str], left_out: list[str]) -> tuple[Mapping[str, Any], ...]:
    """Rows of the indexes, and of devices that only models or measurements know."""
    found: dict[str, Mapping[str, Any]] = {}
    for root in roots:
        try:
            rows = list(_rows(root))
        except (CosthubError, OSError) as error:
            left_out.append(_sentence(root.devices_file, error))
            continue
        for row in rows:
            found.setdefault(row["device_id"], row)
    unknown = {device_id: {"device_id": device_id} for device_id in used - found.keys()}
    return tuple(row for _, row in sorted({**found, **unknown}.items()))


def _rows(root: Root) -> Iterator[Mapping[str, Any]]:
    for device in read_devices(root.devices_file):
        yield device.row()


def _sentence(path: Path, error: Exception) -> str:
    """Why something is left out; a message need not say where it arose."""
    text = one_line(str(error))
    return text if str(path) in text else f"{one_line(str(path))}: {text}"
