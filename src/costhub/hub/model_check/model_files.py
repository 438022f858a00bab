"""Provides check_model_files: checks the files of a model folder before anything parses them."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from costhub.errors import ModelError
from costhub.files import open_regular, read_regular
from costhub.hub.remote.manifest import MAX_FILES, MAX_TOTAL_BYTES, same_names
from costhub.terminal_text import clean

MAX_TEXT_BYTES = 16 << 20
"""Size limit of a JSON file or a card."""
MAX_DEPTH = 4
"""Nested folders: a compound model of compound models has two."""
_PNG = b"\x89PNG\r\n\x1a\n"
_KINDS_OF_FILES = ".json, .md, .png, .safetensors and .ubj"
MAX_HEADER_BYTES = 1 << 20
MAX_TENSORS = 10_000
_DTYPE_BYTES = {"F32": 4, "F64": 8, "I64": 8}


@dataclass(frozen=True)
class _ListedFile:
    path: Path
    name: str
    """Path within the folder, with forward slashes, safe for a message."""
    size: int


def check_model_files(folder: str | Path, *, skip_hidden: bool = False) -> None:
    """Checks the name, kind and first bytes of everything in a model folder.

    A file whose content does not match its name is rejected, so no pickle, archive or program can hide under
    another name. Links are not followed.

    Args:
        folder: The model folder.
        skip_hidden: Ignore hidden entries at its top level, such as `.git`, because they will not be used.

    Raises:
        ModelError: The folder contains something that does not belong to a model.
    """
    root = Path(folder)
    if root.is_symlink() or not root.is_dir():
        raise ModelError(f"{root} is not a folder. Give the folder that `costhub train --out` wrote.")
    files = _bounded(root, _walk(root, skip_hidden=skip_hidden))
    first, second = same_names(file.name for file in files)
    if second:
        raise ModelError(f"{root} holds {first} and {second}, which are one file on some systems. Remove one of them.")
    for file in files:
        _check_file(file)


def refuse_links(folder: str | Path) -> None:
    """Rejects a folder that contains links, pipes, sockets or devices; hidden ones at its top level are ignored.

    For a folder that is used in place and may hold other files: only the model's files are read, and
    those are regular files.

    Raises:
        ModelError: The folder contains one of these.
    """
    for _ in _walk(Path(folder), skip_hidden=True, checks_names=False):
        pass


def check_model_path(name: str) -> None:
    """Checks the path of a file before it is fetched, as `check_model_files` does afterwards.

    Args:
        name: Path within the folder, with forward slashes.

    Raises:
        ModelError: Models have no file with this name.

    Example:
        >>> check_model_path("member_0/model.ubj")
    """
    parts = name.split("/")
    strange = len(parts) > MAX_DEPTH + 1 or any(part.startswith(".") or not part for part in parts)
    if strange or not name.isprintable() or any(c in name for c in "\\:?"):
        raise ModelError(f"It holds {clean(name, 100)!r}, a hidden file or a name that no model file has.")
    if Path(name).suffix not in (".json", ".md", ".png", ".safetensors", ".ubj"):
        raise ModelError(f"It holds {clean(name, 100)}; a model folder has {_KINDS_OF_FILES} files only. Remove it.")


def _bounded(root: Path, walk: Iterator[_ListedFile]) -> list[_ListedFile]:
    files: list[_ListedFile] = []
    total = 0
    for file in walk:
        files.append(file)
        total += file.size
        if len(files) > MAX_FILES or total > MAX_TOTAL_BYTES:
            raise ModelError(
                f"{root} holds more than {MAX_FILES} files or {MAX_TOTAL_BYTES:,} bytes, too much for a cost model."
            )
    return files


def _walk(root: Path, *, skip_hidden: bool, checks_names: bool = True) -> Iterator[_ListedFile]:
    """The files of a folder and its subfolders, in order; links and other kinds of files are rejected."""
    open_folders = [(root, "", 0)]
    while open_folders:
        folder, prefix, depth = open_folders.pop()
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if skip_hidden and not prefix and entry.name.startswith("."):
                continue
            name = clean(prefix + entry.name, 200)
            if entry.is_symlink():
                raise ModelError(f"{root} holds {name}, a link; a model folder has plain files only.")
            strange = entry.name.startswith(".") or not entry.name.isprintable() or any(c in name for c in "\\:?")
            if checks_names and strange:
                raise ModelError(f"{root} holds {name!r}, a hidden file or a name that no model file has.")
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                if depth == MAX_DEPTH:
                    raise ModelError(f"{root} holds folders more than {MAX_DEPTH} deep, deeper than any model.")
                open_folders.append((Path(entry.path), f"{prefix}{entry.name}/", depth + 1))
            elif not stat.S_ISREG(status.st_mode):
                raise ModelError(f"{root} holds {name}, which is not a plain file (but a pipe, socket or device).")
            else:
                yield _ListedFile(Path(entry.path), name, status.st_size)


def _check_file(file: _ListedFile) -> None:
    suffix = file.path.suffix
    if suffix in (".json", ".md") and file.size > MAX_TEXT_BYTES:
        raise ModelError(f"{file.name} has {file.size:,} bytes, more than a text file of a model needs.")
    with open_regular(file.path, follow=False, error=ModelError) as opened:
        first = opened.read(10)
    if suffix == ".safetensors":
        sound = len(first) > 8 and first[8:9] == b"{"
    elif suffix == ".ubj":
        sound = first[:1] == b"{"
    elif suffix == ".png":
        sound = first.startswith(_PNG)
    elif suffix in (".json", ".md"):
        sound = _is_text(file.path)
    else:
        raise ModelError(f"The folder holds {file.name}; a model folder has {_KINDS_OF_FILES} files only. Remove it.")
    if not sound:
        raise ModelError(
            f"{file.name} does not begin as a {suffix} file does (it may be a pickle, an archive or a "
            "program under a false name). Remove it, or fetch the model again."
        )


def _is_text(path: Path) -> bool:
    try:
        return "\0" not in read_text(path)
    except UnicodeDecodeError:
        return False


def read_text(path: Path) -> str:
    """Reads a text file of a model folder; links are rejected.

    Raises:
        ModelError: It is not a regular file, or too large.
        UnicodeDecodeError: It is not UTF-8, which `check_model_files` rejects.
    """
    return read_regular(path, limit=MAX_TEXT_BYTES, follow=False, error=ModelError).decode("utf-8")


def read_strict_json(path: Path) -> dict[str, Any]:
    """Reads an unambiguous JSON object: without repeated keys or NaN.

    Raises:
        ModelError: It is not such an object.
    """

    def constant(name: str) -> NoReturn:
        raise ValueError(f"it holds {name}")

    try:
        content = json.loads(read_text(path), object_pairs_hook=_unique, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path.name} cannot be read as JSON ({error}). Train or fetch it again.") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path.name} does not hold a JSON object. Train or fetch it again.")
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without repeated keys, which different readers would resolve differently."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key occurs twice")
    return content


def check_tensor_header(path: Path) -> None:
    """Checks that the tensors of a file fill it completely, and have types that models use.

    Raises:
        ModelError: They do not.
    """
    with open_regular(path, follow=False, error=ModelError) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if length > min(MAX_HEADER_BYTES, size - 8):
            raise ModelError(
                f"{path.name} has a header of {length:,} bytes, more than a cost model has. Fetch it again."
            )
        raw = file.read(length)
    try:
        header = json.loads(raw, object_pairs_hook=_unique)
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        ends = [_tensor_range(entry) for entry in tensors.values()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(
            f"{path.name} has a header that cannot be read ({type(error).__name__}). Fetch it again."
        ) from error
    if not tensors or len(tensors) > MAX_TENSORS:
        raise ModelError(f"{path.name} holds {len(tensors):,} tensors; 1 to {MAX_TENSORS:,} were expected.")
    position = 0
    for start, end in sorted(ends):
        if start != position:
            raise ModelError(f"{path.name} has tensors that overlap or leave gaps. Fetch it again.")
        position = end
    if position != size - 8 - length:
        raise ModelError(
            f"{path.name} describes {position:,} bytes of tensors and holds {size - 8 - length:,}. Fetch it again."
        )


def _tensor_range(entry: dict[str, Any]) -> tuple[int, int]:
    """The start and end of a tensor.

    Raises:
        ValueError: Its type, shape and offsets are inconsistent.
    """
    shape, (start, end) = entry["shape"], entry["data_offsets"]
    if not all(type(number) is int and number >= 0 for number in (*shape, start, end)):
        raise ValueError("its numbers are not whole")
    if end - start != _DTYPE_BYTES[entry["dtype"]] * math.prod(shape):
        raise ValueError("shape and place differ")
    return start, end
