"""What a stranger may put into a .pt2: each kind ends in a sentence, and in nothing else."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from costhub.collector.workloads.exported_file import _is_formula, load_exported
from costhub.collector.workloads.network_source import read_torch
from costhub.errors import WorkloadError

# torch copies an exported program with a part of itself that it warns of.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning"),
]

Entries = dict[str, bytes]
Spoil = Callable[[Entries], object]
CODE = "open('exploded', 'w')"
GRAPH = "n/models/model.json"


class Bomb:
    """Unpickling it writes a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (CODE,)


class Network(nn.Module):
    """With a constant, a buffer, a size that is left open, a condition on it, and a part without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.constant = torch.arange(4.0)
        self.linear = nn.Linear(4, 4)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 2 == 0:
            x = x * 2
        with torch.no_grad():
            x = self.linear(x)
        return torch.cat([x, x + self.constant]) + self.shift


@pytest.fixture(scope="module")
def exported() -> Entries:
    """The files of a sound archive."""
    program = torch.export.export(
        Network().eval(), (torch.ones(4, 4),), dynamic_shapes=({0: torch.export.Dim.AUTO},), strict=False
    )
    written = io.BytesIO()
    torch.export.save(program, written)
    with zipfile.ZipFile(written) as archive:
        entries = {name.replace("archive/", "n/", 1): archive.read(name) for name in archive.namelist()}
    assert json.loads(entries[GRAPH])["guards_code"]
    assert b"Symbol('s" in entries[GRAPH]
    return entries


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(entries: Entries, **options: Any) -> Path:
        path = tmp_path / "n.pt2"
        with zipfile.ZipFile(path, "w", **options) as archive:
            for name, data in entries.items():
                archive.writestr(name, data)
        return path

    return write


def test_a_network_with_all_that_a_graph_may_hold_is_read(exported: Entries, write: Callable[..., Path]) -> None:
    network, (value,) = read_torch(str(write(exported)))

    assert network(value).shape == (8, 4)


def test_the_format_of_earlier_torch_is_read(exported: Entries, write: Callable[..., Path]) -> None:
    from torch._export.serde.serialize import serialize

    made = serialize(torch.export.export(nn.Linear(3, 2).eval(), (torch.ones(1, 3),)))
    path = write(
        {
            "version": b"8.20",
            "serialized_exported_program.json": made.exported_program,
            "serialized_state_dict.pt": made.state_dict,
            "serialized_constants.pt": made.constants,
            "serialized_example_inputs.pt": made.example_inputs,
        }
    )

    assert read_torch(str(path))[0](torch.ones(1, 3)).shape == (1, 2)


def pickled(value: object) -> bytes:
    written = io.BytesIO()
    torch.save(value, written)
    return written.getvalue()


def graph(change: Callable[[dict[str, Any]], object]) -> Spoil:
    def spoil(entries: Entries) -> None:
        program = json.loads(entries[GRAPH])
        change(program)
        entries[GRAPH] = json.dumps(program).encode()

    return spoil


def nodes(program: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = program["graph_module"]["graph"]["nodes"]
    return found


def payload(kind: str, path_name: str, data: bytes) -> Spoil:
    """Adds a weight or a constant that is pickled."""

    def spoil(entries: Entries) -> None:
        place = f"n/data/{kind}/model_{kind}_config.json"
        content = json.loads(entries[place])
        first = dict(next(iter(content["config"].values())))
        content["config"]["evil"] = {**first, "path_name": path_name, "use_pickle": True}
        entries[place] = json.dumps(content).encode()
        entries[f"n/data/{kind}/{path_name}"] = data

    return spoil


def call(target: str) -> Spoil:
    """The first node calls a function of Python with the code as its argument."""

    def change(program: dict[str, Any]) -> None:
        argument = {"name": "", "arg": {"as_string": CODE}, "kind": 1}
        nodes(program)[0].update(target=target, inputs=[argument])

    return graph(change)


def renamed(program: dict[str, Any]) -> None:
    """Every name of the input becomes code."""
    text = json.dumps(program).replace('"name": "x"', json.dumps({"name": f"x={CODE}"})[1:-1])
    program.update(json.loads(text))


def with_sizes(expression: str) -> Spoil:
    def spoil(entries: Entries) -> None:
        text = entries[GRAPH].decode()
        symbol = next(name for name in json.loads(text)["range_constraints"])
        old = f"Symbol('{symbol}', positive=True, integer=True)"
        assert old in text
        entries[GRAPH] = text.replace(json.dumps(old), json.dumps(expression)).encode()

    return spoil


def forward_arguments(program: dict[str, Any]) -> None:
    program["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = [f"x=[{CODE}]"]


def form_of_inputs(program: dict[str, Any]) -> None:
    signature = program["graph_module"]["module_call_graph"][0]["signature"]
    spec = json.loads(signature["in_spec"])
    spec[1]["children_spec"][1]["context"] = json.dumps([f'"+{CODE}+"'])
    signature["in_spec"] = json.dumps(spec)


HOSTILE: dict[str, tuple[Spoil, str]] = {
    "sample-inputs": (lambda e: e.update({"n/data/sample_inputs/model.pt": pickled(Bomb())}), "more than tensors"),
    "old-pickle": (lambda e: e.update({"n/data/sample_inputs/model.pt": pickle.dumps(Bomb())}), "more than tensors"),
    "legacy-weights": (lambda e: e.update({"n/data/weights/model.pt": pickled(Bomb())}), "more than tensors"),
    "legacy-constants": (lambda e: e.update({"n/data/constants/model.pt": pickled(Bomb())}), "more than tensors"),
    "weight": (payload("weights", "weight_99", pickled(Bomb())), "weight_99 in it holds more than tensors"),
    "constant": (payload("constants", "tensor_99", pickled(Bomb())), "tensor_99 in it holds more than tensors"),
    "opaque": (payload("constants", "opaque_obj_0", pickle.dumps(Bomb())), "it holds a pickle"),
    "object": (payload("constants", "custom_obj_0", b"PK"), "an object of a custom class"),
    "elsewhere": (
        payload("constants", "../../opaque_obj_0", b""),
        "'../../opaque_obj_0', which is not a|does not",
    ),
    "compiled": (lambda e: e.update({"n/data/aotinductor/model/a.so": b"\x7fELF"}), "it holds compiled code"),
    "unknown": (lambda e: e.update({"n/data/evil.pkl": pickle.dumps(Bomb())}), "'data/evil.pkl', which torch.export"),
    "two-folders": (lambda e: e.update({"m/byteorder": b"little"}), "not in one folder"),
    "no-json": (lambda e: e.update({GRAPH: b"{"}), "models/model.json in it is not JSON"),
    "deep-json": (lambda e: e.update({GRAPH: b"[" * 100_000}), "models/model.json in it is not JSON"),
    "system": (call("torch.os.system"), "the target 'torch.os.system'"),
    "library": (call("torch.ops.load_library"), "the target 'torch.ops.load_library'"),
    "exec": (call("torch.ops.aten.add.__init__.__globals__"), "the target"),
    "dunder": (call("_operator.__builtins__.exec"), "the target"),
    "from-file": (call("torch.ops.aten.from_file.default"), "the target"),
    "hop": (call("torch.ops.higher_order.triton_kernel_wrapper_functional"), "the target"),
    "operator": (
        graph(lambda p: nodes(p)[0]["inputs"][0].update(arg={"as_operator": "torch.hub.load"})),
        "as_operator",
    ),
    "guard": (graph(lambda p: p.update(guards_code=[f"{CODE} is None"])), "the guards_code"),
    "name": (graph(renamed), "the name"),
    "forward": (graph(forward_arguments), "the forward_arg_names"),
    "form": (graph(form_of_inputs), "in its graph is no"),
    "parameter": (
        graph(lambda p: p["graph_module"]["signature"]["input_specs"][0].update(evil=f'a.b")+{CODE}+("')),
        "the evil",
    ),
    "size": (with_sizes(CODE), "the expr_str"),
    "size-import": (with_sizes(f"__import__('builtins').{CODE}"), "the expr_str"),
    "objects": (
        graph(lambda p: p["graph_module"]["graph"].update(custom_obj_values={"a": {"name": "a", "class_fqn": "b"}})),
        "objects of custom classes",
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_could_run_is_refused_and_does_not_run(
    kind: str, exported: Entries, write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    entries = dict(exported)
    spoil, sentence = HOSTILE[kind]
    spoil(entries)
    assert entries != exported

    with pytest.raises(WorkloadError, match=sentence):
        load_exported(write(entries))

    assert not (tmp_path / "exploded").exists()


def test_a_pickle_that_was_not_looked_at_does_not_run_either(
    exported: Entries, write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch tries a pickle again without the check where the check fails."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("costhub.collector.workloads.exported_file._check", lambda file: None)
    path = write({**exported, "n/data/sample_inputs/model.pt": pickled(Bomb())})

    with pytest.raises(Exception, match="Weights only load failed"):
        load_exported(path)

    assert not (tmp_path / "exploded").exists()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


def test_weights_on_a_device_that_torch_lacks_are_refused(exported: Entries, write: Callable[..., Path]) -> None:
    place = "n/data/weights/model_weights_config.json"
    assert b'"type": "cpu"' in exported[place]
    entries = {**exported, place: exported[place].replace(b'"type": "cpu"', b'"type": "xla"')}

    with pytest.raises(
        WorkloadError, match=r"exported on 'xla', a device that torch cannot use here; export network\.cpu"
    ):
        load_exported(write(entries))


def test_an_archive_that_grows_is_refused(exported: Entries, write: Callable[..., Path]) -> None:
    with pytest.raises(WorkloadError, match="compressed files"):
        load_exported(write({**exported, "n/extra/a": bytes(1 << 20)}, compression=zipfile.ZIP_DEFLATED))


def test_an_archive_with_a_name_twice_is_refused(exported: Entries, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "n.pt2", "w") as archive:
        for name, data in [*exported.items(), (GRAPH, exported[GRAPH])]:
            archive.writestr(name, data)

    with pytest.raises(WorkloadError, match="occurs twice"):
        load_exported(tmp_path / "n.pt2")


@pytest.mark.parametrize("content", [b"", b"broken", b"PK\x05\x06" + bytes(18), pickle.dumps(Bomb())])
def test_a_file_that_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "n.pt2").write_bytes(content)

    with pytest.raises(WorkloadError, match=r"not an archive|holds 0 files"):
        load_exported(tmp_path / "n.pt2")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "n.pt2")

    with pytest.raises(WorkloadError, match="is a named pipe"):
        load_exported(tmp_path / "n.pt2")


@pytest.mark.parametrize(
    "formula",
    [
        "Symbol('s77', positive=True, integer=True)",
        "Mul(Symbol('s17', positive=True), Add(Integer(-2), Symbol('u0', integer=True)))",
        "GreaterThan(Symbol('u0', integer=True), Integer(0))",
        "(L['x'].size()[0] % 2) == 0 and not L['y'].stride()[1] < 3.5",
        "Max(1, (((s0 - 1)//2)))",
    ],
)
def test_formulas_of_sizes_pass(formula: str) -> None:
    assert _is_formula(formula)


@pytest.mark.parametrize(
    "formula",
    [
        "exit()",
        "open('x')",
        "().__class__",
        "s0.__class__",
        "L['x'].numpy()",
        "Symbol('__import__(1)')",
        "[x for x in L]",
        "lambda: 0",
        "(s0 := 1)",
        "f'{s0}'",
        "2 ** 2 ** 40",
        "1 << 2 ** 40",
        "sympify('exit()')",
        "(1)(2)",
        "L['x']()",
        "x" * 20_000,
        "(" * 5_000 + ")" * 5_000,
        "1; import os",
        "",
    ],
)
def test_other_formulas_do_not(formula: str) -> None:
    assert not _is_formula(formula)
