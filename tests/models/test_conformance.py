"""Every architecture, with the feature specs that it is made for, keeps what costhub asks of a cost model."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from costhub.models.architectures import ARCHITECTURES, new_model
from costhub.models.networks.network_options import TreeGruOptions
from costhub.models.networks.tree_gru import TreeGru
from costhub.models.protocol import CostModel
from costhub.papers.tlp import TokenAttention, TokenAttentionOptions
from costhub.testing import Subject, properties
from costhub.testing.properties import Property

TREES = {"rounds": 12, "learning_rate": 0.2, "depth": 3}
NETWORK = {"hidden": 8, "epochs": 4, "learning_rate": 5e-3, "bins": 2}
SMALL_GBT, SMALL_MLP = "gbt(rounds=12,learning_rate=0.2,depth=3)", "mlp(hidden=8,epochs=4,bins=0)"


def conditioned() -> CostModel:
    from costhub.models.compound.conditioned import Conditioned

    base = new_model("gbt", feature_spec="demo@1", options=TREES)
    return Conditioned(feature_spec="demo@1", base=base).bind({"device_id": "demo", "kind": "cpu", "cores": 2})


def residual() -> CostModel:
    from costhub.models.compound.residual import Residual

    return Residual(feature_spec="demo@1", base=new_model("gbt", feature_spec="demo@1", options=TREES))


def of(arch: str, spec: str, options: dict[str, object]) -> Callable[[], CostModel]:
    return lambda: new_model(arch, feature_spec=spec, options=options)


MAKE: dict[str, Callable[[], CostModel]] = {
    "gbt": of("gbt", "demo@1", TREES),
    "gbt rank": of("gbt", "demo@1", {**TREES, "objective": "rank"}),
    "gbt lambdarank": of("gbt", "demo@1", {**TREES, "objective": "lambdarank"}),
    "gbt of parts": of("gbt", "trace_tokens@1+relation@1", TREES),
    "mlp": of("mlp", "demo@1", {**NETWORK, "members": 2}),
    "mlp of parts": of("mlp", "trace_tokens@1+relation@1", NETWORK),
    "ensemble": of("ensemble", "demo@1", {"members": 2, "member": SMALL_GBT}),
    "blend": of("blend", "relation@1+trace_tokens@1", {"members": f"{SMALL_GBT} {SMALL_MLP}:trace_tokens@1"}),
    "treegru": lambda: TreeGru(feature_spec="loop_context@1", options=TreeGruOptions(**NETWORK)),
    "tokens": lambda: TokenAttention(feature_spec="trace_tokens@1", options=TokenAttentionOptions(**NETWORK)),
    "conditioned": conditioned,
    "residual": residual,
}


@cache
def subject(name: str) -> Subject:
    return Subject(MAKE[name])


def test_every_architecture_is_tried() -> None:
    assert set(ARCHITECTURES) <= {name.split()[0] for name in MAKE}


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("check", properties(), ids=lambda check: check.__name__)
def test_the_model_keeps_the_property(name: str, check: Property) -> None:
    check(subject(name))
