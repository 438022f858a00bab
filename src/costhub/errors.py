"""The errors costhub raises: each message says what happened, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class CosthubError(Exception):
    """Base of every error raised on purpose; the command line prints it as one sentence."""

    exit_code = 1
    """What the command line exits with: 1 where the work failed, 2 where a name or an input is wrong."""

    def __reduce__(self) -> tuple[Any, ...]:
        """For errors of child processes: a copy has the same message and attributes."""
        return _restored, (type(self), str(self), self.__dict__)


class ArgumentError(CosthubError):
    """An argument has a value that cannot be used, whatever the machine and its files."""

    exit_code = 2


class DataError(CosthubError):
    """A shard, table or folder cannot be read as costhub data."""

    exit_code = 2


class ModelError(CosthubError):
    """A model folder is incomplete, or holds something other than its configuration says."""

    exit_code = 2


class HubError(CosthubError):
    """A hub cannot be reached, or does not take what it was given."""


class RefusedError(CosthubError):
    """Something is not fit to go to a hub: it breaks a rule, or nobody agreed to it."""


class ScoreError(CosthubError):
    """A cost model returned scores that no search can use (NaN or infinite)."""


class WorkloadError(CosthubError):
    """TVM cannot build a design space for the workload, or its file is not a workload."""

    exit_code = 2


class NetworkError(CosthubError):
    """A tuned network cannot be compiled as a whole, or computes something else than it should."""


class MeasureError(CosthubError):
    """Building or running programs failed as a whole, not for one program."""


class DeviceError(CosthubError):
    """The device named is not this machine, or cannot be measured from it."""

    exit_code = 2


class UnknownNameError(CosthubError):
    """A name fits nothing that is known; the message lists the close ones."""

    exit_code = 2

    def __init__(
        self,
        kind: str,
        name: str,
        close: Sequence[str],
        listing: str,
        known: Sequence[str] = (),
        *,
        advice: str = "",
    ) -> None:
        """Says what is not there, and what is.

        Args:
            kind: What it should be: `device`.
            name: The name.
            close: Known names that it may be a slip of.
            listing: What lists all names: "`costhub devices`".
            known: All names, if they are few; they are listed where none is close.
            advice: A sentence on what to do if the name is none of these.
        """
        self.name = name
        self.close = tuple(close)
        if close:
            hint = f"Did you mean {either(close)}? {listing} lists what there is."
        elif known:
            hint = f"There {'is' if len(known) == 1 else 'are'} {either(known, 'and')}."
        else:
            hint = f"Nothing is close to it. {listing} lists what there is."
        super().__init__(f"There is no {kind} named {name!r}. {hint} {advice}".rstrip())


class AmbiguousNameError(CosthubError):
    """A name fits several things; the message lists them."""

    exit_code = 2

    def __init__(self, kind: str, name: str, candidates: Sequence[str]) -> None:
        self.name = name
        self.candidates = tuple(candidates)
        super().__init__(
            f"{name!r} fits more than one {kind}: {', '.join(candidates)}. Give one of these names in full."
        )


def either(names: Sequence[str], word: str = "or") -> str:
    """Names in a sentence.

    Example:
        >>> either(["a", "b", "c"]), either(["a", "b"], "and"), either(["a"])
        ('a, b or c', 'a and b', 'a')
    """
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


def _restored(kind: type[CosthubError], message: str, attributes: Mapping[str, Any]) -> CosthubError:
    error = kind.__new__(kind)
    error.args = (message,)
    error.__dict__.update(attributes)
    return error


def first_line(error: BaseException) -> str:
    """The first line of an error's message, where Arrow puts the reason; its class where it has no message.

    Example:
        >>> first_line(OSError("no such column")), first_line(KeyError())
        ('no such column', 'KeyError')
    """
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__


def last_line(error: BaseException) -> str:
    """The last line of an error's message, where TVM puts the reason; its class where it has no message.

    Example:
        >>> last_line(ValueError("no such block")), last_line(KeyError())
        ('no such block', 'KeyError')
    """
    lines = str(error).strip().splitlines()
    return lines[-1][:300] if lines else type(error).__name__


def class_and_line(error: BaseException) -> str:
    r"""The class of an error and the last line of its message, for a sentence that has to be short.

    Example:
        >>> class_and_line(ValueError("line 3:\nno such block"))
        'ValueError: no such block'
    """
    return f"{type(error).__name__}: {last_line(error)}"


def class_and_end(error: BaseException) -> str:
    """The class of an error and the end of its message, with which a child process tells what went wrong.

    TVM ends its messages with the reason; the frames above it differ between machines.

    Example:
        >>> class_and_end(ValueError("no such block")), class_and_end(KeyError())
        ('ValueError: no such block', 'KeyError: KeyError')
    """
    text = str(error).strip() or type(error).__name__
    return f"{type(error).__name__}: {text[-1000:]}"
