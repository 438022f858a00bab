"""Provides check_booster: whether an XGBoost document holds trees that XGBoost can traverse within bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from costhub.models.inputs import MOST_FEATURE, MOST_WEIGHT

MAX_TREE_DEPTH = 16
"""Splits from the root to a leaf; the option `depth` allows no more."""
OBJECTIVES = ("reg:squarederror", "rank:pairwise", "rank:ndcg")
"""The objectives that costhub trains with."""
VERSION = 3
"""The major version of XGBoost whose files are read."""
_NO_PARENT = 2**31 - 1
_NUMBER = re.compile(r"-?\d{1,10}(\.\d{1,10})?(E[+-]?\d{1,3})?", re.ASCII)
_COUNT = re.compile(r"0|[1-9]\d{0,9}", re.ASCII)

Ints = npt.NDArray[np.int64]


class TreeFault(ValueError):
    """The document holds something that XGBoost did not write for costhub; the message is a phrase."""


def check_booster(document: Mapping[str, Any]) -> None:
    """Refuses a document that XGBoost would read, and then crash on or predict nonsense with.

    XGBoost checks neither the children of a node nor the columns it splits, so a bad one is an address outside
    its arrays. Every key is checked, and unknown ones are refused: a later XGBoost may read them.

    Args:
        document: What `read_ubjson` returns.

    Raises:
        TreeFault: The document is not what XGBoost writes after costhub's training.
    """
    _keys(document, "the file", ("learner", "version"))
    learner = _keys(
        document["learner"],
        "learner",
        ("feature_names", "feature_types", "gradient_booster", "learner_model_param", "objective", "attributes"),
    )
    _check_version(document["version"])
    _check_attributes(learner["attributes"])
    _check_objective(learner["objective"])
    features = _check_parameters(learner["learner_model_param"])
    for name in ("feature_names", "feature_types"):
        _expect(_is_empty(learner[name]), f"it has {name}, which costhub gives to none")
    booster = _keys(learner["gradient_booster"], "gradient_booster", ("model", "name"))
    _one_of("gbtree")(booster["name"], "the kind of booster")
    _check_model(booster["model"], features)


def _expect(condition: bool, fault: str) -> None:
    if not condition:
        raise TreeFault(fault)


def _keys(value: object, what: str, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """An object that has all of the required keys, possibly the optional ones, and no others."""
    if not isinstance(value, dict):
        raise TreeFault(f"{what} is not an object")
    if value.keys() == set(required):  # nearly always, and there are thousands of objects
        return value
    missing = [key for key in required if key not in value]
    _expect(not missing, f"{what} lacks {missing[0] if missing else ''}")
    unknown = [key for key in value if key not in required and key not in optional]
    _expect(not unknown, f"{what} has the unknown key {unknown[0] if unknown else ''!r:.40}")
    return value


def _is_empty(value: object) -> bool:
    return isinstance(value, list | np.ndarray) and len(value) == 0


def _are_integers(value: object, expected: Sequence[int]) -> bool:
    return isinstance(value, list) and all(type(number) is int for number in value) and value == expected


def _check_version(version: object) -> None:
    sound = isinstance(version, list) and len(version) == 3 and all(type(n) is int and 0 <= n < 1000 for n in version)
    _expect(sound, "its version is not three numbers")
    assert isinstance(version, list)  # noqa: S101 - for mypy
    _expect(version[0] == VERSION, f"XGBoost {'.'.join(map(str, version))} wrote it; files of XGBoost 3 are read")


def _check_attributes(attributes: object) -> None:
    """Checks the texts that hold the progress of a training run, which XGBoost does not interpret."""
    sound = isinstance(attributes, dict) and all(isinstance(text, str) for text in attributes.values())
    _expect(sound, "its attributes are not strings")


def _number(text: object, what: str, *, least: float = -MOST_WEIGHT, most: float = MOST_WEIGHT) -> None:
    sound = isinstance(text, str) and _NUMBER.fullmatch(text) is not None and least <= float(text) <= most
    _expect(sound, f"{what} is {text!r:.40}, no number from {least:g} to {most:g}")


def _count(text: object, what: str) -> int:
    if not isinstance(text, str) or not _COUNT.fullmatch(text):
        raise TreeFault(f"{what} is {text!r:.40}, no whole number")
    return int(text)


def _one_of(*choices: str) -> Callable[[object, str], None]:
    def check(text: object, what: str) -> None:
        # An array would be compared entry by entry.
        _expect(isinstance(text, str) and text in choices, f"{what} is {text!r:.40}, not {' or '.join(choices)}")

    return check


def _check_objective(objective: object) -> None:
    name = objective.get("name") if isinstance(objective, dict) else None
    _one_of(*OBJECTIVES)(name, "its objective")
    ranks = name != OBJECTIVES[0]
    parameters = "lambdarank_param" if ranks else "reg_loss_param"
    checks = _RANK_PARAMETERS if ranks else _LOSS_PARAMETERS
    values = _keys(_keys(objective, "objective", ("name", parameters))[parameters], parameters, tuple(checks))
    for key, check in checks.items():
        check(values[key], key)


def _check_pairs(text: object, what: str) -> None:
    _expect(1 <= _count(text, what) <= 100_000, f"{what} is {text!r:.40}, not 1 to 100000")


_LOSS_PARAMETERS: Mapping[str, Callable[[object, str], None]] = {"scale_pos_weight": _number}
_RANK_PARAMETERS: Mapping[str, Callable[[object, str], None]] = {
    "lambdarank_bias_norm": _number,
    "lambdarank_normalization": _one_of("0", "1"),
    "lambdarank_num_pair_per_sample": _check_pairs,
    "lambdarank_pair_method": _one_of("topk"),
    "lambdarank_score_normalization": _one_of("0", "1"),
    # With another value, XGBoost would read two more lists of numbers.
    "lambdarank_unbiased": _one_of("0"),
    "ndcg_exp_gain": _one_of("0", "1"),
}


def _check_parameters(value: object) -> int:
    """The number of features."""
    keys = ("base_score", "boost_from_average", "num_class", "num_feature", "num_target")
    parameters = _keys(value, "learner_model_param", keys)
    base = parameters["base_score"]
    # XGBoost 3.0 writes a number, later ones a list of one.
    is_list = isinstance(base, str) and base.startswith("[") and base.endswith("]")
    _number(base[1:-1] if is_list else base, "base_score")
    _one_of("0", "1")(parameters["boost_from_average"], "boost_from_average")
    _one_of("0")(parameters["num_class"], "num_class")
    _one_of("1")(parameters["num_target"], "num_target")
    return _count(parameters["num_feature"], "num_feature")


def _check_model(value: object, features: int) -> None:
    model = _keys(value, "model", ("gbtree_model_param", "iteration_indptr", "tree_info", "trees"), ("cats",))
    trees = model["trees"]
    if not isinstance(trees, list) or not trees:
        raise TreeFault("it holds no trees")
    parameters = _keys(model["gbtree_model_param"], "gbtree_model_param", ("num_parallel_tree", "num_trees"))
    _one_of("1")(parameters["num_parallel_tree"], "num_parallel_tree")
    stated = _count(parameters["num_trees"], "num_trees")
    _expect(stated == len(trees), f"it says {stated} trees and holds {len(trees)}")
    _expect(_are_integers(model["tree_info"], [0] * len(trees)), "its trees are not all of one group")
    ends = [*range(len(trees) + 1)]
    _expect(_are_integers(model["iteration_indptr"], ends), "its trees are not one for each iteration")
    if "cats" in model:
        for name, held in _keys(model["cats"], "cats", ("enc", "feature_segments", "sorted_idx")).items():
            _expect(_is_empty(held), f"it has categories ({name}), which costhub does not use")
    _check_trees(trees, features)


_FLOATS = {"base_weights": MOST_FEATURE, "loss_changes": None, "split_conditions": MOST_FEATURE, "sum_hessian": None}
"""Numbers of a node, and the largest magnitude allowed; for those that are only shown, any finite number."""
_INTS = ("default_left", "left_children", "parents", "right_children", "split_indices", "split_type")
_CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
_TREE_KEYS = (*_FLOATS, *_INTS, *_CATEGORIES, "id", "tree_param")
_TREE_PARAMETERS = ("num_deleted", "num_feature", "num_nodes", "size_leaf_vector")
_is_zero, _is_bit = _one_of("0"), _one_of("0", "1")


def _check_trees(trees: Sequence[Any], features: int) -> None:
    """Checks the nodes of all trees at once, which takes a tenth of the time of checking tree by tree."""
    sizes = np.array([_tree_size(number, tree, features) for number, tree in enumerate(trees)], np.int64)
    ints = {name: np.concatenate([tree[name] for tree in trees]).astype(np.int64) for name in _INTS}
    floats = {name: np.concatenate([tree[name] for tree in trees]).astype(np.float32) for name in _FLOATS}
    for name, most in _FLOATS.items():
        bound = np.finfo(np.float32).max if most is None else most
        # NaN is not below anything.
        _expect(bool((np.abs(floats[name]) <= bound).all()), f"a number of {name} is not finite, or beyond {bound:g}")
    leaf = ints["left_children"] == -1
    leaves = np.abs(floats["split_conditions"][leaf])
    _expect(bool((leaves <= MOST_WEIGHT).all()), f"the weight of a leaf is beyond {MOST_WEIGHT:g}")
    columns = ints["split_indices"]
    _expect(
        bool(((columns >= 0) & (columns < features)).all()), f"a tree splits a column that is not one of {features}"
    )
    _expect(not ints["split_type"].any(), "a tree splits by categories, which costhub does not use")
    _expect(bool((ints["default_left"] >> 1 == 0).all()), "default_left is neither 0 nor 1")
    _check_shape(sizes, leaf, ints)


def _tree_size(number: int, value: object, features: int) -> int:
    """The number of nodes of a tree whose arrays all have an entry for each node."""
    tree = _keys(value, f"tree {number}", _TREE_KEYS)
    parameters = _keys(tree["tree_param"], "tree_param", _TREE_PARAMETERS)
    _expect(type(tree["id"]) is int and tree["id"] == number, f"tree {number} has the wrong id")
    _is_zero(parameters["num_deleted"], "num_deleted")
    _is_bit(parameters["size_leaf_vector"], "size_leaf_vector")
    own = _count(parameters["num_feature"], "num_feature")
    _expect(own == features, f"tree {number} reads {own} features, the model {features}")
    size = _count(parameters["num_nodes"], "num_nodes")
    _expect(size >= 1, f"tree {number} has no node")
    for names, is_float in ((_FLOATS, True), (_INTS, False)):
        for name in names:
            array = tree[name]
            if not isinstance(array, np.ndarray) or len(array) != size or (array.dtype.kind == "f") is not is_float:
                raise TreeFault(f"{name} of tree {number} is not a number for each of {size} nodes")
    if any(not _is_empty(tree[name]) for name in _CATEGORIES):
        raise TreeFault(f"tree {number} has categories, which costhub does not use")
    return size


def _check_shape(sizes: Ints, leaf: npt.NDArray[np.bool_], ints: Mapping[str, Ints]) -> None:
    """Checks that the nodes of each tree form one tree, rooted at its first node.

    Args:
        sizes: (t,) number of nodes of each tree.
        leaf: (n,) whether a node of any tree has no left child.
        ints: Name -> (n,) numbers of each node, tree after tree.
    """
    roots = np.array([0, *accumulate(sizes.tolist())][:-1], np.int64)
    first, most = np.repeat(roots, sizes), np.repeat(sizes, sizes)
    inner = np.flatnonzero(~leaf)
    right = ints["right_children"]
    _expect(bool((right[leaf] == -1).all()), "a node has one child")
    pairs = np.stack([ints["left_children"][inner], right[inner]])
    _expect(bool(((pairs > 0) & (pairs < most[inner])).all()), "a child is not a node of its tree")
    pairs += first[inner]
    times = np.bincount(pairs.ravel(), minlength=len(leaf))
    times[roots] += 1  # a root has no parent, every other node has one
    _expect(bool((times == 1).all()), "a node has no parent or two")
    parents = np.full(len(leaf), _NO_PARENT, np.int64)
    parents[pairs] = inner - first[inner]
    _expect(bool((ints["parents"] == parents).all()), "a node names another parent than the node that it is a child of")
    place = np.full(len(leaf), -1, np.int64)
    place[inner] = np.arange(len(inner))
    level, reached = place[roots][place[roots] >= 0], len(roots)
    for _ in range(MAX_TREE_DEPTH):
        children = pairs[:, level].ravel()
        reached += len(children)
        level = place[children][place[children] >= 0]
    _expect(not len(level), f"a tree is deeper than {MAX_TREE_DEPTH}")
    # Nodes that are each other's parents lead nowhere.
    _expect(reached == len(leaf), "a node cannot be reached from the root of its tree")
