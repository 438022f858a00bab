"""The networks of the benchmark `engines`: they export, and GPT-2's cache continues what prefill began."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from costhub.collector.workloads.network_source import read_torch
from costhub.errors import UnknownNameError
from scripts.bench.engines.networks import (
    ADDED,
    ENGINE_NETWORKS,
    GptSize,
    build_network,
    check_networks,
    gpt,
    title_of_network,
)

TINY = GptSize(depth=2, width=16, heads=2, words=50, positions=16)


def test_decode_computes_what_prefill_of_all_tokens_does() -> None:
    torch.manual_seed(0)
    whole, (tokens,) = gpt(TINY, tokens=8, earlier=0)
    step, _ = gpt(TINY, tokens=1, earlier=7)
    step.load_state_dict(whole.state_dict())
    whole.eval(), step.eval()

    with torch.no_grad():
        scores, *cache = whole(tokens)
        _, *earlier = whole(tokens[:, :7])
        found, *grown = step(tokens[:, 7:], *earlier)

    torch.testing.assert_close(found, scores)
    for one, other in zip(grown, cache, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("tokens", "earlier", "inputs"), [(8, 0, 1), (1, 7, 5)], ids=["prefill", "decode"])
def test_gpt_goes_through_a_file_of_torch_export(tmp_path: Path, tokens: int, earlier: int, inputs: int) -> None:
    network, given = gpt(TINY, tokens=tokens, earlier=earlier)
    path = tmp_path / "gpt.pt2"

    with torch.no_grad():
        torch.export.save(torch.export.export(network.eval(), given), path)
        again, example = read_torch(str(path))
        found, wanted = again(*example), network(*given)

    assert len(example) == inputs
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ENGINE_NETWORKS)
def test_every_network_has_a_title_of_its_own(name: str) -> None:
    check_networks((name,))

    assert [title_of_network(each) for each in ENGINE_NETWORKS].count(title_of_network(name)) == 1


def test_unknown_networks_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="resnet18"):
        check_networks(("resnet19",))


def test_a_network_is_the_same_in_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADDED, "tiny", lambda: gpt(TINY, tokens=8, earlier=0))  # type: ignore[misc]
    first, inputs = build_network("tiny")
    torch.manual_seed(7)  # What another process has drawn before.
    again, others = build_network("tiny")

    assert not first.training
    torch.testing.assert_close(inputs, others)
    torch.testing.assert_close(first.state_dict(), again.state_dict())
