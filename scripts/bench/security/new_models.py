"""New kinds (101 to 122): tensors, trees, JSON, archives and surroundings of models that nobody had tried."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.bench.security.attempt import Attempt, Expected, no_harm, says, writes
from scripts.bench.security.data import EVALUATE as ON_DATA
from scripts.bench.security.imports import exported, network, tune
from scripts.bench.security.models import (
    EVALUATE,
    RunsCode,
    Spoil,
    content_of,
    in_config,
    in_header,
    read_tensors,
    sealed,
    text_of,
    verb,
    write_tensors,
)
from scripts.bench.security.models import WEIGHTS as TENSORS
from scripts.bench.security.names import reaches_terminal
from scripts.bench.security.place import GBT, MLP, Command, Place
from scripts.bench.security.trees import everywhere, typed

FAMILY = "new: models"
SURROGATE = "\\ud800"
"""Half a letter: JSON can say it, and no stream can write it."""


def _overlap(header: dict[str, Any]) -> None:
    names = [name for name in header if name != "__metadata__"]
    header[names[1]] = dict(header[names[0]])


def _tensor(**values: Any) -> Callable[[dict[str, Any]], object]:
    def change(header: dict[str, Any]) -> None:
        header["x"] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} | values

    return change


def _twice(folder: Path, place: Place) -> None:
    """A tensor twice in the header: two readers may take two different ones."""
    del place
    header, data = read_tensors(folder / TENSORS)
    text = json.dumps(header)
    name = next(name for name in header if name != "__metadata__")
    again = json.dumps({name: header[name] | {"data_offsets": [0, 0], "shape": [0]}})[1:-1]
    write_tensors(folder / TENSORS, ("{" + again + "," + text[1:]).encode(), bytes(data))


def _zero_scale(folder: Path, place: Place) -> None:
    del place
    header, data = read_tensors(folder / TENSORS)
    start, end = next(entry for name, entry in header.items() if name.startswith("scaler.") and "mean" not in name)[
        "data_offsets"
    ]
    data[start:end] = bytes(end - start)
    write_tensors(folder / TENSORS, header, bytes(data))


def _long(key: str) -> bytes:
    return struct.pack(">cq", b"L", len(key)) + key.encode()


def _text(value: str) -> bytes:
    return b"S" + _long(value)


def ubj_text(key: str, value: str) -> Spoil:
    """Gives a parameter of the trees, which XGBoost keeps as text, another value."""

    def spoil(folder: Path, place: Place) -> None:
        del place
        path = folder / "model.ubj"
        content = path.read_bytes()
        at = content.index(_long(key) + b"S")
        start = at + len(_long(key)) + 1
        size = struct.unpack(">q", content[start + 1 : start + 9])[0]
        path.write_bytes(content[:start] + _long(value) + content[start + 9 + size :])

    return spoil


def ubj_count(key: str, count: int, kind: bytes | None = None) -> Spoil:
    """Says that the first array of that name has so many numbers."""

    def spoil(folder: Path, place: Place) -> None:
        del place
        path = folder / "model.ubj"
        content = bytearray(path.read_bytes())
        at = content.index(_long(key) + b"[$") + len(_long(key)) + 2
        content[at : at + 1] = kind or bytes(content[at : at + 1])
        content[at + 3 : at + 11] = struct.pack(">q", count)
        path.write_bytes(content)

    return spoil


def _far_group(folder: Path, place: Place) -> None:
    """A tree whose sums go to output 127 of a model with one."""
    del place
    path = folder / "model.ubj"
    content = bytearray(path.read_bytes())
    at = content.index(_long("tree_info") + b"[#L") + len(_long("tree_info")) + 11
    assert content[at : at + 2] == b"i\x00"
    content[at + 1] = 127
    path.write_bytes(content)


def _far_rounds(folder: Path, place: Place) -> None:
    """Rounds that begin at tree 127, whatever the round."""
    del place
    path = folder / "model.ubj"
    content = bytearray(path.read_bytes())
    at = content.index(_long("iteration_indptr") + b"[#L") + len(_long("iteration_indptr")) + 11
    for number in range(3):
        content[at + 2 * number + 1] = 127 - number
    path.write_bytes(content)


def _categorical(folder: Path, place: Place) -> None:
    """Says that every split is one by category, and gives no categories."""
    del place
    path = folder / "model.ubj"
    content = bytearray(path.read_bytes())
    start, count = typed(bytes(content), "split_type")
    content[start : start + count] = b"\x01" * count
    path.write_bytes(content)


_EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
_TENSORS: tuple[tuple[str, str, Spoil], ...] = (
    ("101a", "two tensors at one place", in_header(_overlap)),
    ("101b", "a tensor twice in the header", _twice),
    ("101c", "a shape whose product overflows 64 bits", in_header(_tensor(shape=[1 << 32, 1 << 32]))),
    ("101d", "offsets beyond 64 bits", in_header(_tensor(shape=[1 << 70], data_offsets=[0, 4 << 70]))),
    ("101e", "a tensor that ends before it begins", in_header(_tensor(data_offsets=[8, 0], shape=[-2]))),
    ("101f", "a shape of 10,000 ones", in_header(_tensor(shape=[1] * 10_000 + [0]))),
    ("101g", "a tensor with a control character in its name", in_header(lambda h: h.update({"\x1b[2J": _EMPTY}))),
    ("101h", "scales of zero, by which rows are divided", _zero_scale),
)
_TREES: tuple[tuple[str, str, Spoil], ...] = (
    ("102a", "an array of 2^63 - 1 numbers", ubj_count("left_children", 2**63 - 1)),
    ("102b", "an array of -1 numbers", ubj_count("left_children", -1)),
    ("102c", "an array of 2^40 nulls, which take no bytes", ubj_count("left_children", 1 << 40, b"Z")),
    ("102d", "an array of 2^61 floats, whose bytes overflow", ubj_count("split_conditions", 1 << 61)),
    ("102e", "10^9 outputs", ubj_text("num_target", "1000000000")),
    ("102f", "10^9 classes", ubj_text("num_class", "1000000000")),
    ("102g", "leaves of 10^6 numbers", ubj_text("size_leaf_vector", "1000000")),
    ("102h", "-1 trees", ubj_text("num_trees", "-1")),
    ("102i", "10^18 trees", ubj_text("num_trees", "1000000000000000000")),
    ("102j", "10^9 parallel trees", ubj_text("num_parallel_tree", "1000000000")),
    ("102k", "a number of nodes that is none", ubj_text("num_nodes", "many")),
    ("102l", "a tree for an output that is not there", _far_group),
    ("102m", "rounds that begin beyond their end", _far_rounds),
    ("102n", "a base score of NaN", ubj_text("base_score", "[NaN]")),
    ("102o", "a base score of 3e38", ubj_text("base_score", "[3E38]")),
    ("102p", "a booster of another kind", everywhere(_long("name") + _text("gbtree"), _long("name") + _text("dart"))),
    ("102q", "an objective with a hinge", everywhere(_text("reg:squarederror"), _text("binary:hinge"))),
    ("102r", "splits by categories that are not there", _categorical),
)


_BOTH = (("check", "check M"), ("evaluate", EVALUATE))


def _normal_forms(folder: Path, place: Place) -> None:
    for name in ("caf\u00e9.json", "cafe\u0301.json"):
        (folder / name).write_text("{}")
    sealed(lambda f, p: None)(folder, place)


def _sizes(folder: Path, place: Place) -> None:
    del place
    content = json.loads((folder / "manifest.json").read_text())
    for entry in content["files"].values():
        entry["size"] = True
    (folder / "manifest.json").write_text(json.dumps(content))


_PNG = b"\x89PNG\r\n\x1a\n<script>"
_CONFIG: tuple[tuple[str, str, Spoil], ...] = (
    ("103a", "half a letter as the licence", text_of("config.json", lambda t: t.replace("Apache-2.0", SURROGATE))),
    ("103b", "a million workloads it was trained on", in_config(lambda c: c.update(train_workloads=["a" * 9] * 10**6))),
    ("103c", "a device with a Cyrillic letter", in_config(lambda c: c.update(device_id="\u0430md-epyc-zen5-2c"))),
    ("103d", "a device whose name turns the text around", in_config(lambda c: c.update(device_id="\u202eamd"))),
    ("103e", "metrics of 10^400", text_of("config.json", lambda t: t.replace('"top_1": 0', '"top_1": 1e400', 1))),
    ("103f", "rows that are -1", in_config(lambda c: c.update(data_rows=-1))),
    ("103g", "versions that are escapes", in_config(lambda c: c.update(versions={"costhub": "\x1b]0;x\x07"}))),
    ("103h", "two names that are one in another normal form", _normal_forms),
    ("103i", "sizes in the manifest that are true", _sizes),
    ("103j", "a card of 256,000 brackets", text_of("README.md", lambda t: t + "\n" + "![" * 100_000)),
    ("103k", "a picture that is HTML after its first bytes", content_of("evaluation.png", lambda p: _PNG)),
)  # fmt: skip


def _model_json(change: Callable[[dict[str, Any], str], object]) -> Callable[[Place], Command]:
    """Tunes an exported network whose graph somebody has changed."""

    def rewritten(name: str, content: bytes, place: Place) -> bytes:
        if not name.endswith("models/model.json"):
            return content
        graph = json.loads(content)
        change(graph, f"__import__('os').system('touch {place.canary}')")
        return json.dumps(graph).encode()

    return network(rewritten)


def _values(graph: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = graph["graph_module"]["graph"]["tensor_values"]
    return values


def _symbolic(graph: dict[str, Any], code: str) -> None:
    last = next(iter(reversed(_values(graph).values())))
    last["sizes"][0] = {"as_expr": {"expr_str": code, "hint": {"as_int": 1}}}


def _guarded(graph: dict[str, Any], code: str) -> None:
    graph["guards_code"] = [f"{code} == 0"]


def _system(graph: dict[str, Any], code: str) -> None:
    node = graph["graph_module"]["graph"]["nodes"][-1]
    command = code.split("'")[3]
    node |= {"target": "torch.os.system", "inputs": [{"name": "c", "arg": {"as_string": command}, "kind": 1}]}


def _huge(graph: dict[str, Any], code: str) -> None:
    del code
    for value in _values(graph).values():
        value["sizes"] = [{"as_int": 1 << 62} for _ in value["sizes"]]


def _archive(add: Callable[[zipfile.ZipFile, str, Place], object], **options: Any) -> Callable[[Place], Command]:
    """Tunes an exported network to whose archive somebody has added files."""

    def make(place: Place) -> Command:
        path = place.folder / "net.pt2"
        with zipfile.ZipFile(io.BytesIO(exported())) as old, zipfile.ZipFile(path, "w", **options) as new:
            root = old.namelist()[0].split("/")[0]
            for entry in old.infolist():
                new.writestr(entry.filename, old.read(entry))
            add(new, root, place)
        return tune(place, path)

    return make


def _library(archive: zipfile.ZipFile, root: str, place: Place) -> None:
    """A compiled library, which torch's own loader links into the process."""
    import subprocess

    source, library = place.folder / "x.c", place.folder / "x.so"
    call = f'system("touch {place.canary}")'
    source.write_text(f"#include <stdlib.h>\n__attribute__((constructor)) static void f(void) {{ {call}; }}\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    archive.writestr(f"{root}/data/aotinductor/model/x.wrapper.so", library.read_bytes())
    about = json.dumps({"AOTI_DEVICE_KEY": "cpu"})
    archive.writestr(f"{root}/data/aotinductor/model/x.wrapper_metadata.json", about)


def _bomb(archive: zipfile.ZipFile, root: str, place: Place) -> None:
    """Eight gigabytes of zeros in eight megabytes."""
    del place
    with archive.open(f"{root}/data/weights/weight_9", "w", force_zip64=True) as file:
        for _ in range(2048):
            file.write(bytes(4 << 20))


def _outside(archive: zipfile.ZipFile, root: str, place: Place) -> None:
    del place
    archive.writestr(f"{root}/../../escaped", b"x")
    archive.writestr("/tmp/costhub-escaped", b"x")  # noqa: S108 - nobody may write it


def _nul(archive: zipfile.ZipFile, root: str, place: Place) -> None:
    del place
    archive.writestr(f"{root}/models/model.json2", b"x")
    archive.infolist()[-1].filename = f"{root}/models/\0model.json"


def _says_pickle(name: str, content: bytes, place: Place) -> bytes:
    import pickle

    if name.endswith("model_constants_config.json"):
        entry = {"path_name": "constant_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
        return json.dumps({"config": {"c": entry}}).encode()
    if name.endswith("model_weights_config.json"):
        return content.replace(b'"use_pickle": false', b'"use_pickle": true')
    return pickle.dumps(RunsCode(place.canary)) if "weights/weight_" in name else content


_NETWORKS: tuple[tuple[str, str, Callable[[Place], Command]], ...] = (
    ("104a", "a size that is a Python expression", _model_json(_symbolic)),
    ("104b", "a guard that is Python code", _model_json(_guarded)),
    ("104c", "a call of torch.os.system in its graph", _model_json(_system)),
    ("104d", "tensors of 2^62 columns", _model_json(_huge)),
    ("104e", "weights that say they are pickles", network(_says_pickle)),
    ("104f", "a compiled library in its archive", _archive(_library)),
    ("104g", "a weight of 8 GB in 8 MB", _archive(_bomb, compression=zipfile.ZIP_DEFLATED)),
    ("104h", "names out of the archive", _archive(_outside)),
    ("104i", "NUL in a name", _archive(_nul)),
    ("104j", "a graph nested 100,000 deep", network(lambda n, c, p: b"[" * 100_000 if n.endswith("model.json") else c)),
)
_HARMLESS_IF_READ = {"104h", "104i", "104g"}


def surroundings(words: str, **env: str) -> Callable[[Place], Command]:
    """Runs a verb with other environment variables; PLACE stands for the folder of the place."""

    def make(place: Place) -> Command:
        place.model(name="m")
        os.mkfifo(place.folder / "pipe")
        given = {key: value.replace("PLACE", str(place.folder)) for key, value in env.items()}
        names = {"OUT": str(place.folder / "out"), "D": place.data() if " D" in words else ""}
        return place.costhub(*(names.get(word, word) for word in words.split()), **given)

    return make


_VARIABLES: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("105a", "COSTHUB_HUB is a file: address", "devices", {"COSTHUB_HUB": "file:///etc"}),
    ("105b", "COSTHUB_HUB is /proc/self", "devices", {"COSTHUB_HUB": "/proc/self"}),
    ("105c", "COSTHUB_HUB is a named pipe", "devices", {"COSTHUB_HUB": "PLACE/pipe"}),
    ("105d", "COSTHUB_CACHE is /proc", "pull amd-epyc-zen5-2c", {"COSTHUB_CACHE": "/proc"}),
    ("105e", "COSTHUB_CACHE is a file", "pull amd-epyc-zen5-2c", {"COSTHUB_CACHE": "/etc/passwd"}),
    ("105f", "COSTHUB_CACHE is a named pipe", ON_DATA, {"COSTHUB_CACHE": "PLACE/pipe"}),
    ("105g", "HF_ENDPOINT is a file: address", "pull hf-hub:a/b --out OUT", {"HF_ENDPOINT": "file:///etc"}),
    ("105h", "HF_ENDPOINT has escapes", "pull hf-hub:a/b --out OUT", {"HF_ENDPOINT": "http://\x1b]0;x\x07"}),
    ("105i", "TMPDIR is not there", ON_DATA, {"TMPDIR": "PLACE/nowhere"}),
    ("105j", "COSTHUB_CONTRIBUTE_TO has escapes", "contribute D --yes", {"COSTHUB_CONTRIBUTE_TO": "hf-hub:a/\x1b[2J"}),
)
_WORKS = {"105b", "105f", "105i"}
_HARMLESS_IN_A_MODEL = {"101h", "103b", "103g", "103k"}
"""What a sound model may hold, too: constant columns, long lists, and texts that no command prints as they are."""


def attempts() -> Iterator[Attempt]:
    """Kinds 101 to 105."""
    for kind, what, spoil in _TENSORS:
        made = verb("check M", sealed(spoil), base=MLP)
        sound = kind in _HARMLESS_IN_A_MODEL
        expected: Expected = "either" if sound else "refused"
        harm = no_harm if sound else says("a sound mlp")
        yield Attempt(kind, FAMILY, f"check, {what}", made, expected, harm=harm, quick=kind == "101b")
    for kind, what, spoil in _TREES:
        for name, words in _BOTH:
            made = verb(words, sealed(spoil), base=GBT)
            quick = kind == "102l" and name == "check"
            yield Attempt(f"{kind}-{name}", FAMILY, f"{name}, {what}", made, quick=quick)
    for kind, what, spoil in _CONFIG:
        made = verb("check M", sealed(spoil) if kind not in ("103h", "103i") else spoil, base=MLP)
        expected = "either" if kind in _HARMLESS_IN_A_MODEL else "refused"
        yield Attempt(kind, FAMILY, f"check, {what}", made, expected, harm=reaches_terminal, quick=kind == "103a")
    for kind, what, made in _NETWORKS:
        expected = "either" if kind in _HARMLESS_IF_READ else "refused"
        yield Attempt(kind, FAMILY, f"tune, a .pt2 with {what}", made, expected, harm=writes("canary"), limit_s=120)
    for kind, what, words, env in _VARIABLES:
        expected = "either" if kind in _WORKS else "refused"
        made = surroundings(words, **env)
        yield Attempt(kind, FAMILY, f"{words.split()[0]}, {what}", made, expected, harm=reaches_terminal, limit_s=60)
