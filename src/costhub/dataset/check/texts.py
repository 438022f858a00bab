"""Provides the rules on columns of text: size, control characters, licence, versions and personal data."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.measurements import Mask, RowRule, Rows, TableRule
from costhub.dataset.schema import HUB_LICENCES, MOST_TARGET_BYTES, columns_of
from costhub.versions import costhub_version

MOST_TEXT_BYTES = {"trace": 1 << 20, "target": MOST_TARGET_BYTES, "error": 16 << 10}
"""The longest trace seen so far has 4 kB, the longest error text that the collector keeps 1 kB."""
MOST_NAME_BYTES = 256
MOST_REPEATS = 10_000
MOST_ENTRY_BYTES = {"module_json": 32 << 20, "shapes": 64 << 10, "target": MOST_TARGET_BYTES, "probe_method": 16 << 10}
MOST_ITEMS = 10_000
TEXT_COLUMNS = tuple(c.name for c in columns_of("measurements") if c.type == pa.string())
# Terminals interpret the escape character and its relatives above 127; the others reverse or hide what follows.
_UNSEEN = r"\x7f-\x9f" + "\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff"
# Tab and newline are fine in an error text.
_CONTROL = rf"[\x00-\x08\x0b\x0c\x0e-\x1f{_UNSEEN}]"
_ANY_CONTROL = rf"[\x00-\x1f{_UNSEEN}]"
_IN_A_NAME = re.compile(_ANY_CONTROL)
_JSON_COLUMNS = frozenset({"module_json", "shapes", "target"})
_VERSION_NUMBER = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:[.+-]?[a-z0-9][a-z0-9.+-]*)?", re.IGNORECASE)
PERSONAL_COLUMNS = (
    *("error", "session", "contributor", "proposed_by", "licence", "target"),
    *("board", "governor", "cpu_affinity"),
    *("tvm_version", "compiler_version", "driver_version", "costhub_version"),
)
_VERSION_COLUMNS = frozenset({"tvm_version", "compiler_version", "driver_version", "costhub_version", "driver"})
"""Columns in which four dotted numbers are a version, not an address."""
_NOT_PERSONAL = frozenset({"conda", "runner", "ubuntu", "user", "builder", "nobody"})
"""Home folders on build machines and in images; they reveal nothing about a person."""
# All lengths are bounded, or a long untrusted text would take quadratic time.
# A local domain, or a machine with a number within a domain: gpu03.cs.example.edu.
_LOCAL = r"[\w-]{1,63}(?:\.[\w-]{1,63}){0,9}\.(?:local|localdomain|lan|internal|intranet|corp|home\.arpa)"
_NUMBERED = r"[a-z][\w-]{0,62}\d[\w-]{0,62}(?:\.[a-z][\w-]{0,62}){1,9}\.(?:com|net|org|edu|gov|cloud|[a-z]{2})"
_HOST = re.compile(rf"(?<![\w./-])(?:{_LOCAL}|{_NUMBERED})(?![\w.-])|\bhostname\s*[=:]\s*[\w-]+", re.IGNORECASE)
_HOME = re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\+(?:Users|Documents and Settings)\\+)([\w.-]+)")
_AT = re.compile(r"(?<![\w.@+-])[\w.+-]{1,64}@([\w-]{1,63}(?:\.[\w-]{1,63}){0,9})")
# Versioned symbols of ELF files look like an account: memcpy@GLIBC_2.14, puts@plt.
_SYMBOL = re.compile(r"plt|got|GLIBC|GLIBCXX|CXXABI|OPENMP|LLVM|GCC|lib", re.IGNORECASE)
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)")
_IPV6 = re.compile(r"(?<![\w:])(?=[0-9a-f:.]{0,45}\d)[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?![\w:])", re.IGNORECASE)
_MAC = re.compile(r"(?<![\w:])[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}(?![\w:])", re.IGNORECASE)
_URL = re.compile(r"https?://[\w./?&=%#~:+-]+")
_COARSE = r"@|(?i:/home/|/users/|\\users\\|\\documents and|hostname)|\w\.\w|[0-9A-Fa-f:][:-][0-9A-Fa-f]{0,4}[:-]"
"""Characters required by any of the patterns above, for a fast first pass over a whole column."""
_NAMES_FIX = "Write the name without escape sequences and invisible characters."
_FIX = "Remove it from the text; costhub needs no names of people, accounts, folders or machines."


def oversized_texts(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds values far too long for their column."""
    for name in TEXT_COLUMNS:
        most = MOST_TEXT_BYTES.get(name, MOST_NAME_BYTES)
        size = pc.binary_length(rows.column(name))
        yield f"{name} is longer than {most:,} bytes.", rows.where(pc.greater(size, most))
    yield f"run_s has more than {MOST_REPEATS:,} repeats.", rows.repeats > MOST_REPEATS


def control_characters(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds characters in error texts that a terminal may interpret."""
    yield "error holds control characters.", rows.where(pc.match_substring_regex(rows.column("error"), _CONTROL))


def control_in_names(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds characters that do not belong in names."""
    for name in TEXT_COLUMNS:
        if name != "error":
            matches = rows.where(pc.match_substring_regex(rows.column(name), _ANY_CONTROL))
            yield f"{name} holds control characters.", matches


def control_in_entries(row: dict[str, Any]) -> Iterator[str]:
    """Finds devices and workloads with characters that do not belong in names."""
    for name, text in _texts(row):
        if name not in _JSON_COLUMNS and _IN_A_NAME.search(text):
            yield f"{name} holds control characters."


def _texts(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every text of a device or workload, with its column."""
    for name, value in row.items():
        for text in value if isinstance(value, list) else [value]:
            plain = text.get("name") if isinstance(text, dict) else text
            if isinstance(plain, str):
                yield name, plain


def empty_names(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds empty ids."""
    empty = np.zeros(rows.n, bool)
    for name in ("record_id", "program_id", "proposed_by"):
        empty |= rows.where(pc.equal(pc.binary_length(rows.column(name)), 0))
    yield "record_id, program_id or proposed_by is empty.", empty


def oversized_entries(row: dict[str, Any]) -> Iterator[str]:
    """Finds values of devices and workloads that are far too long for their column."""
    for name, text in _texts(row):
        most = MOST_ENTRY_BYTES.get(name, MOST_NAME_BYTES)
        if len(text) > most:
            yield f"{name} is longer than {most:,} characters."
    for name, value in row.items():
        if isinstance(value, list) and len(value) > MOST_ITEMS:
            yield f"{name} has more than {MOST_ITEMS:,} entries."


def missing_licence(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds rows without a licence, which nobody may use, or with one that hubs do not accept."""
    licences = rows.column("licence")
    named = rows.where(pc.match_substring_regex(licences, r"\S"))
    yield "licence is missing; an SPDX name such as CC-BY-4.0 was expected.", ~named
    known = rows.where(pc.is_in(pc.utf8_lower(licences), value_set=pa.array(sorted(HUB_LICENCES))))
    yield f"licence is none that hubs take ({', '.join(sorted(HUB_LICENCES))}).", named & ~known


def unknown_versions(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds rows of a newer costhub, or with a text that is not a version."""
    here = _release(costhub_version())
    released = {text: _release(text) for text in pc.unique(rows.column("costhub_version")).to_pylist() if text}
    newer = {text for text, release in released.items() if release and here and release > here}
    unknown = {text for text, release in released.items() if release is None}
    texts = rows.texts("costhub_version")
    yield (
        "costhub_version is newer than this costhub.",
        np.array([t in newer for t in texts], bool),
    )
    yield "costhub_version is not a version.", np.array([t in unknown for t in texts], bool)


def _release(text: str) -> tuple[int, ...] | None:
    match = _VERSION_NUMBER.fullmatch(text)
    return tuple(int(part or 0) for part in match.groups()) if match else None


def personal_data(text: str, *, is_version: bool = False) -> list[str]:
    """Names the kinds of personal data in a text.

    Args:
        text: Any text.
        is_version: Whether four dotted numbers in it are a version.

    Example:
        >>> personal_data("cannot open /home/ada/run.log"), personal_data("std::bad_alloc in tvm.tirx at 12:30:01")
        (['a home folder'], [])
    """
    text = _URL.sub(" ", text)
    kinds = {
        "a home folder": any(m[1].casefold() not in _NOT_PERSONAL for m in _HOME.finditer(text)),
        "an e-mail address or account": any(not _SYMBOL.match(m[1]) for m in _AT.finditer(text)),
        "a network address": _has_address(text, is_version=is_version),
        "the name of a machine": _HOST.search(text) is not None,
    }
    return [kind for kind, is_there in kinds.items() if is_there]


def _has_address(text: str, *, is_version: bool) -> bool:
    candidates = [m[0] for m in _IPV6.finditer(text)] + ([] if is_version else [m[0] for m in _IPV4.finditer(text)])
    return _MAC.search(text) is not None or any(map(_is_address, candidates))


def _is_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    # The local machine, and no machine.
    return not (address.is_loopback or address.is_unspecified)


def personal_rows(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds measurements with personal data in a text."""
    for name in PERSONAL_COLUMNS:
        suspects = rows.where(pc.match_substring_regex(rows.column(name), _COARSE))
        if not suspects.any():
            continue
        texts = rows.column(name).filter(pa.array(suspects))
        kinds = {t: personal_data(t, is_version=name in _VERSION_COLUMNS) for t in pc.unique(texts).to_pylist()}
        for kind in sorted({kind for kinds_found in kinds.values() for kind in kinds_found}):
            mask = np.zeros(rows.n, bool)
            mask[suspects] = [kind in kinds[text] for text in texts.to_pylist()]
            yield f"{name} holds {kind}.", mask


def personal_entries(row: dict[str, Any]) -> Iterator[str]:
    """Finds devices and workloads with personal data in a text."""
    for name, text in _texts(row):
        if name not in _JSON_COLUMNS:
            for kind in personal_data(text, is_version=name in _VERSION_COLUMNS):
                yield f"{name} holds {kind}."


TEXT_RULES = (
    RowRule(
        id="CH045",
        title="no text is far longer than its column is for",
        severity="error",
        fix="Cut error texts to their end; shorten names; drop rows whose trace is that long.",
        find=oversized_texts,
    ),
    RowRule(
        id="CH046",
        title="error texts hold no control characters",
        severity="warning",
        fix="Remove colours and other escape sequences from the text.",
        find=control_characters,
    ),
    RowRule(
        id="CH057",
        title="no name, version or trace of a measurement holds control characters",
        severity="error",
        fix=_NAMES_FIX,
        find=control_in_names,
    ),
    TableRule(
        id="CH058",
        title="no text of a device or workload holds control characters",
        severity="error",
        fix=_NAMES_FIX,
        tables=("devices", "workloads"),
        find=control_in_entries,
    ),
    RowRule(
        id="CH047",
        title="names are not empty",
        severity="error",
        fix="Give every row its ids, and say who proposed it ('unknown' if nobody knows).",
        find=empty_names,
    ),
    TableRule(
        id="CH052",
        title="no text of a device or workload is far longer than its column is for",
        severity="error",
        fix="Shorten it.",
        tables=("devices", "workloads"),
        find=oversized_entries,
    ),
    RowRule(
        id="CH048",
        title="every row has a licence that hubs take",
        severity="warning",
        fix="Import or collect again into a new folder, with --licence: a row keeps the one that it has.",
        find=missing_licence,
    ),
    RowRule(
        id="CH049",
        title="the version of costhub that wrote a row is known",
        severity="warning",
        fix="Upgrade costhub and check again: newer rows may keep other rules.",
        find=unknown_versions,
    ),
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
