from __future__ import annotations

import pytest

from costhub.dataset.target import parse_target
from costhub.errors import WorkloadError


@pytest.mark.parametrize("target", ["", "[]", '{"kind":"abacus"}', "llvm -mcpu=znver4"])
def test_a_target_that_is_none_is_refused(target: str) -> None:
    with pytest.raises(WorkloadError, match="is not one of TVM; it must be JSON such as"):
        parse_target(target)


def test_a_target_is_read_from_its_json() -> None:
    assert str(parse_target('{"kind":"llvm","num-cores":2}').kind.name) == "llvm"
