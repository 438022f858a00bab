"""Provides Shares: where the next programs come from, and how much from each place."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, fields

from costhub.errors import MeasureError

EXAMPLE = "random=0.5,mutation=0.3,model=0.2"


@dataclass(frozen=True)
class Shares:
    """What part of the programs comes from each source; the parts sum to 1.

    Raises:
        MeasureError: A part is negative, or they do not sum to 1.
    """

    random: float = 0.5
    """Drawn from the design space."""
    mutation: float = 0.5
    """The best measured so far, changed in one to three places."""
    model: float = 0.0
    """What a cost model picks from a pool of both."""

    def __post_init__(self) -> None:
        parts = astuple(self)
        if not (all(0 <= part <= 1 for part in parts) and math.isclose(sum(parts), 1, abs_tol=1e-6)):
            raise MeasureError(
                f"The shares {_text(self)} must lie between 0 and 1 and sum to 1, as in {EXAMPLE}."
            )

    @classmethod
    def parse(cls, text: str) -> Shares:
        """The shares in `text`; a source that it leaves out has none.

        Raises:
            MeasureError: `text` is not of that form, or the shares are not valid.

        Example:
            >>> Shares.parse("random=0.8,model=0.2")
            Shares(random=0.8, mutation=0.0, model=0.2)
        """
        parts = {field.name: 0.0 for field in fields(cls)}
        named = [pair.partition("=") for pair in text.split(",")]
        if len({name.strip() for name, _, _ in named}) < len(named):
            raise MeasureError(f"The shares {text!r} name one source twice; write for example {EXAMPLE}.")
        for name, _, value in named:
            try:
                parts[name.strip()] += float(value)
            except (KeyError, ValueError):
                raise MeasureError(
                    f"The shares {text!r} are not of the form {EXAMPLE}: {name.strip()!r} is not a source "
                    f"({', '.join(parts)}) with a number."
                ) from None
        return cls(**parts)


class Turns:
    """Splits one request for programs after another, so that all of them together keep the shares.

    Example:
        >>> turns = Turns()
        >>> [turns.take(1, Shares(random=0.5, mutation=0.25, model=0.25)) for _ in range(4)]
        [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0)]
    """

    def __init__(self) -> None:
        self._owed = [0.0, 0.0, 0.0]

    def take(self, count: int, shares: Shares) -> tuple[int, int, int]:
        """How many of the next `count` programs are (random, mutation, model)."""
        taken = [0, 0, 0]
        parts = astuple(shares)
        for _ in range(count):
            self._owed = [owed + part for owed, part in zip(self._owed, parts, strict=True)]
            # Only sources that have a share: one may still be owed from before the shares changed.
            turn = max((i for i in range(3) if parts[i]), key=lambda i: self._owed[i])
            self._owed[turn] -= 1
            taken[turn] += 1
        return taken[0], taken[1], taken[2]


def _text(shares: Shares) -> str:
    return ",".join(f"{field.name}={getattr(shares, field.name):g}" for field in fields(shares))
