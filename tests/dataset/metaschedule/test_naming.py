from __future__ import annotations

from typing import Any

import pytest

from costhub.dataset.metaschedule.naming import Naming, made_name, parse_names, unique_name
from costhub.errors import DataError


def test_a_name_may_come_with_networks_or_be_left_open() -> None:
    given = ["a", {"name": "b", "networks": {"resnet18": 2}}, None, {"name": None}]

    assert parse_names(given, 4) == [
        Naming("a"),
        Naming("b", (("resnet18", 2.0),)),
        Naming(),
        Naming(),
    ]
    assert parse_names(None, 2) == [Naming(), Naming()]


BAD = [3, [], {}, "", " ", "\ud800", {"name": 5}]
BAD_NETWORKS = [{"name": "a", "networks": ["r"]}, {"name": "a", "networks": {"r": "x"}}]


@pytest.mark.parametrize("given", [*BAD, *BAD_NETWORKS])
def test_other_entries_are_refused(given: Any) -> None:
    with pytest.raises(DataError, match="Entry 1 of the names is"):
        parse_names(["a", given], 2)


def test_there_must_be_a_name_per_workload() -> None:
    with pytest.raises(DataError, match="There are 1 names for 2 workloads"):
        parse_names(["a"], 2)


def test_made_names_are_unique() -> None:
    row = {"operator": "matmul", "shapes": "[[8, 8], []]"}
    taken: set[str] = set()
    for expected in ("matmul_8x8_scalar", "matmul_8x8_scalar_2", "matmul_8x8_scalar_3"):
        name = unique_name(made_name(row), taken)
        assert name == expected
        taken.add(name)
