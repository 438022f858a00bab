"""Provides check_cost_model: all properties at once, and properties, one by one."""

from __future__ import annotations

from collections.abc import Callable

from costhub.dataset.programs import Programs
from costhub.models.protocol import CostModel
from costhub.testing.properties import PROPERTIES, Property, Subject


def properties() -> tuple[Property, ...]:
    """All properties, as functions of a `Subject`, for `pytest.mark.parametrize`.

    Example:
        >>> "batch_independence" in [check.__name__ for check in properties()]
        True
    """
    return tuple(PROPERTIES)


def check_cost_model(
    make: Callable[[], CostModel], *, columns: int | None = None, programs: Programs | None = None
) -> None:
    """Tries a cost model on all properties.

    Args:
        make: Makes the model, not yet fitted, each time a new one; with options that train it in a second.
        columns: Width of the rows it reads where costhub does not know its feature spec; 6 by default.
        programs: Programs to fit and to score, of two workloads or more; by default made up, see
            `made_programs`.

    Raises:
        AssertionError: Has a line for each property that the model breaks, and says how it does.
        ValueError: `programs` are of a single workload.

    Example:
        >>> from costhub.models.trees.gbt import Gbt, GbtOptions
        >>> check_cost_model(lambda: Gbt(feature_spec="demo@1", options=GbtOptions(rounds=20)))
    """
    subject = Subject(make, columns=columns, programs=programs)
    broken: list[str] = []
    for check in PROPERTIES:
        try:
            check(subject)
        except AssertionError as error:
            broken.append(str(error))
    if broken:
        raise AssertionError("\n".join(broken))
