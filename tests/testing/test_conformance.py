from __future__ import annotations

import pytest

from costhub.models.protocol import Scores
from costhub.models.trees.gbt import Gbt, GbtOptions
from costhub.testing import check_cost_model, made_programs, properties


class Negated(Gbt):
    def predict(self, rows, counts) -> Scores:  # type: ignore[no-untyped-def]
        return -super().predict(rows, counts)


def make(kind: type[Gbt] = Gbt) -> Gbt:
    return kind(feature_spec="demo@1", options=GbtOptions(rounds=12, learning_rate=0.2, depth=3))


def test_a_good_model_passes_on_made_programs_and_on_ones_own() -> None:
    check_cost_model(make, columns=4)
    check_cost_model(make, programs=made_programs("demo@1", workloads=3))


def test_a_bad_model_fails_with_a_sentence_for_each_property_that_it_breaks() -> None:
    with pytest.raises(AssertionError) as error:
        check_cost_model(lambda: make(Negated))

    lines = str(error.value).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(
        "The model Negated (gbt, demo@1) breaks the property 'higher scores are for faster programs': it has "
    )
    assert "'an update learns the order of what was measured': of the measured pairs" in lines[1]


def test_a_model_that_cannot_be_fitted_fails_in_words() -> None:
    class Unfit(Gbt):
        def fit(self, *args: object, **options: object) -> None:
            raise ZeroDivisionError("on purpose")

    with pytest.raises(AssertionError, match=r"breaks the property .* ZeroDivisionError: on purpose"):
        check_cost_model(lambda: make(Unfit))


def test_properties_are_named_apart() -> None:
    names = [check.__name__ for check in properties()]

    assert len(set(names)) == len(names) >= 17
    assert all(check.__doc__ for check in properties())
