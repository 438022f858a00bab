"""The models that the benchmarks compare: an architecture or baseline, objective, feature spec, options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel
from costhub.models.trees.gbt import ALL_PAIRS
from scripts.bench.models.baselines import TensetMlp, TvmXgb
from scripts.release.train import ANY_DEVICE

STORE, RELATION, TILES = "per_store@1", "relation@1", "tiles@1"
LOOPS, TOKENS = "loop_context@1", "trace_tokens@1"
DECISIONS = "trace_decisions@1"
ALL = f"{STORE}+{RELATION}+{TILES}"
BLENDED = f"{TILES}+{TOKENS}"
SPECS = (STORE, RELATION, TILES, ALL)

RANDOM, CEILING = "random", "noise ceiling"
BASELINES: dict[str, type[Any]] = {"TVM recipe": TvmXgb, "TenSet recipe": TensetMlp}
"""Name -> a baseline, which learns from everything and holds nothing out."""


@dataclass(frozen=True)
class GridEntry:
    """One line of a comparison."""

    model: str
    """An architecture, a baseline, RANDOM or CEILING."""
    spec: str = STORE
    objective: str = ""
    """Empty if the model has only one."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Beside the objective."""
    variant: str = ""
    """What sets it apart, for tables."""
    share: float = 1.0
    """Of the programs of every workload to learn from; of a joint entry, see `tasks.thinned_evenly`."""
    workloads: int | None = None
    """How many workloads to learn from; None for all."""
    workload_share: float = 1.0
    """Of the workloads to learn from, with all their programs; for joint entries."""
    joint: bool = False
    """Whether to learn from the other devices of the folder as well, with their numbers."""
    failures: bool = False
    """Whether to learn from programs that failed as well, as the slowest ones."""

    @property
    def rows(self) -> tuple[str, bool, bool]:
        """What has to be loaded for it; entries with equal values are run together."""
        return self.spec, self.failures, self.joint

    @property
    def label(self) -> str:
        """For `--only` and messages."""
        return "/".join(part for part in (self.model, self.objective, self.spec, self.variant) if part)

    def make(self) -> CostModel:
        """The architecture with the entry's options, not yet fitted."""
        objective = {"objective": self.objective} if self.objective else {}
        return new_model(self.model, feature_spec=self.spec, options={**objective, **self.options})


TWO_PASSES = "two passes"
FIXED = [GridEntry(RANDOM), GridEntry(CEILING), GridEntry(CEILING, variant=TWO_PASSES)]
BASIC = [*FIXED, *(GridEntry(name) for name in BASELINES)]

MEMBERS = "gbt(objective=log) mlp"
MOSES = {"form": "moses", "hidden": 512, "bins": 0}
"""Moses' network: two hidden layers of 512, without costhub's bins; it learns by the rank loss."""

COMPARISON = [
    *BASIC,
    *(GridEntry("gbt", spec, objective) for spec in SPECS for objective in ("regression", "log", "rank", "lambdarank")),
    *(
        GridEntry("mlp", spec, objective)
        for spec in (STORE, TILES)
        for objective in ("regression", "rank", "lambdarank", "gap")
    ),
    *(GridEntry("mlp", spec, objective) for spec in (RELATION, ALL) for objective in ("rank", "gap")),
    *(GridEntry("mlp", spec, "gap", {"hidden": 512}, "hidden 512") for spec in (STORE, TILES)),
    *(GridEntry("mlp", spec, "rank", MOSES, "2 x 512 as in Moses") for spec in (STORE, TILES)),
    *(GridEntry("treegru", LOOPS, objective) for objective in ("regression", "rank", "gap")),
    *(GridEntry("tokens", TOKENS, objective) for objective in ("regression", "rank", "gap")),
    *(GridEntry("ensemble", spec) for spec in (STORE, TILES)),
    *(GridEntry("blend", spec, options={"members": MEMBERS}) for spec in (STORE, TILES)),
    GridEntry("blend", BLENDED, options={"members": f"gbt(objective=log):{TILES} mlp:{TILES} tokens:{TOKENS}"}),
]
"""Every model, with every objective and spec that suits it."""

ABLATIONS = [
    *FIXED,
    *(GridEntry("gbt", spec, "log") for spec in SPECS),
    *(GridEntry("mlp", spec, "gap") for spec in SPECS),
    *(GridEntry("gbt", TILES, objective) for objective in ("regression", "rank", "lambdarank")),
    *(GridEntry("mlp", TILES, objective) for objective in ("regression", "rank", "lambdarank")),
    *(GridEntry("gbt", TILES, "log", {"depth": depth}, f"depth {depth}") for depth in (3, 5, 8, 12)),
    *(GridEntry("gbt", TILES, "log", {"rounds": rounds}, f"{rounds} trees") for rounds in (50, 150, 400, 1200)),
    *(GridEntry("mlp", TILES, "gap", {"hidden": hidden}, f"hidden {hidden}") for hidden in (32, 64, 128, 256, 512)),
    *(GridEntry("mlp", TILES, "gap", {"members": members}, f"{members} members") for members in (1, 3, 5)),
    *(GridEntry("mlp", TILES, "gap", {"bins": bins}, f"{bins} bins") for bins in (0, 4, 8, 16)),
    *(GridEntry("gbt", TILES, objective, variant="with failures", failures=True) for objective in ("log", "rank")),
    GridEntry("mlp", TILES, "gap", variant="with failures", failures=True),
]
"""What each choice of feature spec, objective and size is worth."""


@dataclass(frozen=True)
class Choice:
    """What an option can be set to, and what it is in the shipped models."""

    shipped: str
    settings: Mapping[str, GridEntry]
    """Name -> a line of ABLATIONS."""

    @property
    def model(self) -> str:
        """The architecture that has the option."""
        return self.settings[self.shipped].model


def _sizes(base: GridEntry, option: str, words: str, sizes: Sequence[int], shipped: int) -> Choice:
    """The settings of a number; the shipped one is the default, so it is the line that sets nothing."""
    settings = {
        str(size): base if size == shipped else replace(base, options={option: size}, variant=words.format(size))
        for size in sizes
    }
    return Choice(str(shipped), settings)


_TREES, _NETWORK = GridEntry("gbt", TILES, "log"), GridEntry("mlp", TILES, "gap")
_SPEC_NAMES = {STORE: STORE, RELATION: RELATION, TILES: TILES, ALL: "all three"}
_LOSSES = ("regression", "rank", "lambdarank")
CHOICES = {
    "features of trees": Choice(TILES, {name: replace(_TREES, spec=spec) for spec, name in _SPEC_NAMES.items()}),
    "objective of trees": Choice("log", {name: replace(_TREES, objective=name) for name in ("log", *_LOSSES)}),
    "depth of trees": _sizes(_TREES, "depth", "depth {}", (3, 5, 8, 12), shipped=8),
    "number of trees": _sizes(_TREES, "rounds", "{} trees", (50, 150, 400, 1200), shipped=400),
    "features of networks": Choice(TILES, {name: replace(_NETWORK, spec=spec) for spec, name in _SPEC_NAMES.items()}),
    "objective of networks": Choice("gap", {name: replace(_NETWORK, objective=name) for name in ("gap", *_LOSSES)}),
    "hidden units": _sizes(_NETWORK, "hidden", "hidden {}", (32, 64, 128, 256, 512), shipped=256),
    "bins": _sizes(_NETWORK, "bins", "{} bins", (0, 4, 8, 16), shipped=8),
}
"""Option -> what it was chosen from by the figures of tested workloads."""
CHOOSING = list({entry.label: entry for choice in CHOICES.values() for entry in choice.settings.values()}.values())
"""The lines of ABLATIONS between which CHOICES choose, each once."""

_LEARNERS = [
    GridEntry("gbt", TILES, "log"),
    GridEntry("mlp", TILES, "gap"),
    GridEntry("TVM recipe"),
    GridEntry("TenSet recipe"),
]
LEARNING = [
    *(replace(entry, share=1 / 2**k, variant=f"programs 1/{2**k}") for entry in _LEARNERS for k in range(7)),
    *(replace(entry, workloads=2**k, variant=f"workloads {2**k}") for entry in _LEARNERS for k in range(1, 10)),
]
"""Quality against the number of programs of each workload, and against the number of workloads."""

CONFIGURATION = [
    FIXED[0],
    *(
        GridEntry(model, spec, objective)
        for model, objective in (("gbt", "rank"), ("gbt", "log"), ("mlp", "gap"))
        for spec in (DECISIONS, STORE, RELATION, TILES)
    ),
]
"""The configuration space itself, the decisions of a trace, beside features of the program (AutoTVM, figure 9)."""

TRANSFER = [
    *FIXED,
    *(GridEntry("gbt", spec, objective) for objective in ("rank", "log") for spec in (DECISIONS, *SPECS)),
    *(GridEntry("mlp", spec, "gap") for spec in (DECISIONS, *SPECS)),
    GridEntry("treegru", LOOPS, "rank"),
    GridEntry("tokens", TOKENS, "rank"),
]
"""Which features carry over from convolutions to other convolutions and operators (AutoTVM, figure 9)."""

QUICK = [*BASIC, GridEntry("gbt", TILES, "log"), GridEntry("mlp", TILES, "gap", {"epochs": 10}, "10 epochs")]

BEST = [
    *BASIC,
    *(GridEntry("gbt", spec, objective) for spec, objective in ((STORE, "regression"), (TILES, "log"))),
    *(GridEntry("mlp", spec, "gap") for spec in (STORE, TILES)),
    GridEntry("blend", TILES, options={"members": MEMBERS}),
]
"""What is worth running everywhere."""

TOP = [
    *(GridEntry("gbt", TILES, objective) for objective in ("regression", "log", "rank")),
    *(
        GridEntry("gbt", TILES, "lambdarank", {"pairs": pairs, "grades": grades}, f"{which}, {gain}")
        for grades, gain in ((0.0, "linear gain"), (4.0, "exponential gain"))
        for pairs, which in ((ALL_PAIRS, "all pairs"), (8, "pairs with the first 8"))
    ),
]
"""Losses for the head of the list. The first is the default of `gbt`, the second that of the trees in `MEMBERS`."""

JOINT = [
    *BASIC,
    *(
        GridEntry("conditioned", TILES, objective, {"base": base}, f"all devices, {base}", joint=True)
        for base, objective in (("gbt", "log"), ("mlp", "gap"), ("blend", ""))
    ),
]
"""One model of all devices of the folder, tested on each."""

SHIPPED = dict(option.split("=", 1) for option in ANY_DEVICE)
"""Options of the shipped model of all CPUs, a blend."""
_OF_ALL = [
    GridEntry("conditioned", TILES, options={**SHIPPED, "members": members}, variant=name, joint=True)
    for name, members in (("trees", SHIPPED["members"].split()[0]), ("blend", SHIPPED["members"]))
]
LEARNING_JOINT = [
    *(
        replace(entry, share=1 / 2**k, variant=f"{entry.variant}, programs 1/{2**k}")
        for entry in _OF_ALL
        for k in range(7)
    ),
    *(
        replace(entry, workload_share=1 / 2**k, variant=f"{entry.variant}, workloads 1/{2**k}")
        for entry in _OF_ALL
        for k in range(1, 6)
    ),
]
"""The shipped recipe and its trees alone against the programs of all devices, and against their workloads."""

GRIDS = {
    "recipes": BASIC,
    "comparison": COMPARISON,
    "ablations": ABLATIONS,
    "choices": CHOOSING,
    "learning": LEARNING,
    "learning-joint": LEARNING_JOINT,
    "transfer": TRANSFER,
    "configuration": CONFIGURATION,
    "best": BEST,
    "joint": JOINT,
    "top": TOP,
    "quick": QUICK,
}
