from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from costhub.dataset.formats import FormatError, converted

TABLE = pa.table({"status": ["ok", None], "run_s": [[1.0, 2.0], []]})


def test_the_rows_are_the_same_in_every_form() -> None:
    rows = TABLE.to_pylist()

    assert converted(TABLE, "arrow") is TABLE
    assert list(converted(TABLE, "datasets")) == rows
    assert [list(runs) for runs in converted(TABLE, "pandas")["run_s"]] == [[1.0, 2.0], []]


def test_an_unknown_form_is_refused() -> None:
    form: Any = "polars"
    with pytest.raises(FormatError, match="no format 'polars'; it is 'arrow', 'pandas' or 'datasets'"):
        converted(TABLE, form)


@pytest.mark.parametrize("form", ["pandas", "datasets"])
def test_a_missing_package_is_named(form: str) -> None:
    # In a child process: this one has imported it.
    code = f"""
import sys
class Absent:
    def find_spec(self, name, *rest):
        if name == {form!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import pyarrow as pa
from costhub.dataset.formats import FormatError, converted
try:
    converted(pa.table({{"status": ["ok"]}}), {form!r})
except FormatError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert (
        f"needs the package {form}, which is not installed: `pip install 'costhub[datasets]'`" in done.stdout
    )
