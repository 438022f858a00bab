"""A model is not tried on a chip as new that it has learned from."""

from __future__ import annotations

import click
import pytest

from scripts.bench.transfer.new_chip import ChipTask
from scripts.bench.transfer.stopping import opened


def test_a_chip_that_the_model_knows_is_refused() -> None:
    with pytest.raises(click.UsageError, match="has learned from amd-epyc-zen5-2c"):
        ChipTask("amd-epyc-zen5", "amd-epyc-zen5-2c", "costhub/any-cpu-conditioned")


@pytest.mark.slow
def test_so_is_a_pair_whose_source_knows_the_target() -> None:
    with pytest.raises(click.UsageError, match="which is to be new to it"):
        opened(("", "costhub/any-cpu-conditioned", "amd-epyc-zen5", "amd-epyc-zen5-2c"), 0)
