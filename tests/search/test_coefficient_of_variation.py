from __future__ import annotations

import numpy as np
import pytest

from costhub.papers.moses import CoefficientOfVariation, coefficient_of_variation
from costhub.search.scheduler import TrialBatch


def batches(*scores: list[float]) -> list[TrialBatch]:
    return [TrialBatch(np.ones(len(own)), np.array(own), waiting=0.0) for own in scores]


def test_the_coefficient_is_that_of_predicted_throughput() -> None:
    # Throughputs of 1 and 3: mean 2, standard deviation 1.
    told = batches([0.0, float(np.log(3.0))])

    assert CoefficientOfVariation(trials=64, window=1, threshold=0.49).should_continue(told)
    assert not CoefficientOfVariation(trials=64, window=1, threshold=0.51).should_continue(told)


def test_a_level_of_the_scores_does_not_change_it_and_a_larger_spread_does() -> None:
    told = [[0.1, 0.5, 0.2], [5.1, 5.5, 5.2], [0.1, 0.9, 0.2]]

    same, moved, wider = (coefficient_of_variation(batches(scores)) for scores in told)

    assert same == pytest.approx(moved)
    assert wider > same


def test_only_the_last_batches_count() -> None:
    told = batches([0.0, -9.0], [-1.0, -1.001], [-1.0, -1.001])

    assert not CoefficientOfVariation(trials=64, window=2).should_continue(told)
    assert CoefficientOfVariation(trials=64, window=3).should_continue(told)
    assert CoefficientOfVariation(trials=64, window=4).should_continue(told)


def test_the_predicted_part_is_never_measured() -> None:
    uncertain = batches(*([[0.0, -5.0]] * 8))
    rule = CoefficientOfVariation(trials=20, share=0.5)

    assert [rule.should_continue(uncertain[:count]) for count in (4, 5, 6)] == [True, False, False]


def test_scores_of_any_size_do_not_overflow() -> None:
    assert CoefficientOfVariation(trials=64, window=1).should_continue(batches([5000.0, -5000.0]))


@pytest.mark.parametrize("options", [{"share": 0.0}, {"share": 1.1}, {"window": 0}])
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="share must be above 0"):
        CoefficientOfVariation(trials=64, **options)  # type: ignore[arg-type]
