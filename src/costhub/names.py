"""Provides close_names, suggestions for a mistyped name, and checks of names; and names shared by several stages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from costhub.errors import ArgumentError, DataError, WorkloadError

EMULATOR = "emulator"
"""The vendor of an emulated CPU: measurements there are of the emulation."""
_PART = 3
"""The fewest letters by which a name is found in longer ones; fewer are in too many of them."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def close_names(name: str, known: Sequence[str], *, most: int = 3) -> list[str]:
    """The known names closest to `name`, best first; empty if none is close.

    Names that contain it come first, the shortest ones before: it is a part that somebody remembers.

    Example:
        >>> close_names("resnet81", ["resnet18", "matmul"]), close_names("xeon", ["zen5", "intel-xeon-icelake"])
        (['resnet18'], ['intel-xeon-icelake', 'zen5'])
    """
    meant, folded = name.casefold(), {k.casefold(): k for k in known}
    # In the order that difflib gives them: zen5 before zen4.
    around = sorted((k for k in sorted(folded, reverse=True) if meant in k), key=len) if len(meant) >= _PART else []
    similar = difflib.get_close_matches(meant, list(folded), n=most, cutoff=0.5)
    return [folded[c] for c in dict.fromkeys([*around, *similar])][:most]


def check_different(names: Sequence[str]) -> None:
    """Refuses two workloads of one name, under which their results would be confused.

    Raises:
        WorkloadError: Two have the same name.
    """
    if len(set(names)) < len(names):
        name = max(names, key=names.count)
        raise WorkloadError(
            f"Each workload is taken once, but two are called {name}. Name each one once, or rename one of "
            "two files; in Python, a dictionary gives each module a name of its own."
        )


def refuse_text(names: object, subject: str) -> None:
    """Refuses one text where a sequence of names is meant: its letters would be taken for names.

    Args:
        names: What should be a sequence.
        subject: The beginning of the sentence that refuses it.

    Raises:
        ArgumentError: It is a text.

    Example:
        >>> refuse_text("openvino", "The engines are")
        Traceback (most recent call last):
        costhub.errors.ArgumentError: The engines are a sequence of names, not a text: ('openvino',).
    """
    if isinstance(names, str):
        raise ArgumentError(f"{subject} a sequence of names, not a text: ({names!r},).")


def is_plain_name(value: object, *, most: int | None = None) -> bool:
    """Whether it can name a device, an architecture, a split or the folder of one.

    Such a name consists of letters, digits and `._+-`, and begins with a letter or digit.

    Args:
        value: Anything.
        most: The most characters; any number by default.

    Example:
        >>> is_plain_name("zen5-2c"), is_plain_name("../zen5"), is_plain_name("zen5-2c", most=6), is_plain_name(5)
        (True, False, False, False)
    """
    return isinstance(value, str) and _PLAIN.fullmatch(value) is not None and (most is None or len(value) <= most)


def refuse_device_name(device_id: str) -> None:
    """Refuses an id of a device under which no command would find its measurements.

    Raises:
        DataError: It is not a plain name.

    Example:
        >>> refuse_device_name("amd-epyc-zen5-2c")
    """
    if not is_plain_name(device_id):
        raise DataError(
            f"{device_id!r:.99} cannot name a device. Use letters, digits and `._+-`, beginning with a letter or digit."
        )
