from __future__ import annotations

from costhub.models.networks.mlp import Mlp
from costhub.models.resumable import Resumable


def test_networks_are_resumable_and_what_has_no_checkpoint_is_not() -> None:
    assert isinstance(Mlp(feature_spec="demo@1"), Resumable)
    assert not isinstance(object(), Resumable)
