"""The errors costhub raises: each message says what happened, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


class CosthubError(Exception):
    """Base class of every error raised on purpose; the command line prints it as one sentence."""

    exit_code = 1
    """Exit code of the command line: 1 if the work failed, 2 if a name or an input is wrong."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Supports errors from child processes: a copy has the same message and attributes."""
        return _restored, (type(self), str(self), self.__dict__)


class ArgumentError(CosthubError):
    """An argument has a value that cannot be used, regardless of the machine and its files."""

    exit_code = 2


class DataError(CosthubError):
    """A shard, table or folder cannot be read as costhub data."""

    exit_code = 2


class ModelError(CosthubError):
    """A model folder is incomplete, or its contents do not match its configuration."""

    exit_code = 2


class HubError(CosthubError):
    """A hub cannot be reached, or does not accept what was sent."""


class RefusedError(CosthubError):
    """Something is not fit for a hub: it breaks a rule, or no one consented to it."""


class ScoreError(CosthubError):
    """A cost model returned scores that no search can use (NaN or infinite)."""


class WorkloadError(CosthubError):
    """TVM cannot build a design space for the workload, or its file is not a workload."""

    exit_code = 2


class NetworkError(CosthubError):
    """A tuned network cannot be compiled as a whole, or does not compute what it should."""


class MeasureError(CosthubError):
    """Building or running programs failed entirely, not just for one program."""


class DeviceError(CosthubError):
    """The named device is not this machine, or cannot be measured from it."""

    exit_code = 2


class UnknownNameError(CosthubError):
    """A name matches nothing known; the message lists similar names."""

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
        """Says what is missing, and what exists.

        Args:
            kind: The kind of thing it should name, such as `device`.
            name: The name.
            close: Known names that may have been meant.
            listing: The command that lists all names: "`costhub devices`".
            known: All names, if they are few; they are listed if none is close.
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
    """A name matches several things; the message lists them."""

    exit_code = 2

    def __init__(self, kind: str, name: str, candidates: Sequence[str]) -> None:
        self.name = name
        self.candidates = tuple(candidates)
        super().__init__(
            f"{name!r} fits more than one {kind}: {', '.join(candidates)}. Give one of these names in full."
        )


def either(names: Sequence[str], word: str = "or") -> str:
    """Joins names for use in a sentence.

    Example:
        >>> either(["a", "b", "c"]), either(["a", "b"], "and"), either(["a"])
        ('a, b or c', 'a and b', 'a')
    """
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


@contextmanager
def failing_as(kind: type[CosthubError], what: str) -> Iterator[None]:
    """Turns any error of code that is not costhub's into a sentence; costhub's own errors stay what they are.

    Args:
        kind: The class of the error that is raised instead.
        what: What failed, as the beginning of the sentence: "`predict` of Mine".

    Example:
        >>> with failing_as(ModelError, "`predict` of Mine"):
        ...     1 / 0
        Traceback (most recent call last):
        costhub.errors.ModelError: `predict` of Mine failed (ZeroDivisionError: division by zero). ...
    """
    try:
        yield
    except CosthubError:
        raise
    except Exception as error:
        raise kind(
            f"{what} failed ({class_and_line(error):.300}). The traceback shows where; on the command line, "
            "`costhub --debug` prints it."
        ) from error


def _restored(kind: type[CosthubError], message: str, attributes: Mapping[str, Any]) -> CosthubError:
    error = kind.__new__(kind)
    error.args = (message,)
    error.__dict__.update(attributes)
    return error


def first_line(error: BaseException) -> str:
    """The first line of an error's message, where Arrow puts the reason; its class if it has no message.

    Example:
        >>> first_line(OSError("no such column")), first_line(KeyError())
        ('no such column', 'KeyError')
    """
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__


def last_line(error: BaseException) -> str:
    """The last line of an error's message, where TVM puts the reason; its class if it has no message.

    Example:
        >>> last_line(ValueError("no such block")), last_line(KeyError())
        ('no such block', 'KeyError')
    """
    lines = str(error).strip().splitlines()
    return lines[-1][:300] if lines else type(error).__name__


def class_and_line(error: BaseException) -> str:
    r"""The class of an error and the last line of its message, for a sentence that must be short.

    Example:
        >>> class_and_line(ValueError("line 3:\nno such block"))
        'ValueError: no such block'
    """
    return f"{type(error).__name__}: {last_line(error)}"


def class_and_end(error: BaseException) -> str:
    """The class of an error and the end of its message, with which a child process reports what went wrong.

    TVM ends its messages with the reason; the frames above it differ between machines.

    Example:
        >>> class_and_end(ValueError("no such block")), class_and_end(KeyError())
        ('ValueError: no such block', 'KeyError: KeyError')
    """
    text = str(error).strip() or type(error).__name__
    return f"{type(error).__name__}: {text[-1000:]}"
