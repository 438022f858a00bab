"""Provides load_exported: reads a torch.export file without running code that its author put there."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from costhub.errors import WorkloadError, class_and_line
from costhub.files import open_regular

MAX_ENTRIES = 100_000
MAX_PROGRAM_BYTES = 256 << 20
"""Size limit of the graph as JSON: that of a BERT takes 0.5 MB."""
_OLD = ("serialized_exported_program.json", "version")
"""Entries in files of torch before 2.8, which stores everything at the top level of the archive."""
_ENTRIES = re.compile(
    r"(\.data/(version|serialization_id)|archive_format|archive_version|byteorder|version"
    r"|models/\w+\.json|data/(weights|constants)/(weight_\d+|tensor_\d+|\w+_config\.json|\w+\.pt)"
    r"|data/sample_inputs/\w+\.pt|extra/[\w./-]+"
    r"|serialized_(exported_program\.json|(state_dict|constants|example_inputs)\.pt)|extra_files/[\w./-]+)"
)
"""Everything that `torch.export.save` writes, except the two kinds below."""
_RUNS = {
    "data/aotinductor/": "compiled code",
    "data/constants/custom_obj_": "an object of a custom class",
    "data/constants/opaque_obj_": "a pickle",
}


def load_exported(path: str | Path) -> Any:
    """Reads what ``torch.export.save`` wrote.

    torch reads parts of such a file with pickle, and turns others into Python code: names, conditions and formulas of
    sizes. So all of these are checked first, in the very bytes that torch reads afterwards; pickles may contain
    only tensors and containers. This is far from a sandbox: the operators that the network calls are
    torch's, and there are many.

    Args:
        path: The file.

    Returns:
        The ``torch.export.ExportedProgram``.

    Raises:
        WorkloadError: It is not such a file, or contains something that could run; the message is a phrase.
        Exception: Whatever torch raises for a damaged file.
    """
    import torch

    with open_regular(path, error=WorkloadError) as file:
        _check(file)
        file.seek(0)
        with _tensors_only():
            return torch.export.load(file)


def is_archive(path: str | Path) -> bool:
    """Whether a file ends like an archive written by ``torch.export.save``, checked without torch.

    Raises:
        WorkloadError: It is not a regular file.
    """
    with open_regular(path, error=WorkloadError) as file:
        return zipfile.is_zipfile(file)


@contextlib.contextmanager
def _tensors_only() -> Iterator[None]:
    """Makes torch reject all pickles except those of tensors, even where it would retry without that check."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def _check(file: BinaryIO) -> None:
    """Rejects archives containing anything that torch would run or decompress."""
    names = _checked_names(file)
    read = _reader(file, names)
    for name in names:
        if name.endswith(".pt"):
            _check_pickle(name, read(name))
        elif name.startswith("models/") or name == _OLD[0]:
            _check_program(_parsed(name, read(name)))
        elif name.endswith("_config.json"):
            _check_payloads(name, _parsed(name, read(name)), read)


def _checked_names(file: BinaryIO) -> list[str]:
    """The names of the entries, without the folder that contains them all."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise WorkloadError("it is not an archive that torch.export.save wrote") from error
    if not 0 < len(entries) <= MAX_ENTRIES:
        raise WorkloadError(f"it holds {len(entries):,} files; 1 to {MAX_ENTRIES:,} were expected")
    size = os.fstat(file.fileno()).st_size
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise WorkloadError("it holds compressed files, which torch.export.save does not write")
    if sum(max(entry.file_size, entry.compress_size) for entry in entries) > size:
        raise WorkloadError("its files overlap")
    paths = [entry.filename for entry in entries]
    if len(set(paths)) < len(paths):
        raise WorkloadError("a file occurs twice in it")
    folders = {path.partition("/")[0] for path in paths}
    names = paths if _OLD[0] in paths else [path.partition("/")[2] for path in paths]
    if names is not paths and len(folders) != 1:
        raise WorkloadError("its files are not in one folder")
    for name in names:
        runs = next((what for start, what in _RUNS.items() if name.startswith(start)), None)
        if runs is not None:
            raise WorkloadError(f"it holds {runs} ({name[:80]!r}); export the network without it")
        if not _ENTRIES.fullmatch(name):
            raise WorkloadError(f"it holds {name[:80]!r}, which torch.export.save does not write")
    return names


def _reader(file: BinaryIO, names: Sequence[str]) -> Callable[[str], bytes]:
    """Reads an entry by its name, with the same reader that torch will use."""
    file.seek(0)
    if _OLD[0] in names:
        return zipfile.ZipFile(file).read
    from torch.export.pt2_archive import PT2ArchiveReader

    archive = PT2ArchiveReader(file)
    # A zip file can be crafted to look different to two readers.
    if sorted(set(archive.get_file_names())) != sorted(names):
        raise WorkloadError("torch and Python find different files in it")
    return archive.read_bytes


def _parsed(name: str, data: bytes) -> Any:
    if len(data) > MAX_PROGRAM_BYTES:
        raise WorkloadError(f"{name} in it has {len(data):,} bytes; at most {MAX_PROGRAM_BYTES:,} are read")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"{name} in it is not JSON") from error


def _check_pickle(name: str, data: bytes) -> None:
    import torch

    try:
        if data:
            torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # pickle can raise anything
        raise WorkloadError(
            f"{name} in it holds more than tensors, so reading it could run code ({class_and_line(error)[:150]})"
        ) from error


def _check_payloads(name: str, content: Any, read: Callable[[str], bytes]) -> None:
    """The weights or constants: raw numbers as in memory, or pickles of tensors."""
    payloads = content.get("config") if isinstance(content, dict) else None
    if not isinstance(payloads, dict) or not all(isinstance(payload, dict) for payload in payloads.values()):
        raise WorkloadError(f"{name} in it is not a list of tensors")
    for payload in payloads.values():
        place = payload.get("path_name")
        if not isinstance(place, str) or not re.fullmatch(r"(weight|tensor)_\d+", place):
            raise WorkloadError(
                f"{name} in it names {place!r:.80}, which is not a tensor; export the network without it"
            )
        _check_device(payload)
        if payload.get("use_pickle"):
            _check_pickle(place, read(f"{name.rpartition('/')[0]}/{place}"))


def _check_device(payload: Mapping[str, Any]) -> None:
    """Refuses weights on a device that torch lacks here, to which it would load them."""
    import torch

    described = payload.get("tensor_meta")
    device = described.get("device") if isinstance(described, dict) else None
    kind = device.get("type") if isinstance(device, dict) else None
    if kind in (None, "cpu", "meta"):
        return
    here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if here is None or here.type != kind:
        raise WorkloadError(
            f"it was exported on {kind!r:.20}, a device that torch cannot use here; export network.cpu() with example "
            "inputs on the CPU"
        )


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*|", re.ASCII)
_PLAIN = re.compile(r"[\w.:+-]{0,1000}")
_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims|torchvision|quantized_decomposed)\.(?!__|from_file|save\b)[a-z_]\w*(\.(?!__)\w+)?"
    r"|torch\.ops\.higher_order\.(cond|while_loop|scan|map_impl|wrap_with_set_grad_enabled|wrap_with_autocast)"
    r"|_operator\.(add|sub|mul|floordiv|truediv|mod|neg|pos|pow|abs|eq|ne|lt|le|gt|ge|and_|or_|not_|getitem)"
    r"|math\.(ceil|floor|trunc|sqrt)|torch\.sym_\w+|",
    re.ASCII,
)
"""Functions that a node may call. Others give access to all of torch, which has a function for nearly everything."""
_NAMES = ("name", "forward_arg_names")
_FREE = ("metadata", "as_string", "as_strings")
"""Keys of texts that remain texts: the origin of a node, and arguments."""


def _check_program(value: Any, key: str = "") -> None:
    """Checks every text of a graph that torch turns into Python code."""
    if isinstance(value, Mapping):
        for name, entry in value.items():
            _check_text(name, "")
            if name == "custom_obj_values" and entry:
                raise WorkloadError("it holds objects of custom classes; export the network without them")
            if name not in _FREE:
                _check_program(entry, name)
    elif isinstance(value, list):
        for entry in value:
            _check_program(entry, key)
    elif isinstance(value, str):
        _check_text(value, key)


def _check_text(text: str, key: str) -> None:
    if key in ("target", "as_operator"):
        is_sound = _OPERATOR.fullmatch(text) is not None
    elif key in ("expr_str", "guards_code"):
        is_sound = _is_formula(text)
    elif key in ("in_spec", "out_spec", "treespec", "context"):
        return _check_spec(text)
    else:
        is_sound = (_IDENTIFIER if key in _NAMES else _PLAIN).fullmatch(text) is not None
    if not is_sound:
        raise WorkloadError(f"the {key or 'name'} {text[:80]!r} in its graph is not one that torch.export.save writes")


def _check_classes(form: Any) -> None:
    """Refuses a form with a class of another library; torch would only say that it cannot read the file."""
    from torch.utils._pytree import SERIALIZED_TYPE_TO_PYTHON_TYPE

    if isinstance(form, Mapping):
        name = form.get("type")
        if isinstance(name, str) and name not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
            raise WorkloadError(
                f"it takes or returns objects of {name[:120]!r}, a class of a library that costhub does not import; "
                "export a module that takes and returns tensors, as docs/tune-my-network.md shows"
            )
    for part in form.values() if isinstance(form, Mapping) else form if isinstance(form, list) else ():
        _check_classes(part)


def _check_spec(text: str) -> None:
    """The form of inputs or outputs: JSON, in which the names of fields are JSON themselves."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict | list):
        _check_classes(content)
        return _check_program(content)
    if not _PLAIN.fullmatch(text):
        raise WorkloadError(f"{text[:80]!r} in its graph is not a form of inputs that torch.export.save writes")


_FORMULA = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword, ast.Name, ast.Load),
    *(ast.Constant, ast.Subscript, ast.Attribute, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
_SYMBOL = re.compile(r"[a-z]{1,5}\d+|args|L", re.ASCII)
_FUNCTIONS = frozenset(
    "Symbol Integer Float Rational Add Mul Pow Max Min Mod Abs Eq Ne Lt Le Gt Ge And Or Not Piecewise ExprCondPair "
    "Equality Unequality GreaterThan LessThan StrictGreaterThan StrictLessThan floor ceiling sqrt true false oo int_oo "
    "FloorDiv ModularIndexing Where PythonMod CleanDiv CeilToInt FloorToInt CeilDiv LShift RShift PowByNatural "
    "FloatPow FloatTrueDiv IntTrueDiv IsNonOverlappingAndDenseIndicator TruncToFloat TruncToInt RoundToInt "
    "RoundDecimal ToFloat Identity".split()
)
"""The building blocks of size formulas."""
_METHODS = ("size", "stride", "storage_offset")


def _is_formula(text: str) -> bool:
    """Whether evaluating a text computes numbers from sizes and does nothing else.

    Example:
        >>> _is_formula("Mul(Integer(2), Symbol('s7', positive=True))"), _is_formula("(L['x'].size()[0] % 2) == 0")
        (True, True)
        >>> _is_formula("__import__('os').system('id')"), _is_formula("2 ** 2 ** 40"), _is_formula("exit()")
        (False, False, False)
    """
    if len(text) > 10_000:
        return False
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(isinstance(node, _FORMULA) and _is_part_of_formula(node) for node in nodes)


def _is_part_of_formula(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _FUNCTIONS or _SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.Attribute):
        return node.attr in _METHODS
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) or (isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS)
    if isinstance(node, ast.Constant):
        text = node.value
        return _IDENTIFIER.fullmatch(text) is not None if isinstance(text, str) else isinstance(text, int | float)
    return not isinstance(node, ast.Pow | ast.LShift | ast.MatMult)
