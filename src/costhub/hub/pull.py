"""Provides pull: a verified copy of a model folder, from wherever its address points."""

from __future__ import annotations

from pathlib import Path

from costhub.files import cache_root
from costhub.hub.catalogue.find import ResolvedModel, find_model
from costhub.hub.remote.manifest import MANIFEST, copy_verified, read_manifest, scan, verify


def pull(name: str, *, arch: str | None = None, out: str | Path | None = None) -> Path:
    """Copies a model into the cache, or into `out`, and checks every byte of it.

    Args:
        name: A device or model name, `hf-hub:ORG/NAME@REVISION`, `local-dir:/PATH` or the path of a folder.
        arch: The architecture wanted; by default the one with the best figures.
        out: The model folder to make; by default a place in the cache.

    Returns:
        The model folder. An equal one that was there already is kept; a different one is never overwritten.

    Raises:
        CosthubError: One of its subclasses: the name is unknown, the device has no model, the files are
            damaged, or `out` holds something else.
    """
    return pull_found(find_model(name, arch=arch), out=out)


def pull_found(found: ResolvedModel, *, out: str | Path | None = None) -> Path:
    """Copies a model that was found already; see `pull`.

    A model that anybody may have written is first loaded in a child process with limits; only then does the
    copy get its final name.
    """
    source = found.entry.folder
    # A folder that was just trained has no manifest yet: what it holds now is what the copy must hold.
    manifest = read_manifest(source) if (source / MANIFEST).exists() else scan(source)
    # In the cache each content has its own folder, so that an update never meets an older copy.
    cached = cache_root() / "models" / found.entry.name / manifest.revision[:16]
    target = Path(out) if out is not None else cached
    if not found.fetched:
        return copy_verified(source, target, manifest=manifest)
    # Imported here: most models lie in the package, and need neither the cards' code nor YAML.
    from costhub.hub.model_check.model_gate import check_loadable

    return copy_verified(source, target, manifest=manifest, check=check_loadable)


def resolve(name: str, *, arch: str | None = None) -> Path:
    """The verified folder of the model that `name` stands for; only a fetched model is copied.

    Raises:
        CosthubError: As `pull`.
    """
    found = find_model(name, arch=arch)
    if found.fetched:
        return pull_found(found)
    if (found.entry.folder / MANIFEST).exists():
        verify(found.entry.folder)
    return found.entry.folder
