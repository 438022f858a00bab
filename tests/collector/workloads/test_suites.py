"""The named suites: the papers' operators, found by name."""

import json
from importlib import resources

import pytest

from costhub.collector.workloads.suites import find_suites, find_workload, suites
from costhub.dataset.workload import workload_row
from costhub.errors import UnknownNameError


def test_the_papers_suites_are_complete() -> None:
    assert len(suites()["resnet18"]) == 12
    assert len(suites()["metaschedule"]) == 12


def test_all_holds_each_workload_once() -> None:
    every = find_suites(["all"])
    assert len({(w.operator, w.sizes) for w in every}) == len(every) >= 100
    # ResNet-18's first layer is also the MetaSchedule paper's C2D.
    assert sum(w.sizes == (1, 224, 224, 3, 64, 7, 2, 3) and w.operator == "conv2d" for w in every) == 1


@pytest.mark.parametrize(
    ("call", "close"),
    [(lambda: find_suites(["resnet81"]), "resnet18"), (lambda: find_workload("resnet18.c77"), "resnet18.c7")],
)
def test_an_unknown_name_lists_the_close_ones(call: object, close: str) -> None:
    with pytest.raises(UnknownNameError, match=close):
        call()  # type: ignore[operator]


def test_every_workload_is_a_module_with_one_function() -> None:
    for workload in find_suites(["all"]):
        mod = workload.module()
        assert [g.name_hint for g in mod.get_global_vars()] == ["main"]


def test_every_suite_says_where_its_workloads_are_from() -> None:
    content = json.loads((resources.files("costhub.collector.workloads") / "suites.json").read_text())
    assert all(body["source"] for body in content.values())
    assert {"int8", "float16", "elementwise", "reduce", "pool", "fused", "grouped"} < set(content)


def test_the_row_of_an_int8_workload_counts_single_bytes() -> None:
    workload = find_workload("int8.dense-128x768x768")
    row = workload_row(workload.module(), name=workload.name, operator=workload.family)
    assert row["flop"] == 2 * 128 * 768 * 768
    assert row["bytes"] == 128 * 768 + 768 * 768 + 4 * 128 * 768


def test_a_workload_names_the_networks_it_occurs_in() -> None:
    # ResNet-18 has 20 convolutions, and the paper of the suite one more: a projection in the first stage.
    assert sum(dict(w.networks)["resnet-18"] for w in suites()["resnet18"]) == 21
    # Four projections and two dense layers in each of BERT-base's twelve layers.
    assert sum(dict(w.networks).get("bert-base", 0) for w in suites()["matmul"]) == 12 * 6
    assert find_workload("softmax.64x1000").networks == ()


def test_a_workload_of_two_suites_is_of_the_same_networks_in_both() -> None:
    first, again = find_workload("resnet18.c1"), find_workload("metaschedule.c2d")

    assert first.sizes == again.sizes
    assert first.networks == again.networks == (("resnet-18", 1.0), ("resnet-50", 1.0), ("resnext-50", 1.0))
