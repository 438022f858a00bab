from __future__ import annotations

import pytest
import torch

from costhub.models.networks.network import FORMS, SegmentSumNetwork

every_form = pytest.mark.parametrize("form", FORMS)


def network(seed: int = 0, form: str = "costhub") -> SegmentSumNetwork:
    return SegmentSumNetwork(3, 8, form=form, generator=torch.Generator().manual_seed(seed))


@every_form
def test_a_program_is_the_sum_of_its_encoded_rows(form: str) -> None:
    torch.manual_seed(0)
    rows, net = torch.randn(4, 3), network(form=form)

    together = net(rows, torch.tensor([3, 1]))
    shuffled = net(rows[[2, 0, 1, 3]], torch.tensor([3, 1]))

    torch.testing.assert_close(together, shuffled)
    assert not torch.isclose(net(rows, torch.tensor([4])), together[0])


@every_form
def test_programs_without_rows_get_the_score_of_an_empty_sum(form: str) -> None:
    rows, net = torch.ones(2, 3), network(form=form)

    scores = net(rows, torch.tensor([0, 2, 0]))

    assert scores[0] == scores[2] != scores[1]
    assert net(rows[:0], torch.tensor([0])).tolist() == [scores[0].item()]
    assert net(rows[:0], torch.zeros(0, dtype=torch.int64)).shape == (0,)


def test_the_form_of_moses_has_two_hidden_layers_and_is_linear_in_their_sum() -> None:
    net, rows = network(form="moses"), torch.ones(2, 3)

    assert [tuple(weight.shape) for weight in net.parameters() if weight.ndim == 2] == [
        (8, 3),
        (8, 8),
        (1, 8),
    ]
    one, two, none = net(torch.cat([rows[:1], rows]), torch.tensor([1, 2, 0]))
    torch.testing.assert_close(two - none, 2 * (one - none))


def test_the_form_of_tenset_adds_the_sum_to_both_layers() -> None:
    net = network(form="tenset")
    with torch.no_grad():
        for layer in (net.decode_1, net.decode_2):
            layer.weight.zero_()
            layer.bias.zero_()
    rows = torch.ones(2, 3)
    one, two, none = net(torch.cat([rows[:1], rows]), torch.tensor([1, 2, 0]))

    # With layers that add nothing, what is left is the sum itself.
    torch.testing.assert_close(two - none, 2 * (one - none))
    assert one != none


def test_every_part_has_an_encoder_of_its_own() -> None:
    net = SegmentSumNetwork([3, 2], 8, generator=torch.Generator().manual_seed(0))
    rows, other, counts = torch.ones(2, 3), torch.ones(1, 2), torch.tensor([1, 1])

    scores = net(rows, counts, other, torch.tensor([1, 0]))

    assert scores[0] != scores[1]
    assert {name.rpartition(".")[0] for name, _ in net.named_parameters()} == {
        "encode_1", "encode_2", "part_1_encode_1", "part_1_encode_2", "decode_1", "decode_2", "score",
    }  # fmt: skip


def test_weights_come_from_the_generator_and_nothing_else() -> None:
    before = torch.get_rng_state()

    one, same, other = network(1), network(1), network(2)

    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_initial_weights_stay_within_the_bound_of_their_layer() -> None:
    net = network()

    assert 0 < float(net.get_parameter("encode_1.bias").detach().abs().max()) <= 3**-0.5
    assert 0 < float(net.score.weight.detach().abs().max()) <= 8**-0.5
