"""Provides the rules on personal data: free text names no person's home, account, address or machine."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.rows import Rows
from costhub.dataset.check.rule import Mask, RowRule, TableRule

COLUMNS = (
    *("error", "session", "contributor", "proposed_by", "licence", "target"),
    *("board", "governor", "cpu_affinity"),
    *("tvm_version", "compiler_version", "driver_version", "costhub_version"),
)
_VERSIONS = frozenset({"tvm_version", "compiler_version", "driver_version", "costhub_version", "driver"})
"""Four numbers with dots are a version there, and no address."""
_NOT_PERSONAL = frozenset({"conda", "runner", "ubuntu", "user", "builder", "nobody"})
"""Homes that build machines and images have; they tell nothing of a person."""
# All lengths are bounded, or a long text of a stranger would take as long as its square.
# A local domain, or a machine with a number within a domain: gpu03.cs.example.edu.
_LOCAL = r"[\w-]{1,63}(?:\.[\w-]{1,63}){0,9}\.(?:local|localdomain|lan|internal|intranet|corp|home\.arpa)"
_NUMBERED = (
    r"[a-z][\w-]{0,62}\d[\w-]{0,62}(?:\.[a-z][\w-]{0,62}){1,9}\.(?:com|net|org|edu|gov|cloud|[a-z]{2})"
)
_HOST = re.compile(
    rf"(?<![\w./-])(?:{_LOCAL}|{_NUMBERED})(?![\w.-])|\bhostname\s*[=:]\s*[\w-]+", re.IGNORECASE
)
_HOME = re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\+(?:Users|Documents and Settings)\\+)([\w.-]+)")
_AT = re.compile(r"(?<![\w.@+-])[\w.+-]{1,64}@([\w-]{1,63}(?:\.[\w-]{1,63}){0,9})")
# Versioned symbols of ELF files look like an account: memcpy@GLIBC_2.14, puts@plt.
_SYMBOL = re.compile(r"plt|got|GLIBC|GLIBCXX|CXXABI|OPENMP|LLVM|GCC|lib", re.IGNORECASE)
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)")
_IPV6 = re.compile(
    r"(?<![\w:])(?=[0-9a-f:.]{0,45}\d)[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?![\w:])", re.IGNORECASE
)
_MAC = re.compile(r"(?<![\w:])[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}(?![\w:])", re.IGNORECASE)
_URL = re.compile(r"https?://[\w./?&=%#~:+-]+")
_COARSE = (
    r"@|(?i:/home/|/users/|\\users\\|\\documents and|hostname)|\w\.\w|[0-9A-Fa-f:][:-][0-9A-Fa-f]{0,4}[:-]"
)
"""What any of the above needs, for a fast first look over a whole column."""


def kinds(text: str, *, is_version: bool = False) -> list[str]:
    """Names the kinds of personal data in a text.

    Args:
        text: Any text.
        is_version: Four numbers with dots are a version in it.

    Example:
        >>> kinds("cannot open /home/ada/run.log"), kinds("std::bad_alloc in tvm.tirx at 12:30:01")
        (['a home folder'], [])
    """
    text = _URL.sub(" ", text)
    found = {
        "a home folder": any(m[1].casefold() not in _NOT_PERSONAL for m in _HOME.finditer(text)),
        "an e-mail address or account": any(not _SYMBOL.match(m[1]) for m in _AT.finditer(text)),
        "a network address": _has_address(text, is_version=is_version),
        "the name of a machine": _HOST.search(text) is not None,
    }
    return [kind for kind, is_there in found.items() if is_there]


def _has_address(text: str, *, is_version: bool) -> bool:
    candidates = [m[0] for m in _IPV6.finditer(text)] + (
        [] if is_version else [m[0] for m in _IPV4.finditer(text)]
    )
    return _MAC.search(text) is not None or any(map(_is_address, candidates))


def _is_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    # This machine itself, and no machine.
    return not (address.is_loopback or address.is_unspecified)


def personal_rows(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds measurements with personal data in a text."""
    for name in COLUMNS:
        suspects = rows.where(pc.match_substring_regex(rows.column(name), _COARSE))
        if not suspects.any():
            continue
        texts = rows.column(name).filter(pa.array(suspects))
        found = {t: kinds(t, is_version=name in _VERSIONS) for t in pc.unique(texts).to_pylist()}
        for kind in sorted({kind for kinds_found in found.values() for kind in kinds_found}):
            mask = np.zeros(rows.n, bool)
            mask[suspects] = [kind in found[text] for text in texts.to_pylist()]
            yield f"{name} holds {kind}.", mask


def personal_entries(row: dict[str, Any]) -> Iterator[str]:
    """Finds devices and workloads with personal data in a text."""
    for name, value in row.items():
        if name in {"module_json", "shapes", "target"}:
            continue
        for text in value if isinstance(value, list) else [value]:
            plain = text.get("name") if isinstance(text, dict) else text
            if isinstance(plain, str):
                for kind in kinds(plain, is_version=name in _VERSIONS):
                    yield f"{name} holds {kind}."


_FIX = "Remove it from the text; costhub needs no names of people, accounts, folders or machines."
RULES = (
    RowRule(
        id="CH050",
        title="no text of a measurement holds personal data",
        severity="error",
        fix=_FIX,
        find=personal_rows,
    ),
    TableRule(
        id="CH051",
        title="no text of a device or workload holds personal data",
        severity="error",
        fix=_FIX,
        tables=("devices", "workloads"),
        find=personal_entries,
    ),
)
