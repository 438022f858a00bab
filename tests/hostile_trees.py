"""Spoils files of trees, as a stranger might: each form has made XGBoost crash, hang or predict nonsense."""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from costhub.models.trees.ubjson import read_ubjson

Document = dict[str, Any]
Change = Callable[[Document], object]
_TYPES = {">f4": b"d", ">i4": b"l", ">i8": b"L", "|u1": b"U"}
FAR = 2_000_000_000


def write_ubjson(value: Any) -> bytes:
    """The bytes that XGBoost writes for a value that `read_ubjson` gives."""
    if isinstance(value, dict):
        return b"{" + b"".join(_text(key) + write_ubjson(each) for key, each in value.items()) + b"}"
    if isinstance(value, str):
        return b"S" + _text(value)
    if isinstance(value, np.ndarray):
        return b"[$" + _TYPES[value.dtype.str] + b"#" + _length(len(value)) + value.tobytes()
    if isinstance(value, list):
        return b"[#" + _length(len(value)) + b"".join(map(write_ubjson, value))
    for kind, form, most in ((b"i", ">b", 2**7), (b"I", ">h", 2**15), (b"l", ">i", 2**31), (b"L", ">q", 2**63)):
        if -most <= value < most:
            return kind + struct.pack(form, value)
    raise AssertionError(value)


def _length(number: int) -> bytes:
    return b"L" + struct.pack(">q", number)


def _text(text: str) -> bytes:
    return _length(len(text)) + text.encode()


def spoiled(data: bytes, change: Change) -> bytes:
    """The file after a change of what it says."""
    document = read_ubjson(data)
    _make_writable(document)
    change(document)
    return write_ubjson(document)


def _make_writable(value: Any) -> None:
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(each, np.ndarray):
            value[key] = each.copy()
        elif isinstance(each, dict | list):
            _make_writable(each)


def trees_of(document: Document) -> list[Document]:
    trees: list[Document] = document["learner"]["gradient_booster"]["model"]["trees"]
    return trees


def _inner(tree: Document) -> int:
    """The last node with children: the root, if it is the only one."""
    return int(np.flatnonzero(tree["left_children"] >= 0)[-1])


def _leaf(tree: Document) -> int:
    return int(np.flatnonzero(tree["left_children"] < 0)[0])


def _set(name: str, where: Callable[[Document], int], value: float) -> Change:
    def change(document: Document) -> None:
        for tree in trees_of(document):
            tree[name][where(tree)] = value

    return change


def _root(_: Document) -> int:
    return 0


def _cycle(document: Document) -> None:
    """A node and its child become each other's parents, and nothing leads to them."""
    tree = max(trees_of(document), key=lambda tree: len(tree["parents"]))
    node = next(i for i in np.flatnonzero(tree["left_children"] >= 0) if i and tree["left_children"][i] > 0)
    child = int(tree["left_children"][node])
    tree["left_children"][child], tree["right_children"][child] = node, tree["right_children"][node]
    tree["parents"][node] = child


def _of_model(*keys: str, value: Any) -> Change:
    def change(document: Document) -> None:
        place = document["learner"]
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


def _shorter(name: str) -> Change:
    def change(document: Document) -> None:
        trees_of(document)[0][name] = trees_of(document)[0][name][:-1].copy()

    return change


def _deep(document: Document) -> None:
    value: list[Any] = []
    for _ in range(100):
        value = [value]
    document["learner"]["feature_names"] = value


def _categories(document: Document) -> None:
    tree = trees_of(document)[0]
    tree["split_type"][0] = 1
    tree["categories"] = np.array([0], ">i4")
    tree["categories_nodes"] = np.array([0], ">i4")
    tree["categories_segments"] = np.array([0], ">i8")
    tree["categories_sizes"] = np.array([2**40], ">i8")


def _chain(document: Document) -> None:
    """A tree of a thousand splits one below the other."""
    tree, splits = trees_of(document)[0], 1000
    size = 2 * splits + 1
    for name, each in tree.items():
        if isinstance(each, np.ndarray) and len(each):
            tree[name] = np.zeros(size, each.dtype)
    left, right, parents = tree["left_children"], tree["right_children"], tree["parents"]
    left[:], right[:], parents[0] = -1, -1, 2**31 - 1
    for node in range(splits):
        parent = 2 * node
        left[parent], right[parent] = parent + 1, parent + 2
        parents[parent + 1], parents[parent + 2] = parent, parent
    tree["tree_param"]["num_nodes"] = str(size)


def _share(document: Document) -> None:
    for tree in trees_of(document):
        tree["right_children"][0] = tree["left_children"][0]


def _first(document: Document, name: str, value: int) -> None:
    document["learner"]["gradient_booster"]["model"][name][0] = value


FORMS: dict[str, tuple[Change, str]] = {
    "child-oob": (_set("left_children", _root, FAR), "a child is not a node of its tree"),
    "child-oob2": (_set("right_children", _inner, FAR), "a child is not a node of its tree"),
    "feat-oob": (_set("split_indices", _inner, FAR), "a tree splits a column that is not one of"),
    "neg-child": (_set("left_children", _root, -FAR), "a child is not a node of its tree"),
    "cycle": (_cycle, "a node has no parent or two"),
    "self-root": (_set("left_children", _root, 0), "a child is not a node of its tree"),
    "one-child": (_set("left_children", _root, -1), "a node has one child"),
    "shared-child": (_share, "a node has no parent or two"),
    "nan": (_set("split_conditions", _root, np.nan), "split_conditions is not finite"),
    "inf": (_set("split_conditions", _root, -np.inf), "split_conditions is not finite"),
    "huge-threshold": (_set("split_conditions", _root, 1e38), r"beyond 1e\+12"),
    "huge-leaf": (_set("split_conditions", _leaf, 1e7), r"the weight of a leaf is beyond 1e\+06"),
    "parent": (_set("parents", _leaf, FAR), "a node names another parent"),
    "categories": (_categories, "categories"),
    "chain": (_chain, "a tree is deeper than 16"),
    "deep": (_deep, "nests objects more than 8 deep"),
    "short": (_shorter("split_indices"), "split_indices of tree 0 is not a number for each"),
    "id": (lambda d: trees_of(d)[0].update(id=FAR), "tree 0 has the wrong id"),
    "count": (
        _of_model("gradient_booster", "model", "gbtree_model_param", "num_trees", value=str(FAR)),
        f"it says {FAR} trees and holds",
    ),
    "group": (lambda d: _first(d, "tree_info", 7), "its trees are not all of one group"),
    "iterations": (lambda d: _first(d, "iteration_indptr", FAR), "its trees are not one for each iteration"),
    "parallel": (
        _of_model("gradient_booster", "model", "gbtree_model_param", "num_parallel_tree", value="0"),
        "num_parallel_tree is '0', not 1",
    ),
    "base-score": (_of_model("learner_model_param", "base_score", value="[3.0E38]"), "base_score is '3.0E38', no"),
    "base-scores": (_of_model("learner_model_param", "base_score", value="[1E0,2E0]"), "base_score is '1E0,2E0', no"),
    "classes": (_of_model("learner_model_param", "num_class", value=str(FAR)), "num_class is"),
    "features": (_of_model("learner_model_param", "num_feature", value=str(FAR)), f"the model {FAR}"),
    "objective": (_of_model("objective", value={"name": "multi:softmax"}), "its objective is 'multi:softmax'"),
    "dart": (_of_model("gradient_booster", "name", value="dart"), "the kind of booster is 'dart'"),
    "unknown-key": (_of_model("evil", value={}), "learner has the unknown key 'evil'"),
    "old": (lambda d: d.update(version=[0, 9, 0]), r"XGBoost 0\.9\.0 wrote it"),
}
"""Name -> what is changed, and the words of the sentence that refuses it."""


def mutated(data: bytes, seed: int) -> bytes:
    """The file with a few bytes flipped, cut, doubled, or with one thing changed of what it says."""
    rng = random.Random(seed)
    if seed % 2:
        return _flipped(data, rng)
    document = read_ubjson(data)
    _make_writable(document)
    trees = trees_of(document)
    for _ in range(rng.randint(1, 3)):
        _change_one(rng.choice(trees) if rng.random() < 0.7 else document, rng)
    return write_ubjson(document)


def _flipped(data: bytes, rng: random.Random) -> bytes:
    raw = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        at = rng.randrange(len(raw))
        kind = rng.randrange(8)
        if kind == 0:
            del raw[at : at + rng.choice([1, 4, 9, 100])]
        elif kind == 1:
            raw[at:at] = raw[at : at + rng.choice([1, 4, 9, 100])]
        elif kind == 2:
            raw[at] = rng.randrange(256)
        else:
            raw[at] ^= 1 << rng.randrange(8)
    return bytes(raw)


_NUMBERS = (-(2**31), -2, -1, 0, 1, 2, 3, 7, 8, 255, 256, 2**31 - 1)
_FLOATS = (np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, 1e13, 0.0, -0.0, 1.5)
_TEXTS = ("", "0", "1", "-1", "2", "3000000000", "1E400", "nan", "[nan]", "x" * 100, "gblinear", "binary:logistic")


def _change_one(place: Any, rng: random.Random) -> None:
    """Changes a value of an object, or of one in it."""
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(place[key], dict | list) and len(place[key]) and rng.random() < 0.9:
            place = place[key]
            continue
        return _replace(place, key, rng)


def _replace(place: Any, key: Any, rng: random.Random) -> None:
    value, kind = place[key], rng.randrange(10)
    if kind == 0:
        del place[key]
    elif kind == 1:
        place[key] = copy.deepcopy(rng.choice([{}, [], "1", 7, [0], {"a": "b"}, np.zeros(3, ">i4"), value]))
    elif isinstance(value, np.ndarray) and len(value) and kind > 2:
        numbers = _FLOATS if value.dtype.kind == "f" else _NUMBERS
        value[rng.randrange(len(value))] = np.array(rng.choice(numbers)).astype(value.dtype)
    elif isinstance(value, np.ndarray):
        place[key] = np.resize(value, rng.choice([0, 1, len(value) + 1, 2 * len(value)])).astype(value.dtype)
    elif isinstance(value, str):
        place[key] = rng.choice(_TEXTS)
    elif isinstance(value, int):
        place[key] = rng.choice(_NUMBERS)
    elif isinstance(value, list):
        value.append(copy.deepcopy(value[0]) if value else 0)
    else:
        value[rng.choice(["a", "cats", "id"])] = 1
