from __future__ import annotations

from costhub.dataset.programs import Programs
from costhub.models.networks.mlp import Mlp
from costhub.models.protocol import CostModel
from costhub.transfer.methods.frozen import Frozen


def test_the_copy_shares_no_weights(sources: dict[str, CostModel], target: Programs) -> None:
    source, copied = sources["mlp"], Frozen().adapt(sources["mlp"], target, seed=0)

    assert isinstance(source, Mlp)
    assert isinstance(copied, Mlp)
    mine = {weight.data_ptr() for weight in source.networks[0].parameters()}
    assert not mine & {weight.data_ptr() for weight in copied.networks[0].parameters()}
