"""Provides pull: makes a verified copy of a model folder, from wherever its address points."""

from __future__ import annotations

from pathlib import Path

from costhub.files import cache_root
from costhub.hub.catalogue import hubs
from costhub.hub.catalogue.find import ResolvedModel, find_model
from costhub.hub.model_check.model_files import check_model_files, refuse_links
from costhub.hub.remote.manifest import copy_verified, verify


def pull(name: str, *, arch: str | None = None, out: str | Path | None = None) -> Path:
    """Copies a model into the cache, or into `out`, and checks every byte of it.

    Args:
        name: A device or model name, `hf-hub:ORG/NAME@REVISION`, `local-dir:/PATH` or the path of a folder.
        arch: The architecture; by default that of the model with the best figures.
        out: The model folder to create; by default a folder in the cache.

    Returns:
        The model folder. An identical existing one is kept; a different one is never overwritten.

    Raises:
        CosthubError: One of its subclasses: the name is unknown, the device has no model, the files are
            damaged, or `out` contains something else.
    """
    return pull_resolved(find_model(name, arch=arch), out=out)


def models_root() -> Path:
    """The folder of the cache in which pulled models lie, under their names and revisions."""
    return cache_root() / "models"


def pull_resolved(model: ResolvedModel, *, out: str | Path | None = None) -> Path:
    """Copies a resolved model; see `pull`.

    A model that anyone may have written, in a folder or on the Hugging Face hub, is first checked and loaded in a
    child process with limits; the copy gets its final name afterwards.
    """
    source, is_shipped = model.entry.folder, model.entry.folder.is_relative_to(hubs.EMBEDDED)
    if model.commit is None and not is_shipped:
        # Before anything is hashed. The folder itself may be a link made by the user.
        source = source.resolve()
        check_model_files(source, skip_hidden=True)
    manifest = model.entry.manifest
    # In the cache each revision has its own folder, so an update never collides with an older copy.
    cached = models_root() / model.entry.name / manifest.revision[:16]
    target = cached if out is None else Path(out)
    if is_shipped:
        return copy_verified(source, target, manifest=manifest, follow=True)
    # Imported here: most models are in the package, and need neither the cards' code nor YAML.
    from costhub.hub.model_check.model_gate import check_loadable

    # In the cache of the client of the Hugging Face hub, all files are links.
    return copy_verified(source, target, manifest=manifest, check=check_loadable, follow=model.commit is not None)


def resolve(name: str, *, arch: str | None = None) -> Path:
    """Returns the verified folder of the model that `name` refers to; only a downloaded model is copied.

    Raises:
        CosthubError: As for `pull`.
    """
    return verified_folder(find_model(name, arch=arch))


def verified_folder(model: ResolvedModel) -> Path:
    """Returns the folder of a resolved model after checking every byte of it; only a downloaded model is copied.

    Raises:
        CosthubError: As for `pull`.
    """
    if model.commit is not None:
        return pull_resolved(model)
    if not model.entry.is_published:
        refuse_links(model.entry.folder)
    if model.entry.has_manifest:
        verify(model.entry.folder, model.entry.manifest)
    return model.entry.folder
