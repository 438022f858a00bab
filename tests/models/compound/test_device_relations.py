from __future__ import annotations

import numpy as np
import pytest

from costhub.dataset.features.spec import find_spec
from costhub.models.compound.device_relations import RELATIONS, related, relation_places
from costhub.models.compound.device_vector import NAMES, device_vector


def test_every_relation_is_of_some_feature_spec_and_a_number_of_devices() -> None:
    columns = {name for spec in ("per_store@1", "relation@1", "tiles@1") for name in find_spec(spec).columns}

    assert [pair for pair in RELATIONS if pair[0] not in columns] == []
    assert [pair for pair in RELATIONS if f"log2_{pair[1]}" not in NAMES] == []


def test_a_working_set_of_the_size_of_the_cache_relates_to_it_by_zero() -> None:
    spec = find_spec("per_store@1")
    rows = np.zeros((2, spec.width), np.float32)
    rows[:, spec.columns.index("B0.unique_bytes")] = [15.0, 17.0]
    small, large = (device_vector({"kind": "cpu", "l1d_bytes": size}) for size in (1 << 15, 1 << 17))
    places = relation_places("per_store@1")
    at = places.index((spec.columns.index("B0.unique_bytes"), NAMES.index("log2_l1d_bytes")))

    assert related(rows, np.stack([small, large]), places)[:, at].tolist() == [0.0, 0.0]
    assert related(rows, np.stack([large, small]), places)[:, at].tolist() == [-2.0, 2.0]


@pytest.mark.parametrize("spec", ["trace_tokens@1", "demo@1", ""])
def test_rows_without_such_columns_have_no_relations(spec: str) -> None:
    places = relation_places(spec)

    assert related(np.ones((3, 4), np.float32), np.ones((3, len(NAMES))), places).shape == (3, 0)
