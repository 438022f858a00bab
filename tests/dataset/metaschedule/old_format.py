"""Writes modules of today's TVM as older TVM did, to test that they come back."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import tvm

from costhub.dataset.trace import trace_to_json

DIALECTS = ("0.16", "0.18", "0.21", "0.23")
"""0.18 puts numbers in attributes into boxes of its own, 0.21 has none, 0.23 has tvm-ffi's layout."""

_CALLS = {
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "BitwiseNot": "bitwise_not",
    "LShift": "shift_left",
    "RShift": "shift_right",
}


@dataclass(frozen=True)
class Ref:
    """A field that is an object."""

    number: int


NULL = Ref(0)


@dataclass
class OldWriter:
    """Builds one graph; `objects` holds (type, fields) or a container's content."""

    dialect: str
    nodes: list[dict[str, Any]] = field(default_factory=list)
    made: dict[int, Ref] = field(default_factory=dict)
    alive: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.is_new = self.dialect >= "0.22"
        self.nodes.append({"type": "None"} if self.is_new else {"type_key": ""})

    def add(self, **node: Any) -> Ref:
        self.nodes.append(node)
        return Ref(len(self.nodes) - 1)

    def object(self, type_name: str, **fields: Any) -> Ref:
        fields.setdefault("span", NULL)
        if self.is_new:
            written = {k: v.number if isinstance(v, Ref) else v for k, v in fields.items()}
            return self.add(type=type_name, data=written)
        null = "null" if self.dialect == "0.21" else "0"
        texts = {k: (str(v.number) if v.number else null) if isinstance(v, Ref) else v for k, v in fields.items()}
        return self.add(
            type_key=type_name, attrs={k: str(int(v) if isinstance(v, bool) else v) for k, v in texts.items()}
        )

    def string(self, text: str) -> Ref:
        if self.is_new:
            return self.add(type="ffi.String", data=text)
        name = "ffi.String" if self.dialect == "0.21" else "runtime.String"
        return self.add(type_key=name, **({"repr_str": text} if text else {}))

    def operator(self, name: str) -> Ref:
        return self.add(type="ir.Op", data=name) if self.is_new else self.add(type_key="Op", repr_str=name)

    def array(self, items: Any, make: Any = None) -> Ref:
        numbers = [(make or self.expr)(item).number for item in items]
        if self.is_new:
            return self.add(type="ffi.Array", data=numbers)
        return self.add(type_key="Array", **({"data": numbers} if numbers else {}))

    def mapping(self, entries: dict[str, Any], make: Any) -> Ref:
        if self.is_new:
            flat = [ref.number for key, value in entries.items() for ref in (self.string(key), make(value))]
            return self.add(type="ffi.Map", data=flat)
        numbers = [make(value).number for value in entries.values()]
        return self.add(type_key="Map", **({"keys": list(entries), "data": numbers} if entries else {}))

    def pairs(self, entries: list[tuple[Ref, Ref]]) -> Ref:
        flat = [ref.number for entry in entries for ref in entry]
        return self.add(type="ffi.Map", data=flat) if self.is_new else self.add(type_key="Map", data=flat)

    def plain(self, value: Any) -> Ref:
        """A value of an attribute."""
        if isinstance(value, str):
            return self.string(str(value))
        if isinstance(value, (bool, int, float)):
            return self.number(value)
        if hasattr(value, "items"):
            return self.mapping({str(k): v for k, v in value.items()}, self.plain)
        if type(value).__name__ in ("Array", "list", "tuple"):
            return self.array(value, self.plain)
        return self.expr(value)

    def number(self, value: bool | int | float) -> Ref:
        kind = type(value).__name__
        if self.is_new:
            return self.add(type=kind, data=value)
        if self.dialect == "0.21":
            name = "v_float64" if kind == "float" else "v_int64"
            return self.add(type_key=kind, attrs={name: str(int(value) if kind == "bool" else value)})
        if self.dialect == "0.18":
            return self.add(type_key=f"runtime.Box{kind.capitalize()}", repr_str=str(value).lower())
        if kind == "float":
            return self.object("FloatImm", dtype="float32", value=value)
        return self.object("IntImm", dtype="bool" if kind == "bool" else "int32", value=int(value))

    def expr(self, node: Any) -> Ref:
        """An expression, statement or what belongs to them; each object once."""
        if node is None:
            return NULL
        key = hash(node) if type(node).__name__ == "Var" else id(node)
        if key not in self.made:
            self.alive.append(node)  # an id is unique among the living only
            self.made[key] = self._make(node)
        return self.made[key]

    def _make(self, node: Any) -> Ref:
        kind = type(node).__name__
        if kind == "Var":
            return self._buffer(node) if tvm.tirx.is_buffer_var(node) else self._variable(node)
        if kind in _CALLS:
            arguments = [node.a, node.b] if hasattr(node, "b") else [node.a]
            return self._call(node, f"tir.{_CALLS[kind]}", arguments)
        if kind == "Call":
            return self._call(node, "tir." + node.op.name.partition(".")[2], node.args)
        if kind == "SeqStmt" and type(node.seq[0]).__name__ == "Bind":
            bind, *rest = node.seq
            body = rest[0] if len(rest) == 1 else tvm.tirx.SeqStmt(rest)
            return self.object(
                "tir.LetStmt", var=self.expr(bind.var), value=self.expr(bind.value), body=self.expr(body)
            )
        make = getattr(self, f"_{kind.lower()}", None)
        return make(node) if make else self._by_fields(node, kind)

    def _by_fields(self, node: Any, kind: str) -> Ref:
        """Kinds that have kept their fields."""
        names = {
            "Not": ["a"],
            "Select": ["condition", "true_value", "false_value"],
            "Cast": ["value"],
            "Let": ["var", "value", "body"],
            "Evaluate": ["value"],
            "MatchBufferRegion": ["buffer", "source"],
            "IfThenElse": ["condition", "then_case", "else_case"],
        }.get(kind, ["a", "b"])
        dtype = {"dtype": str(node.ty.dtype)} if hasattr(node, "ty") else {}
        return self.object(f"tir.{kind}", **dtype, **{name: self.expr(getattr(node, name)) for name in names})

    def _variable(self, node: Any) -> Ref:
        dtype = str(node.ty.dtype)
        annotation = self.object("PrimType", dtype=dtype)
        return self.object("tir.Var", dtype=dtype, name=self.string(node.name), type_annotation=annotation)

    def _pointer(self, name: str, dtype: str, scope: str) -> Ref:
        element = self.object("PrimType", dtype=dtype)
        pointer = self.object("PointerType", element_type=element, storage_scope=self.string(scope))
        return self.object("tir.Var", dtype="handle", name=self.string(name), type_annotation=pointer)

    def _buffer(self, node: Any) -> Ref:
        dtype = str(node.dtype)
        return self.object(
            "tir.Buffer",
            axis_separators=self.array([]),
            buffer_type=1,
            data=self._pointer(node.name, dtype, node.scope()),
            data_alignment=node.data_alignment,
            dtype=dtype,
            elem_offset=self.expr(node.elem_offset),
            name=self.string(node.name),
            offset_factor=node.offset_factor,
            shape=self.array(node.shape),
            strides=self.array(node.strides),
        )

    def _call(self, node: Any, name: str, arguments: Any) -> Ref:
        operator = self.operator(name)
        return self.object("tir.Call", dtype=str(node.ty.dtype), op=operator, args=self.array(arguments))

    def _intimm(self, node: Any) -> Ref:
        return self.object("IntImm", dtype=str(node.ty.dtype), value=int(node.value))

    def _floatimm(self, node: Any) -> Ref:
        return self.object("FloatImm", dtype=str(node.ty.dtype), value=float(node.value))

    def _stringimm(self, node: Any) -> Ref:
        return self.object("tir.StringImm", dtype="handle", value=self.string(str(node.value)))

    def _tensorload(self, node: Any) -> Ref:
        source, indices = self.expr(node.source), self.array(node.indices)
        return self.object("tir.BufferLoad", buffer=source, indices=indices, dtype=str(node.ty.dtype))

    def _tensorregion(self, node: Any) -> Ref:
        return self.object("tir.BufferRegion", buffer=self.expr(node.source), region=self.array(node.region))

    def _range(self, node: Any) -> Ref:
        return self.object("Range", min=self.expr(node.min), extent=self.expr(node.extent))

    def _itervar(self, node: Any) -> Ref:
        return self.object(
            "tir.IterVar",
            dom=self.expr(node.dom),
            iter_type=int(node.iter_type),
            thread_tag=self.string(node.thread_tag),
            var=self.expr(node.var),
        )

    def _sblock(self, node: Any) -> Ref:
        return self.object(
            "tir.Block",
            iter_vars=self.array(node.iter_vars),
            reads=self.array(node.reads),
            writes=self.array(node.writes),
            name_hint=self.string(node.name_hint),
            alloc_buffers=self.array(node.alloc_buffers),
            match_buffers=self.array(node.match_buffers),
            annotations=self.mapping({str(k): v for k, v in node.annotations.items()}, self.plain),
            init=self.expr(node.init),
            body=self.expr(node.body),
        )

    def _sblockrealize(self, node: Any) -> Ref:
        return self.object(
            "tir.BlockRealize",
            iter_values=self.array(node.iter_values),
            predicate=self.expr(node.predicate),
            block=self.expr(node.block),
        )

    def _for(self, node: Any) -> Ref:
        return self.object(
            "tir.For",
            loop_var=self.expr(node.loop_var),
            min=self.expr(node.min),
            extent=self.expr(node.extent),
            kind=int(node.kind),
            body=self.expr(node.body),
            thread_binding=self.expr(node.thread_binding),
            annotations=self.mapping({str(k): v for k, v in node.annotations.items()}, self.plain),
        )

    def _bufferstore(self, node: Any) -> Ref:
        return self.object(
            "tir.BufferStore",
            buffer=self.expr(node.buffer),
            value=self.expr(node.value),
            indices=self.array(node.indices),
        )

    def _seqstmt(self, node: Any) -> Ref:
        return self.object("tir.SeqStmt", seq=self.array(node.seq))

    def _indexmap(self, node: Any) -> Ref:
        return self.object(
            "tir.IndexMap",
            initial_indices=self.array(node.initial_indices),
            final_indices=self.array(node.final_indices),
            inverse_index_map=NULL,
        )

    def function(self, function: Any) -> Ref:
        names = {"tirx.noalias": "tir.noalias"}
        attributes = {names.get(str(k), str(k)): v for k, v in function.attrs.items() if str(k) != "s_tir"}
        params, entries = [], []
        for param in function.params:
            if tvm.tirx.is_buffer_var(param):
                handle = self.object(
                    "tir.Var",
                    dtype="handle",
                    name=self.string(f"var_{param.name}"),
                    type_annotation=self.object("PrimType", dtype="handle"),
                )
                entries.append((handle, self.expr(param)))
                params.append(handle)
            else:
                params.append(self.expr(param))
        return self.object(
            "tir.PrimFunc",
            attrs=self.object("DictAttrs", __dict__=self.mapping(attributes, self.plain)),
            params=self.array(params, lambda ref: ref),
            buffer_map=self.pairs(entries),
            body=self.expr(function.body),
            ret_type=NULL,
        )

    def module(self, mod: Any) -> Ref:
        name = self.object("GlobalVar", name_hint=self.string("main"))
        functions = self.pairs([(name, self.function(mod["main"]))])
        return self.object("ir.IRModule" if self.is_new else "IRModule", functions=functions, attrs=NULL)

    def graph(self, root: Ref) -> dict[str, Any]:
        version = {"tvm_version": f"{self.dialect}.0"}
        if self.is_new:
            return {"root_index": root.number, "nodes": self.nodes, "metadata": version}
        return {"root": root.number, "nodes": self.nodes, "b64ndarrays": [], "attrs": version}


def old_graph(mod: Any, dialect: str) -> dict[str, Any]:
    """The graph of a module, parsed from JSON."""
    writer = OldWriter(dialect)
    return json.loads(json.dumps(writer.graph(writer.module(mod))))


def old_index_map(index_map: Any, dialect: str) -> str:
    """The JSON of an index map, as traces hold it."""
    writer = OldWriter(dialect)
    return json.dumps(writer.graph(writer.expr(index_map)))


def workload_line(text: str) -> bytes:
    """A line of database_workload.json with a module's JSON."""
    blob = text.encode()
    encoded = base64.b64encode(len(blob).to_bytes(8, "little") + blob).decode()
    return json.dumps(["1234", encoded]).encode()


def old_trace(schedule: Any, dialect: str = "0.16") -> list[Any]:
    """The trace of a schedule in the words of old TVM: [instructions, decisions]."""
    instructions, decisions = json.loads(trace_to_json(schedule.trace))

    def old(kind: str, inputs: list[Any], attributes: list[Any], outputs: list[Any]) -> list[Any]:
        if kind == "Split" and dialect < "0.18":
            attributes = [int(attributes[0])]
        name = "GetBlock" if kind == "GetSBlock" else kind
        return [name, [index_map(v) for v in inputs], [index_map(v) for v in attributes], outputs]

    def index_map(value: Any) -> Any:
        is_object = isinstance(value, str) and value.startswith("{")
        return old_index_map(tvm.ir.load_json(value), dialect) if is_object else value

    return [[old(*instruction) for instruction in instructions], decisions]
