from typing import Any

import click
import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel
from costhub.papers.moses import CoefficientOfVariation, MosesLottery
from scripts.bench.transfer.live_transfer import ADAPTED, ADVERSARY, CONTROLLED, DOMAIN, WHOLE, XGB, Leaders, Told


@pytest.fixture
def model() -> CostModel:
    return new_model("gbt", feature_spec="demo@1")


@pytest.fixture
def programs() -> Programs:
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    return Programs(rows, np.ones(4, np.int64), np.zeros(4, np.int64), ("w",), np.arange(1.0, 5.0))


def test_methods_of_moses_have_its_parts_one_by_one_and_together(model: CostModel, programs: Programs) -> None:
    led = Leaders(model, programs=programs)

    searches: dict[str, Any] = {name: led.search(name, 64, 3) for name in (CONTROLLED, ADVERSARY, WHOLE)}

    assert searches[CONTROLLED].method == MosesLottery()
    assert searches[ADVERSARY].method == searches[WHOLE].method == Told(MosesLottery(domain=DOMAIN), programs)
    assert searches[CONTROLLED].stop_rule == searches[WHOLE].stop_rule == CoefficientOfVariation(64)
    assert searches[ADVERSARY].stop_rule is None
    assert {search.seed for search in searches.values()} == {3}


def test_the_adversary_needs_what_the_source_learned_from(model: CostModel) -> None:
    with pytest.raises(click.UsageError, match="add --moses"):
        Leaders(model).search(WHOLE, 64, 0)


def test_an_adapted_model_leads_where_there_is_one_and_tvms_own_by_itself(model: CostModel) -> None:
    adapted = new_model("gbt", feature_spec="demo@1")

    found = Leaders(model, adapted).search(ADAPTED, 64, 0)

    assert found is not None
    assert found.model is adapted
    assert Leaders(model).search(ADAPTED, 64, 0) is None
    assert Leaders(model).search(XGB, 64, 0) is None


def test_what_the_source_learned_from_reaches_the_method(model: CostModel, programs: Programs) -> None:
    class Noted:
        name = "noted"
        programs: Programs | None = None

        def adapt(
            self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
        ) -> CostModel:
            self.programs = source_programs
            return source

    noted = Noted()

    assert Told(noted, programs).name == "noted"
    assert Told(noted, programs).adapt(model, programs.select(np.array([0])), seed=0) is model
    assert noted.programs is programs
