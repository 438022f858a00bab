from __future__ import annotations

import torch

from costhub.models.network import SegmentSumNetwork


def network(seed: int = 0) -> SegmentSumNetwork:
    return SegmentSumNetwork(3, 8, generator=torch.Generator().manual_seed(seed))


def test_a_program_is_the_sum_of_its_encoded_rows() -> None:
    torch.manual_seed(0)
    rows, net = torch.randn(4, 3), network()

    together = net(rows, torch.tensor([3, 1]))
    shuffled = net(rows[[2, 0, 1, 3]], torch.tensor([3, 1]))

    torch.testing.assert_close(together, shuffled)
    assert not torch.isclose(net(rows, torch.tensor([4])), together[0])


def test_programs_without_rows_get_the_score_of_an_empty_sum() -> None:
    rows, net = torch.ones(2, 3), network()

    scores = net(rows, torch.tensor([0, 2, 0]))

    assert scores[0] == scores[2] != scores[1]
    assert net(rows[:0], torch.tensor([0])).tolist() == [scores[0].item()]
    assert net(rows[:0], torch.zeros(0, dtype=torch.int64)).shape == (0,)


def test_weights_come_from_the_generator_and_nothing_else() -> None:
    before = torch.get_rng_state()

    one, same, other = network(1), network(1), network(2)

    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_initial_weights_stay_within_the_bound_of_their_layer() -> None:
    net = network()

    assert 0 < float(net.encode_1.bias.detach().abs().max()) <= 3**-0.5
    assert 0 < float(net.score.weight.detach().abs().max()) <= 8**-0.5
