"""The kinds of the models that lead the benchmarks' searches."""

from __future__ import annotations

from costhub.models.architectures import new_model
from scripts.bench.search.held_out import COSTHUB, KINDS
from scripts.release.train import RELEASES


def test_costhubs_model_is_made_as_the_shipped_one_for_cpus() -> None:
    shipped = next(release for release in RELEASES if release.device == "any-cpu")

    assert COSTHUB.arch == shipped.arch
    assert [f"{name}={value}" for name, value in COSTHUB.options.items()] == list(shipped.options)
    assert COSTHUB.spec == type(new_model(shipped.arch, feature_spec=COSTHUB.spec)).default_spec
    assert KINDS["costhub"] is COSTHUB
