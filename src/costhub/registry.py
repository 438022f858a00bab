"""Provides Registry: implementations by name, costhub's own and those added by installed packages."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from costhub.errors import CosthubError, UnknownNameError, class_and_line
from costhub.names import close_names

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]*")
"""Entry points with other names are ignored: no one could type them, and a terminal might interpret them."""


class Registry(Mapping[str, T], Generic[T]):
    """A mapping of names to implementations: costhub's own first, then those of installed packages by name.

    A package adds an implementation with an entry point, in its own pyproject.toml:

        [project.entry-points."costhub.methods"]
        my-method = "my_package.my_module:MyMethod"

    Entry points are looked up once, when a name that is not costhub's own, or all names, are first requested.
    An implementation is imported when its name is requested.

    Args:
        kind: What the names refer to, for messages, such as `method`.
        core: costhub's own, by name. A string `module:attribute` refers to that attribute.
        group: The group of the entry points: `costhub.methods`.
        listing: The command that lists the names, for messages: "`costhub adapt --help`".

    Example:
        >>> core = {"red": "string:ascii_letters", "blue": 2}
        >>> colours = Registry("colour", core, group="demo.colours", listing="`paint --help`")
        >>> list(colours), colours["blue"], colours.find("red")[:3]
        (['red', 'blue'], 2, 'abc')
    """

    def __init__(self, kind: str, core: Mapping[str, T | str], *, group: str, listing: str) -> None:
        self.kind = kind
        self.group = group
        self.listing = listing
        self._core = dict(core)

    def find(self, name: str) -> T:
        """Finds the implementation for a name typed by a person.

        Raises:
            UnknownNameError: Nothing has this name; the message lists similar names.
            CosthubError: A package adds the name, but cannot be loaded; or packages contradict each other.
        """
        self.check(name)
        return self[name]

    def check(self, name: str) -> None:
        """Rejects an unknown name, without importing anything.

        Raises:
            UnknownNameError: Nothing has this name; the message lists similar names.
            CosthubError: Packages contradict each other.
        """
        if name not in self:
            raise UnknownNameError(self.kind, name, close_names(name, tuple(self)), self.listing, tuple(self))

    def is_own(self, name: str) -> bool:
        """Whether a name is costhub's own, not that of another package."""
        return name in self._core

    def __getitem__(self, name: str) -> T:
        if name not in self._core:
            return self._load(self._added[name])
        found = self._core[name]
        if not isinstance(found, str):
            return found
        module, _, attribute = found.partition(":")
        return cast(T, getattr(import_module(module), attribute))

    def __iter__(self) -> Iterator[str]:
        return iter((*self._core, *sorted(self._added)))

    def __len__(self) -> int:
        return len(self._core) + len(self._added)

    def __contains__(self, name: object) -> bool:
        return name in self._core or name in self._added  # The mixin's version would import the implementation.

    @functools.cached_property
    def _added(self) -> dict[str, EntryPoint]:
        """Name -> entry point.

        Raises:
            CosthubError: Two packages add the same name, or one adds a name of costhub's own.
        """
        added: dict[str, EntryPoint] = {}
        for point in entry_points(group=self.group):
            if not _NAME.fullmatch(point.name):
                continue
            if point.name in self._core or point.name in added:
                rival = _package(added[point.name]) if point.name in added else "costhub"
                raise CosthubError(
                    f"The {self.kind} {point.name!r} comes from {rival} and from {_package(point)}. Remove "
                    "one of these packages, or rename its entry point."
                )
            added[point.name] = point
        return added

    def _load(self, point: EntryPoint) -> T:
        try:
            return cast(T, point.load())
        except (Exception, SystemExit) as error:  # the code of another package may raise anything
            raise CosthubError(
                f"The {self.kind} {point.name!r} of {_package(point)} cannot be loaded "
                f"({class_and_line(error)}). Update or remove that package."
            ) from error


def _package(point: EntryPoint) -> str:
    """The name of the package that an entry point comes from; its value if that is unknown."""
    return point.dist.name if point.dist is not None else point.value
