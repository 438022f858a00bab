"""Provides site_contents and write_site: build the page of some hubs from their folders and write it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costhub.cards.markdown import CARD, MAX_CARD_CHARACTERS, split
from costhub.cards.site.facts import METRICS, Leaderboard, Site, SiteDataset, SiteModel
from costhub.cards.site.site_page import MARK
from costhub.cards.tables import one_line
from costhub.errors import ArgumentError, CosthubError, DataError, ModelError
from costhub.files import as_number, read_regular, swap_in
from costhub.hub.benchmark import BENCHMARK, read_benchmark
from costhub.hub.catalogue.devices import read_devices
from costhub.hub.catalogue.hubs import EVALUATION, HubRoot, named_folders, read_config, training_devices
from costhub.hub.install import read_figures
from costhub.hub.remote.address import parse_address
from costhub.hub.remote.manifest import Manifest, verify
from costhub.hub.searches import SearchResult, with_searches
from costhub.hub.staging import read_card

PICTURE_FOLDER = "pictures"
"""Folder of the site that contains the pictures."""
MAX_PICTURE_BYTES = 8 << 20
MAX_PAGE_BYTES = 64 << 20
"""Of an earlier page; that of a hub with a thousand models has a tenth."""
MAX_OPERATORS = 100
_PNG = b"\x89PNG\r\n\x1a\n"
INDEX_PAGE = "index.html"


def read_site_model(folder: Path, name: str) -> tuple[SiteModel, dict[str, bytes]]:
    """Reads a model folder whose files match its manifest.

    Args:
        folder: The model folder.
        name: ORG/NAME, which `costhub pull` must be able to read.

    Returns:
        The model, and a mapping of address in the site -> content for its pictures.

    Raises:
        CosthubError: One of its subclasses: the folder is damaged, or contains files that do not belong to a model.
    """
    parse_address(name)
    manifest = verify(folder)
    _refuse_links(folder, manifest)
    config = read_config(folder)
    recorded = (read_figures(folder, EVALUATION) if EVALUATION in manifest.files else None) or {}
    pictures = {
        picture: _picture(folder / picture, entry.sha256)
        for picture, entry in manifest.files.items()
        if picture.endswith(".png") and "/" not in picture
    }
    model = SiteModel(
        name=name,
        device_id=config["device_id"],
        arch=config["arch"],
        more_devices=training_devices(config),
        bytes=sum(entry.size for entry in manifest.files.values()),
        figures=_read_shares(recorded.get("totals", config.get("metrics")), METRICS, folder),
        errors=_read_shares(recorded.get("standard_errors"), METRICS, folder),
        operators=_operator_shares(recorded, folder),
        card=read_body(folder) if CARD in manifest.files else None,
        pictures={picture: address for picture, (address, _) in pictures.items()},
    )
    return model, dict(pictures.values())


def read_body(folder: Path) -> str | None:
    """The card of a folder without its block of YAML; None if there is no card.

    Raises:
        DataError: It is a link, not text, too long, or its block is not YAML.
    """
    card = folder / CARD
    if card.is_symlink():
        raise DataError(f"{card} is a link; a card must be a file in the folder itself.")
    if not card.is_file():
        return None
    if card.stat().st_size > 4 * MAX_CARD_CHARACTERS:
        raise DataError(f"{card} is longer than {MAX_CARD_CHARACTERS} characters, too long for a card.")
    text = read_card(card).replace("\r\n", "\n")
    return split(text)[1] if text.startswith("---\n") else text


def _refuse_links(folder: Path, manifest: Manifest) -> None:
    """Rejects links: a link may expose a file that its owner never meant to publish."""
    root = folder.resolve()
    for name in manifest.files:
        if not (folder / name).resolve().is_relative_to(root):
            raise ModelError(f"{folder / name} is a link out of its folder; a model has plain files only.")


def _picture(path: Path, sha256: str) -> tuple[str, bytes]:
    with path.open("rb") as file:
        content = file.read(MAX_PICTURE_BYTES + 1)
    if len(content) > MAX_PICTURE_BYTES or not content.startswith(_PNG):
        raise ModelError(f"{path} is not a PNG of at most {MAX_PICTURE_BYTES:,} bytes. Draw it again.")
    # Named by content: an untrusted name would become a path, and may occur in two models.
    return f"{PICTURE_FOLDER}/{sha256[:16]}.png", content


def _read_shares(figures: object, names: Iterable[str], folder: Path) -> dict[str, float]:
    """The numbers under some keys of a mapping; all of them are shares."""
    numbers = figures if isinstance(figures, Mapping) else {}
    read = {name: as_number(numbers.get(name)) for name in names}
    shares = {name: value for name, value in read.items() if value is not None}
    for name, value in shares.items():
        if not 0.0 <= value <= 1.0:
            raise ModelError(f"{folder} records {name} {value:.3g}, expected 0 to 1. Evaluate it again.")
    return shares


def _operator_shares(recorded: Mapping[str, Any], folder: Path) -> dict[str, float]:
    rows = recorded.get("operators")
    entries = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    figures = {str(row.get("operator")): row.get("top_1") for row in entries}
    if len(figures) > MAX_OPERATORS:
        raise ModelError(f"{folder} records {len(figures)} operator classes; no model has that many.")
    return _read_shares(figures, figures, folder)


@dataclass(frozen=True)
class SiteContents:
    """The contents of a site."""

    site: Site
    pictures: Mapping[str, bytes]
    """Address in the site -> PNG."""
    left_out: tuple[str, ...]
    """A sentence for each folder or index that cannot be read."""
    benchmark: bytes | None = None
    """The leaderboard's figures, as stored in the hub."""

    @property
    def files(self) -> dict[str, bytes]:
        """Address in the site -> content, for everything that the page links to."""
        return {**self.pictures, **({} if self.benchmark is None else {BENCHMARK: self.benchmark})}


def site_contents(roots: Sequence[HubRoot], *, searches: Sequence[SearchResult] = ()) -> SiteContents:
    """Reads hubs for a page; damaged folders are left out and listed.

    Args:
        roots: The hubs; if two folders or devices share a name, the one in the earlier hub is used; the
            leaderboard is that of the first hub that has one.
        searches: Results of replayed searches to add to the page's leaderboard.

    Raises:
        CosthubError: One of its subclasses: a result cannot be set beside the searches of the leaderboard.

    Example:
        >>> from costhub.hub.catalogue.hubs import embedded_root
        >>> found = site_contents([embedded_root()])
        >>> [model.name for model in found.site.models][-1], found.left_out
        ('costhub/nvidia-v100-blend', ())
    """
    models: dict[str, SiteModel] = {}
    datasets: dict[str, SiteDataset] = {}
    pictures: dict[str, bytes] = {}
    left_out: list[str] = []
    board, benchmark = _leaderboard(roots, left_out)
    board = with_searches(board, searches)  # before reading the data, which takes seconds
    for name, folder in named_folders(roots, "models").items():
        try:
            models[name], drawn = read_site_model(folder, name)
            pictures |= drawn
        except (CosthubError, OSError) as error:
            left_out.append(_left_out_message(folder, error))
    for name, folder in named_folders(roots, "datasets").items():
        try:
            datasets[name] = _read_dataset(folder, name)
        except (CosthubError, OSError) as error:
            left_out.append(_left_out_message(folder, error))
    used = {model.device_id for model in models.values()}
    used |= {device_id for dataset in datasets.values() for device_id in dataset.rows}
    site = Site(
        devices=_device_rows(roots, used, left_out),
        models=tuple(sorted(models.values(), key=_model_order)),
        datasets=tuple(datasets[name] for name in sorted(datasets)),
        leaderboard=board,
    )
    return SiteContents(site, pictures, tuple(left_out), benchmark)


def _leaderboard(roots: Sequence[HubRoot], left_out: list[str]) -> tuple[Leaderboard | None, bytes | None]:
    """The leaderboard of the first hub that has one, and its file."""
    for root in roots:
        path = root.path / BENCHMARK
        try:
            found = read_benchmark(path)
        except (CosthubError, OSError) as error:
            left_out.append(_left_out_message(path, error))
            continue
        if found is not None:
            return found
    return None, None


def _model_order(model: SiteModel) -> tuple[Any, ...]:
    """Sort key: by device, the best model first."""
    return model.device_id, -model.figures.get("top_1", -1.0), model.name


def _read_dataset(folder: Path, name: str) -> SiteDataset:
    # pyarrow is heavy, and a hub without datasets does not need it.
    from costhub.dataset.load import open_folder
    from costhub.dataset.stats.folder_stats import coverage
    from costhub.dataset.stats.observations import read_observations
    from costhub.hub.dataset_documents import count_facts

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


def _device_rows(roots: Sequence[HubRoot], used: set[str], left_out: list[str]) -> tuple[Mapping[str, Any], ...]:
    """Rows of the indexes, and of devices mentioned only in models or measurements."""
    indexed: dict[str, Mapping[str, Any]] = {}
    for root in roots:
        try:
            rows = list(_index_rows(root))
        except (CosthubError, OSError) as error:
            left_out.append(_left_out_message(root.devices_file, error))
            continue
        for row in rows:
            indexed.setdefault(row["device_id"], row)
    unknown = {device_id: {"device_id": device_id} for device_id in used - indexed.keys()}
    return tuple(row for _, row in sorted({**indexed, **unknown}.items()))


def _index_rows(root: HubRoot) -> Iterator[Mapping[str, Any]]:
    for device in read_devices(root.devices_file):
        yield device.row()


def _left_out_message(path: Path, error: Exception) -> str:
    """Why something is left out; an error's message need not name the path."""
    text = one_line(str(error))
    return text if str(path) in text else f"{one_line(str(path))}: {text}"


def write_site(out: str | Path, page: str, files: Mapping[str, bytes]) -> Path:
    """Writes a site next to its destination and swaps it in; that is missing for a moment between two renames.

    Args:
        out: The folder to create. An empty folder, or one that contains only an earlier site, is replaced.
        page: Its HTML.
        files: Address in the site -> content.

    Returns:
        The file of the page.

    Raises:
        ArgumentError: `out` contains something else; nothing was changed.
    """
    target = Path(out).resolve()
    refuse_occupied(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        (new / INDEX_PAGE).write_text(page, encoding="utf-8")
        for address, content in files.items():
            (new / address).parent.mkdir(exist_ok=True)
            (new / address).write_bytes(content)
        new.chmod(0o755)
        if target.exists():
            swap_in(target, new, Path(f"{new}-old"))
        else:
            new.rename(target)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return target / INDEX_PAGE


def refuse_occupied(out: str | Path) -> None:
    """Rejects a folder that contains more than an earlier site.

    Raises:
        ArgumentError: The folder contains something else.
    """
    target = Path(out).resolve()
    if not target.exists():
        return
    if not target.is_dir():
        raise ArgumentError(f"{target} is a file; give a folder to build the site in.")
    strange = _foreign_file(target)
    if strange:
        raise ArgumentError(
            f"{target} holds {strange}, which costhub did not build; nothing was changed. Give "
            "an empty or new folder, and copy the site to its place from there."
        )


def _foreign_file(target: Path) -> str | None:
    """A file in the folder that `write_site` did not write; None if there is none."""
    present = sorted(target.iterdir())
    for path in present:
        if path.is_symlink() or path.name not in (INDEX_PAGE, PICTURE_FOLDER, BENCHMARK):
            return path.name
    pictures = target / PICTURE_FOLDER
    for path in sorted(pictures.iterdir()) if pictures.is_dir() else ():
        if path.is_symlink() or path.suffix != ".png" or not path.is_file():
            return f"{PICTURE_FOLDER}/{path.name}"
    index = target / INDEX_PAGE
    if present and not _is_own_page(index):
        return INDEX_PAGE if index.exists() else present[0].name
    return None


def _is_own_page(index: Path) -> bool:
    """Whether `write_site` wrote a page; one that is too large for that is not read."""
    try:
        return MARK.encode() in read_regular(index, limit=MAX_PAGE_BYTES, error=DataError)
    except (DataError, OSError):
        return False
