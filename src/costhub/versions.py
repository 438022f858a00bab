"""Provides the versions named in records, model folders and reports, and packages that need not be installed."""

from __future__ import annotations

import platform
from importlib import import_module, metadata
from typing import Any

from costhub.errors import CosthubError

__version__ = "0.1.0"

# Import name -> the distributions that may provide it, the preferred one first.
_DISTRIBUTIONS = {
    "tvm": ("apache-tvm",),
    "tvm_ffi": ("apache-tvm-ffi",),
    "torch": ("torch",),
    "xgboost": ("xgboost", "xgboost-cpu"),
    "numpy": ("numpy",),
}


def costhub_version() -> str:
    """The running version of costhub.

    Example:
        >>> costhub_version().split(".")[0].isdigit()
        True
    """
    return __version__


def installed_versions() -> dict[str, str]:
    """The versions of Python and of the packages that results depend on, by import name.

    Reads the installed metadata, so nothing heavy is imported. Packages that are not installed are left out.

    Example:
        >>> sorted(installed_versions())
        ['numpy', 'python', 'torch', 'tvm', 'tvm_ffi', 'xgboost']
    """
    versions = {"python": platform.python_version()}
    for name, distributions in _DISTRIBUTIONS.items():
        version = _first_installed(distributions)
        if version is not None:
            versions[name] = version
    return versions


def load_pandas() -> Any:
    """The package pandas, which only tables for people need.

    Raises:
        CosthubError: It is not installed.
    """
    try:
        return import_module("pandas")
    except ImportError as error:
        raise CosthubError("pandas is not installed: `pip install 'costhub[datasets]'` installs it.") from error


def _first_installed(distributions: tuple[str, ...]) -> str | None:
    for distribution in distributions:
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None
