"""Provides converted: a table as pandas or datasets have it, where they are installed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal, overload

import pyarrow as pa

from costhub.errors import CosthubError

if TYPE_CHECKING:
    from datasets import Dataset
    from pandas import DataFrame

Format = Literal["arrow", "pandas", "datasets"]


class FormatError(CosthubError):
    """A table was asked for in a form that is not known here."""

    exit_code = 2


@overload
def converted(table: pa.Table, form: Literal["arrow"]) -> pa.Table: ...
@overload
def converted(table: pa.Table, form: Literal["pandas"]) -> DataFrame: ...
@overload
def converted(table: pa.Table, form: Literal["datasets"]) -> Dataset: ...


def converted(table: pa.Table, form: Format) -> pa.Table | DataFrame | Dataset:
    """Returns a table in another form.

    Raises:
        FormatError: There is no such form, or its package is not installed.

    Example:
        >>> converted(pa.table({"status": ["ok"]}), "arrow").num_rows
        1
    """
    if form == "arrow":
        return table
    if form not in ("pandas", "datasets"):
        raise FormatError(f"There is no format {form!r}; it is 'arrow', 'pandas' or 'datasets'.")
    try:
        import_module(form)
    except ImportError as error:
        raise FormatError(
            f"The format {form!r} needs the package {form}, which is not installed: "
            "`pip install 'costhub[datasets]'` brings it."
        ) from error
    if form == "pandas":
        return table.to_pandas()
    from datasets import Dataset

    return Dataset(table)
