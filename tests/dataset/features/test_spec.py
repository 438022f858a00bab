from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.spec import failures_of, features_of_modules, replay_schedules, slog, spec_of_modules
from costhub.dataset.features.specs import find_spec
from costhub.dataset.workload import module_from_json
from costhub.errors import WorkloadError


@pytest.mark.parametrize(
    ("x", "expected"), [(0, 0), (1, 1), (-3, -2), (float("inf"), 0), (10**400, 1328.771237954945), (True, 1)]
)
def test_counts_are_on_a_log_scale_whatever_they_are(x: float, expected: float) -> None:
    assert slog(x) == pytest.approx(expected)


def failing(mod: Any) -> np.ndarray:
    """The function of a user's spec, with a mistake."""
    return np.ones((1, len(mod.nothing_of_this_name)), np.float32)


def test_the_first_exception_of_a_users_function_is_told(tiny_matmul: Any, caplog: pytest.LogCaptureFixture) -> None:
    spec = spec_of_modules("failing@1", ("a",), failing)
    mod = module_from_json(tiny_matmul.module_json)

    for _ in range(2):
        assert spec.extract(mod, tiny_matmul.traces[:2], tiny_matmul.target) == [None, None]

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("The function of the feature spec failing@1 failed on a program (")
    assert "nothing_of_this_name" in record.getMessage()
    assert list(failures_of("tiles@1+failing@1")) == ["failing@1"]


def test_rows_of_a_users_function_are_numbers_of_float32_or_there_are_none(tiny_matmul: Any) -> None:
    mod = module_from_json(tiny_matmul.module_json)

    def rows_of(found: Any) -> Any:
        spec = spec_of_modules("given@1", ("a", "b"), lambda mod: found)
        return spec.extract(mod, tiny_matmul.traces[:1], tiny_matmul.target)[0]

    listed = rows_of([[1, 2.5]])
    assert (listed.dtype, listed.tolist()) == (np.float32, [[1.0, 2.5]])
    assert rows_of(np.array([[1.0, 1e39]])) is None


def test_costhubs_own_functions_fail_on_malformed_programs_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    schedule = SimpleNamespace(mod="no module")

    assert find_spec("tiles@1").extract_candidates(None, [SimpleNamespace(sch=schedule)]) == [None]
    assert caplog.text == ""


def test_the_spec_of_the_page_gives_a_search_the_rows_of_measured_programs(tiny_matmul: Any) -> None:
    page = (Path(__file__).parents[3] / "docs/features.md").read_text(encoding="utf-8")
    [code] = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "SPEC = FeatureSpec(" in code]
    found: dict[str, Any] = {}
    exec(code, found)  # noqa: S102 - of our own page
    spec, mod = found["SPEC"], module_from_json(tiny_matmul.module_json)
    schedules = replay_schedules(mod, tiny_matmul.traces, tiny_matmul.target)

    measured = spec.extract(mod, tiny_matmul.traces, tiny_matmul.target)
    proposed = spec.extract_candidates(None, [SimpleNamespace(sch=schedule) for schedule in schedules])

    assert len(measured) == len(tiny_matmul.traces)
    for rows, same in zip(measured, proposed, strict=True):
        assert rows.shape == (1, spec.width)
        assert rows[0, 0] > 0
        np.testing.assert_array_equal(rows, same)
    assert spec.extract(None, ["no trace"], "") == [None]


def test_what_does_not_replay_is_none_and_costs_only_itself(tiny_matmul: Any) -> None:
    traces = [tiny_matmul.traces[0], tiny_matmul.bad_trace, "[1]", tiny_matmul.traces[1]]

    found = replay_schedules(module_from_json(tiny_matmul.module_json), traces, tiny_matmul.target)

    assert [schedule is not None for schedule in found] == [True, False, False, True]


def test_a_target_that_tvm_does_not_accept_is_refused(tiny_matmul: Any) -> None:
    with pytest.raises(WorkloadError):
        replay_schedules(module_from_json(tiny_matmul.module_json), tiny_matmul.traces, '{"kind":"abacus"}')


def test_a_module_that_cannot_be_read_has_no_features(tiny_matmul: Any) -> None:
    schedules = replay_schedules(module_from_json(tiny_matmul.module_json), tiny_matmul.traces[:2], tiny_matmul.target)
    answers = iter([np.ones((1, 2), np.float32), np.full((1, 2), np.nan, np.float32)])

    assert [rows is not None for rows in features_of_modules(lambda _: next(answers), schedules)] == [True, False]
    assert features_of_modules(lambda mod: mod.nothing_of_this_name, [*schedules, None]) == [None, None, None]
