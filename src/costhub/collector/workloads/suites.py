"""Provides the named workload suites: data in ``suites.json``, turned into TIR modules on demand.

A suite also says which networks its workloads occur in, and how often: ResNet, ResNeXt, MobileNet, BERT and ViT as
in their papers, at batch 1, with 224 x 224 pixels or 128 words. ResNet-18 is that of its suite's paper, with a
projection (c3) in the first stage too. Of the others, the suites contain only some layers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from costhub.collector.workloads.operators import expression, family
from costhub.collector.workloads.zoo.networks import NETWORKS
from costhub.errors import UnknownNameError, WorkloadError
from costhub.names import close_names


@dataclass(frozen=True)
class SuiteWorkload:
    """One TIR function to optimise, described by its operator and sizes."""

    name: str
    """``suite.workload``, e.g. ``resnet18.c7``."""
    operator: str
    """A key of `costhub.collector.workloads.operators.FAMILY`."""
    sizes: tuple[int, ...]
    """Arguments of the operator's tensor expression."""
    networks: tuple[tuple[str, float], ...] = ()
    """Networks that it occurs in, by name, with the number of occurrences."""

    @property
    def family(self) -> str:
        """Its operator family, as `costhub.dataset.operator_class.classify` names it.

        Example:
            >>> find_workload("resnet18.c2").family, find_workload("resnet18.c3").family
            ('conv', 'pointwise')
        """
        return family(self.operator, self.sizes)

    def module(self) -> Any:
        """The workload as a ``tvm.IRModule`` with one function ``main``.

        Raises:
            WorkloadError: TVM rejects the sizes.
        """
        import tvm
        from tvm import te

        try:
            function = te.create_prim_func(expression(self.operator)(*self.sizes))
        except Exception as error:
            raise WorkloadError(f"TVM cannot build {self.name} with sizes {self.sizes}: {error}.") from error
        return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


@cache
def suites() -> dict[str, tuple[SuiteWorkload, ...]]:
    """All suites by name.

    Example:
        >>> len(suites()["resnet18"]), suites()["resnet18"][6].name
        (12, 'resnet18.c7')
    """
    content = json.loads((resources.files("costhub.collector.workloads") / "suites.json").read_text())
    networks = _networks(content)
    return {
        suite: tuple(
            SuiteWorkload(f"{suite}.{name}", operator, tuple(sizes), networks.get((operator, *sizes), ()))
            for name, (operator, sizes) in body["workloads"].items()
        )
        for suite, body in content.items()
    }


def _networks(content: dict[str, Any]) -> dict[tuple[Any, ...], tuple[tuple[str, float], ...]]:
    """(operator, *sizes) -> networks and occurrences, since a workload may be in two suites."""
    networks: dict[tuple[Any, ...], dict[str, float]] = {}
    for body in content.values():
        for network, counts in body.get("networks", {}).items():
            for name, count in counts.items():
                operator, sizes = body["workloads"][name]
                networks.setdefault((operator, *sizes), {})[network] = float(count)
    return {key: tuple(sorted(counts.items())) for key, counts in networks.items()}


def find_suites(names: Sequence[str]) -> tuple[SuiteWorkload, ...]:
    """Finds the workloads given by `names`, each distinct one once.

    Args:
        names: Suites (``resnet18``), single workloads (``resnet18.c7``), or ``all`` for every suite.

    Raises:
        UnknownNameError: No suite or workload has that name.
        WorkloadError: It is the name or file of a network.

    Example:
        >>> [w.name for w in find_suites(["softmax", "softmax.64x1000", "resnet18.c7"])][-2:]
        ['softmax.64x1000', 'resnet18.c7']
    """
    distinct: dict[tuple[str, tuple[int, ...]], SuiteWorkload] = {}
    for workload in (w for name in names for w in _named(name)):
        distinct.setdefault((workload.operator, workload.sizes), workload)
    return tuple(distinct.values())


def _named(name: str) -> tuple[SuiteWorkload, ...]:
    if name == "all":
        return tuple(w for suite in suites().values() for w in suite)
    if name in suites():
        return suites()[name]
    if name in NETWORKS or name.endswith(".pt2"):
        raise WorkloadError(f"{name} is a network, not a suite: name it with --network {name}.")
    if "." in name:
        return (find_workload(name),)
    known = [*suites(), "all", *NETWORKS]
    raise UnknownNameError("network, suite or workload", name, close_names(name, known), "`costhub tune --list`")


def find_workload(name: str) -> SuiteWorkload:
    """Finds the workload named ``suite.workload``.

    Raises:
        UnknownNameError: No workload has that name.

    Example:
        >>> find_workload("resnet18.c7").sizes
        (1, 28, 28, 128, 256, 3, 2, 1)
    """
    by_name = {w.name: w for suite in suites().values() for w in suite}
    if name in by_name:
        return by_name[name]
    raise UnknownNameError("workload", name, close_names(name, list(by_name)), "`costhub tune --list`")
