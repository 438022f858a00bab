"""Provides wrong_file and check_exported: what a file is if it is not an exported network, and how to export one."""

from __future__ import annotations

import os
from pathlib import Path

from costhub.collector.workloads.exported_file import is_archive
from costhub.errors import WorkloadError
from costhub.files import open_regular

_KINDS = {
    ".py": "is Python code, which costhub does not run",
    ".ipynb": "is a notebook, which costhub does not run",
    ".onnx": "is an ONNX model, which costhub does not read",
    ".tflite": "is a TensorFlow Lite model, which costhub does not read",
    ".safetensors": "holds the weights of a network, but not what it computes",
    ".ckpt": "is a training checkpoint, not an exported network",
    ".so": "is a compiled library",
}
"""Endings of files that people give instead of an exported network -> what these files are."""
_TORCH = (".pt", ".pth", ".bin", ".jit", ".ts")
"""Endings of what ``torch.save`` and ``torch.jit.save`` write."""
_WRITERS = {
    "torch.save": "was written by torch.save, not torch.export.save: it holds weights or a pickle, not a program",
    "torch.jit.save": "is TorchScript (torch.jit.save), which costhub does not read",
}
_EXPORTED = (b"/archive_format", b"/data/weights/", b"serialized_exported_program.json")
"""Names in an exported network, which may also hold a file of torch.save, with its inputs."""
_HEAD_BYTES, _TAIL_BYTES = 1 << 10, 1 << 20
"""A zip archive has its first name at its start and all names at its end: a megabyte has room for 10,000."""


def is_meant_as_file(text: str) -> bool:
    """Whether a text that names no workload and no network was meant as a file.

    Example:
        >>> is_meant_as_file("net.onnx"), is_meant_as_file("nets/mine"), is_meant_as_file("resnet18.c77")
        (True, True, False)
    """
    path = Path(text)
    return path.suffix.lower() in (*_KINDS, *_TORCH) or len(path.parts) > 1 or os.path.lexists(path)


def wrong_file(text: str) -> WorkloadError:
    """The error for a path that was given as a workload or network.

    Raises:
        WorkloadError: It may not be read, or is a pipe, for example.
    """
    path = Path(text)
    if not path.exists():
        return _refused(path, f"There is no file {text}, and no workload or network of that name")
    if path.is_dir():
        return _refused(path, f"{text} is a folder")
    what = _WRITERS.get(_writer(path) or "") or _KINDS.get(path.suffix.lower(), "is not an exported network")
    return _refused(path, f"{text} {what}")


def check_exported(text: str) -> None:
    """Refuses a ``.pt2`` that ``torch.export.save`` has not written, as far as the file's two ends tell, without torch.

    Raises:
        WorkloadError: It is not a zip archive, or is one written by ``torch.save`` or ``torch.jit.save``.
    """
    path = Path(text)
    if not is_archive(path):
        raise _refused(path, f"{text} is not a zip archive, as torch.export.save writes it")
    writer = _writer(path)
    if writer is not None:
        raise _refused(path, f"{text} {_WRITERS[writer]}")


def _writer(path: Path) -> str | None:
    """Which function of torch wrote a file, if it is one that does not write exported networks."""
    with open_regular(path, error=WorkloadError) as file:
        names = file.read(_HEAD_BYTES)
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        names += file.read(_TAIL_BYTES)
    if b"/data.pkl" not in names or any(name in names for name in _EXPORTED):
        return None
    return "torch.jit.save" if b"/constants.pkl" in names else "torch.save"


def _refused(path: Path, what: str) -> WorkloadError:
    name = f"{path.name.partition('.')[0] or 'network'}.pt2"
    return WorkloadError(
        f"{what}. Export the network in Python, with "
        f"torch.export.save(torch.export.export(network.eval(), (example_input,)), {name!r}), and name that file."
    )
