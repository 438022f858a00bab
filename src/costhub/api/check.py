"""Provides check: tests data or a model against every rule, as a hub does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, overload

from costhub.dataset.check.rule import Finding
from costhub.terminal_text import Printed, counted
from costhub.versions import load_pandas

_PLACES_SHOWN = 5


@dataclass(frozen=True, repr=False)
class Findings(Sequence[Finding], Printed):
    """The findings of a check; `print` shows them by rule, with what to do."""

    folder: Path
    found: tuple[Finding, ...]
    model: str | None = None
    """Description of the model if the folder holds a sound one; None for data."""

    @property
    def errors(self) -> int:
        """Number of findings that make data wrong or unsafe; the others are warnings."""
        return sum(finding.severity == "error" for finding in self.found)

    @overload
    def __getitem__(self, place: int) -> Finding: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, place: int | slice) -> Finding | tuple[Finding, ...]:
        """One finding, or several."""
        return self.found[place]

    def __len__(self) -> int:
        return len(self.found)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per finding."""
        columns = ("rule", "severity", "where", "message", "fix", "rows")
        return load_pandas().DataFrame([asdict(finding) for finding in self.found], columns=columns)

    def __str__(self) -> str:
        return self.shown()

    def shown(self, *, strict: bool = False) -> str:
        """The findings as text; the last line counts errors and warnings.

        Args:
            strict: Whether warnings count as errors; if there are any, the last line says so.
        """
        if self.model is not None:
            return f"{self.folder}: a sound {self.model}."
        warnings = len(self) - self.errors
        line = f"{self.folder}: {_count(self.errors, 'error')}, {_count(warnings, 'warning')}."
        if strict and warnings:
            line += " Under --strict, warnings count as errors."
        return "\n".join([*self._lines(), line])

    def _lines(self) -> Iterator[str]:
        """The findings by rule: its title, the first places, and the remedy."""
        from costhub.dataset.check.rules import RULES

        for rule_id, group in groupby(self.found, key=lambda finding: finding.rule):
            rule, places = RULES[rule_id], list(group)
            yield f"{rule.id} {rule.severity}: {rule.title}"
            for finding in places[:_PLACES_SHOWN]:
                yield f"  {finding.where}"
                yield f"    {finding.message}"
            if len(places) > _PLACES_SHOWN:
                yield f"  ... and {len(places) - _PLACES_SHOWN} more; --json lists them all"
            yield f"  To do: {rule.fix}"
            yield ""


def check(where: str | Path, *, deep: bool = False, progress: bool = True) -> Findings:
    """Checks data against every rule, or a model folder as a hub does.

    Files are opened in a child process with limits, so one that crashes it becomes a finding and does no harm.

    Args:
        where: A model folder, or data, as for `costhub.load_programs`.
        deep: Also load every module into TVM and replay a sample of the traces.
        progress: Show a progress bar on a terminal.

    Returns:
        The findings; empty if every rule is followed.

    Raises:
        DataError: The data do not exist.
        ModelError: The model is not safe to load.

    Example:
        >>> check("nvidia-h200").errors  # doctest: +SKIP
        0
    """
    from costhub.hub.data import find_data

    if (Path(where) / "config.json").is_file():
        return Findings(Path(where), (), _model_text(Path(where)))
    from costhub.dataset.check.folder import check_folder

    folder = find_data(where).folder
    return Findings(folder, tuple(check_folder(folder, deep=deep, progress=progress)))


def _model_text(folder: Path) -> str:
    """What a sound model is.

    Raises:
        ModelError: It is not safe to load.
    """
    from costhub.hub.model_check.model_gate import check_model
    from costhub.terminal_text import clean

    info = check_model(folder, needs_card=False)
    return f"{clean(info.arch, 60)} model for {clean(info.device_id, 200)}"


def _count(number: int, what: str) -> str:
    return counted(number, what) if number else f"no {what}s"
