"""The named suites: the papers' operators, found by name."""

import json
from importlib import resources

import pytest

from costhub.collector.workloads.suites import SuiteWorkload, find_suites, find_workload, suites
from costhub.dataset.workload import workload_row
from costhub.errors import UnknownNameError

# Table 1 of "Learning to Optimize Tensor Programs", by line.
SIDE = (224, 56, 56, 56, 56, 28, 28, 28, 14, 14, 14, 7)
CHANNELS = "3,64 64,64 64,64 64,128 64,128 128,128 128,256 128,256 256,256 256,512 256,512 512,512"
KERNEL_AND_STRIDE = "7,2 3,1 1,1 3,2 1,2 3,1 3,2 1,2 3,1 3,2 1,2 3,1"

# Appendix A.2 of "Tensor Program Optimization with Probabilistic Programs", in its order of sizes.
METASCHEDULE = {
    "c1d": (1, 256, 64, 128, 3, 2, 1),
    "c2d": (1, 224, 224, 3, 64, 7, 2, 3),
    "c3d": (1, 16, 224, 224, 3, 64, 7, 2, 3),
    "dep": (1, 112, 112, 32, 3, 1, 1),
    "dil": (1, 224, 224, 3, 64, 7, 2, 3, 2),
    "gmm": (1, 128, 128, 128),
    "grp": (1, 56, 56, 64, 128, 3, 2, 1, 1, 4),  # undilated, which the paper leaves out
    "t2d": (1, 4, 4, 512, 256, 4, 2, 1),
    "cbr": (1, 224, 224, 3, 64, 7, 2, 3),
    "tbg": (1, 128, 12, 64),
    "nrm": (1, 256, 256),
    "sfm": (256, 256),  # 256 rows of the one batch
}


def test_the_convolutions_of_resnet18_have_the_papers_sizes() -> None:
    for number, workload in enumerate(suites()["resnet18"]):
        channels = [int(text) for text in CHANNELS.split()[number].split(",")]
        kernel, stride = (int(text) for text in KERNEL_AND_STRIDE.split()[number].split(","))
        # Padding is not in the table; outputs have the inputs' size over the stride.
        sizes = (1, SIDE[number], SIDE[number], *channels, kernel, stride, kernel // 2)
        assert (workload.name, workload.operator, workload.sizes) == (f"resnet18.c{number + 1}", "conv2d", sizes)


def test_the_operators_of_metaschedule_have_the_papers_sizes() -> None:
    assert {w.name.removeprefix("metaschedule."): w.sizes for w in suites()["metaschedule"]} == METASCHEDULE


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


def test_transposed_convolutions_double_the_image() -> None:
    for workload in (*suites()["transposed"], *suites()["image_generators"]):
        batch, rows, columns, _, channels, *_ = workload.sizes
        _, _, result = arguments(workload)
        assert result == (batch, 2 * rows, 2 * columns, channels), workload.name


def test_dilated_grouped_and_large_depthwise_convolutions_keep_the_image_or_halve_it() -> None:
    for workload in (*suites()["dilated"], *suites()["large_depthwise"], *suites()["grouped_networks"]):
        stride = workload.sizes[5 if workload.operator == "depthwise_conv2d" else 6]
        assert arguments(workload)[-1][1] == workload.sizes[1] // stride, workload.name


def test_suites_of_kinds_of_networks_repeat_no_workload() -> None:
    first = ("mobile_networks", "image_networks", "language_models")
    kinds = (*first, "depthwise_networks", "image_generators", "grouped_networks", "attention_products")
    of_kinds = [(w.operator, w.sizes) for kind in kinds for w in suites()[kind]]
    others = {(w.operator, w.sizes) for suite, content in suites().items() if suite not in kinds for w in content}
    assert len(set(of_kinds)) == len(of_kinds)
    assert not set(of_kinds) & others


def test_depthwise_convolutions_of_networks_keep_the_image_or_halve_it() -> None:
    of_networks = (*suites()["mobile_networks"], *suites()["depthwise_networks"])
    found = [w for w in of_networks if w.operator == "depthwise_conv2d"]
    assert len(found) == 30 + 60
    for workload in found:
        rows, stride = workload.sizes[1], workload.sizes[5]
        assert arguments(workload)[-1][1] == -(-rows // stride), workload.name


def arguments(workload: SuiteWorkload) -> list[tuple[int, ...]]:
    """The shapes of the function's arguments; the result is the last one."""
    row = workload_row(workload.module(), name=workload.name, operator=workload.family)
    return [tuple(shape) for shape in json.loads(row["shapes"])]


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
