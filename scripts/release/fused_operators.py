"""Writes the fused operators that Relay of TVM 0.16 made of networks out of ONNX, as TVMScript of TVM 0.27.

TVM 0.27 has neither Relay nor its operators for these extents of 64 bits. `lost_workloads` compares what is written
here with the modules of other networks, which TVM 0.16 wrote itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from tvm.topi.nn import winograd_util

Shape = tuple[int, ...]
Shapes = Sequence[Shape]
Blocks = frozenset[str]

_LOWEST = "T.float32(-340282346638528859811704183484516925440.0)"
_ZERO = "T.float32(0.0)"
_KERNEL = 3
"""Of every winograd convolution."""


def candidates(blocks: Blocks, shapes: Shapes) -> list[str]:
    """The modules, as TVMScript, that may have these blocks and arguments; several where padding is not told by shapes.

    Args:
        blocks: Names of the blocks that traces look up, without the root.
        shapes: Of the arguments, the result last.

    Example:
        >>> [text] = candidates(frozenset({"T_concat"}), [(1, 2), (1, 3), (1, 5)])
        >>> "T.if_then_else(T.int64(2) <= v_ax1" in text
        True
    """
    for head, make in _CONTRACTIONS.items():
        for tail in _TAILS:
            if blocks == head.union(tail):
                return [_with_tail(body, tail, shapes) for body in make(shapes)]
    plain = _PLAIN.get(blocks)
    return [] if plain is None else list(plain(shapes))


class _Body:
    """The statements of a function, and the buffers between them."""

    def __init__(self, attributes: str = "") -> None:
        self.attributes = attributes
        self.buffers: list[tuple[str, Shape]] = []
        self.lines: list[str] = []

    def block(
        self,
        name: str,
        axes: str,
        extents: Sequence[int],
        value: str,
        *,
        at: str | None = None,
        reads: str | None = None,
        init: str = "",
        notes: str = "",
    ) -> None:
        """Adds a block.

        Args:
            name: Of the block and of what it writes.
            axes: Names of its loops; those of a reduction behind a `|`.
            extents: Of the loops.
            value: What it stores, or adds; `*` before it in a reduction stands for the element.
            at: Indices of the element; by default the loops of the result.
            reads: What it reads.
            init: What a reduction begins with.
            notes: Its annotations.
        """
        spatial, _, reduced = axes.partition("|")
        names = [*spatial.split(), *reduced.split()]
        kinds = "S" * len(spatial.split()) + "R" * len(reduced.split())
        element = f"{name}[{at or ', '.join(f'v_{axis}' for axis in spatial.split())}]"
        self.lines += [
            f"for {', '.join(names)} in T.grid({_ints(extents)}):",
            f'    with T.sblock("{name}"):',
            f'        {", ".join(f"v_{axis}" for axis in names)} = T.axis.remap("{kinds}", [{", ".join(names)}])',
            f"        T.reads({reads or ''})",
            f"        T.writes({element})",
            *([f"        T.sblock_attr({{{notes}}})"] if notes else []),
            *(["        with T.init():", f"            {element} = {init}"] if init else []),
            f"        {element} = {value.replace('@', element)}",
        ]

    def text(self, shapes: Shapes, result: str) -> str:
        """The module, whose last argument is the buffer `result`."""
        names = [f"p{number}" for number in range(len(shapes) - 1)] + [result]
        arguments = ", ".join(f'{n}: T.Buffer(({_ints(s)}), "float32")' for n, s in zip(names, shapes, strict=True))
        inner = [f"{n} = T.sblock_alloc_buffer(({_ints(s)},))" for n, s in self.buffers if n != result]
        body = [f'T.func_attr({{{self.attributes}"tirx.noalias": True}})', *inner, *self.lines]
        head = ["@I.ir_module", "class Module:", "    @T.prim_func(s_tir=True)", f"    def main({arguments}):"]
        return "\n".join([*head, *(f"        {line}" for line in body)])


def _int(value: int) -> str:
    return f"T.int64({value})"


def _ints(values: Sequence[int]) -> str:
    return ", ".join(map(_int, values))


def _with_tail(body: _Body, tail: Sequence[str], shapes: Shapes) -> str:
    """Adds a bias, another tensor and relu."""
    result, rank = body.buffers[-1][0], len(shapes[-1])
    axes = [f"ax{number}" for number in range(rank)]
    own = ", ".join(f"v_{axis}" for axis in axes)
    argument = 2
    for name in tail:
        if name == "T_relu":
            reads, value = f"{result}[{own}]", f"T.max({result}[{own}], {_ZERO})"
        else:
            extents = zip(axes, shapes[argument], shapes[-1], strict=True)
            index = ", ".join(_int(0) if have == 1 != want else f"v_{axis}" for axis, have, want in extents)
            other = f"p{argument}[{index}]"
            reads, value = f"{result}[{own}], {other}", f"{result}[{own}] + {other}"
            argument += 1
        body.block(name, " ".join(axes), shapes[-1], value, reads=reads)
        result = name
        body.buffers.append((name, shapes[-1]))
    return body.text(shapes, result)


def _padding(body: _Body, name: str, axes: str, shape: Shape, before: int, after: int, outside: str) -> None:
    """A copy of the first argument with a margin around its last two extents."""
    padded = (*shape[:2], *(extent + before + after for extent in shape[2:]))
    first, second, *inner = (f"v_{axis}" for axis in axes.split())
    shifted = [f"{axis} - {_int(before)}" if before else axis for axis in inner]
    element = f"p0[{first}, {second}, {', '.join(shifted)}]"
    limits = [
        limit
        for axis, extent in zip(inner, shape[2:], strict=True)
        for limit in ([f"{_int(before)} <= {axis}"] if before else []) + [f"{axis} < {_int(extent + before)}"]
    ]
    value = f"T.if_then_else({' and '.join(limits)}, {element}, {outside})" if before or after else element
    body.buffers.append((name, padded))
    body.block(name, axes, padded, value, reads=element)


def _convolutions(shapes: Shapes) -> Iterator[_Body]:
    data, weights, out = shapes[0], shapes[1], shapes[-1]
    for stride, padding in product((1, 2, 3, 4), range(weights[2] // 2 + 1)):
        if any((data[d] + 2 * padding - weights[d]) // stride + 1 != out[d] for d in (2, 3)):
            continue
        body = _Body()
        _padding(body, "pad_temp", "i0 i1 i2 i3", data, padding, padding, _ZERO)
        y, x = (f"v_{axis}{f' * {_int(stride)}' if stride > 1 else ''} + v_r{axis[0]}" for axis in ("yy", "xx"))
        source, weight = f"pad_temp[v_nn, v_rc, {y}, {x}]", "p1[v_ff, v_rc, v_ry, v_rx]"
        body.buffers.append(("conv2d_nchw", out))
        body.block(
            "conv2d_nchw",
            "nn ff yy xx | rc ry rx",
            (*out, *weights[1:]),
            f"@ + {source} * {weight}",
            reads=f"{source}, {weight}",
            init=_ZERO,
        )
        yield body


def _winograd(shapes: Shapes) -> Iterator[_Body]:
    (_, inputs, height, width), (alpha, _, _, outputs) = shapes[:2]
    m = alpha + 1 - _KERNEL
    rows, columns = -(-height // m), -(-width // m)
    tiles, tile, per_row = rows * columns, _int(m), _int(columns)
    a, b, _ = winograd_util._cook_toom_convolution(winograd_util._interpolation_points(alpha - 1), m, _KERNEL)
    body = _Body('"layout_free_buffers": [1], ')
    _padding(body, "data_pad", "i0 i1 i2 i3", shapes[0], 1, 1, _ZERO)
    body.buffers += [
        ("input_tile", (inputs, tiles, alpha, alpha)),
        ("B", (alpha, alpha)),
        ("data_pack", (alpha, alpha, inputs, tiles)),
        ("bgemm", (alpha, alpha, outputs, tiles)),
        ("A", (alpha, m)),
        ("inverse", (outputs, tiles, m, m)),
        ("conv2d_winograd", shapes[-1]),
    ]
    row, column = f"v_p % {_int(tiles)} // {per_row} * {tile} + v_eps", f"v_p % {per_row} * {tile} + v_nu"
    value = f"data_pad[v_p // {_int(tiles)}, v_ci, {row}, {column}]"
    notes = '"schedule_rule": "{}"'.format
    body.block("input_tile", "ci p eps nu", (inputs, tiles, alpha, alpha), value, reads=value, notes=notes("None"))
    body.block("B", "i j", b.shape, _constants(b), notes=notes("None"))
    _transformed(
        body, "data_pack", "eps nu ci p", (alpha, alpha, inputs, tiles), "input_tile[v_ci, v_p, v_r_a, v_r_b]", "B"
    )
    product_ = "data_pack[v_eps, v_nu, v_ci, v_p]", "p1[v_eps, v_nu, v_ci, v_co]"
    body.block(
        "bgemm",
        "eps nu co p | ci",
        (alpha, alpha, outputs, tiles, inputs),
        f"@ + {' * '.join(product_)}",
        reads=", ".join(product_),
        init=_ZERO,
    )
    body.block("A", "i j", a.shape, _constants(a), notes=notes("None"))
    _transformed(body, "inverse", "co p vh vw", (outputs, tiles, m, m), "bgemm[v_r_a, v_r_b, v_co, v_p]", "A", alpha)
    tile_of = f"v_n * {_int(tiles)} + v_h // {tile} * {per_row} + v_w // {tile}"
    value = f"inverse[v_co, {tile_of}, v_h % {tile}, v_w % {tile}]"
    body.block("conv2d_winograd", "n co h w", shapes[-1], value, reads=value)
    yield body


def _transformed(
    body: _Body, name: str, axes: str, extents: Shape, element: str, matrix: str, alpha: int | None = None
) -> None:
    """A tile between two matrices of constants."""
    rule = {"data_pack": "conv2d_nchw_winograd_data_pack", "inverse": "conv2d_nchw_winograd_inverse"}[name]
    alpha = alpha or extents[0]
    first, second = axes.split()[:2] if name == "data_pack" else axes.split()[2:]
    rows = _span("v_r_a", "v_r_b")
    columns = _span(f"v_{first}", f"v_{second}")
    body.block(
        name,
        f"{axes} | r_a r_b",
        (*extents, alpha, alpha),
        f"@ + {element} * {matrix}[v_r_a, v_{first}] * {matrix}[v_r_b, v_{second}]",
        reads=f"{element}, {matrix}[{rows}, {columns}]",
        init=_ZERO,
        notes=f'"schedule_rule": "{rule}"',
    )


def _span(one: str, other: str) -> str:
    low, high = f"T.min({one}, {other})", f"T.max({one}, {other})"
    return f"{low}:{low} + ({high} + {_int(1)} - {low})"


def _constants(matrix: Sequence[Sequence[float]]) -> str:
    """A choice among constants by row and column."""
    rows, columns = len(matrix), len(matrix[0])
    value = _ZERO
    for row, column in product(range(rows), range(columns)):
        at = f"v_i % {_int(rows)} == {_int(row)} and v_j % {_int(columns)} == {_int(column)}"
        value = f"T.Select({at}, T.float32({float(matrix[row][column])!r}), {value})"
    return value


def _matmul(shapes: Shapes) -> Iterator[_Body]:
    (rows, summed), (columns, _) = shapes[:2]
    body = _Body('"layout_free_buffers": [1], ')
    body.buffers.append(("T_matmul_NT", (rows, columns)))
    factors = "p0[v_i0, v_k]", "p1[v_i1, v_k]"
    extents = (rows, columns, summed)
    body.block("T_matmul_NT", "i0 i1 | k", extents, f"@ + {' * '.join(factors)}", reads=", ".join(factors), init=_ZERO)
    yield body


def _max_pools(shapes: Shapes, *, is_padded: bool) -> Iterator[str]:
    data, out = shapes
    for kernel, stride, padding, is_rounded_up in product((2, 3), (1, 2), (0, 1), (False, True)):
        more = (stride - 1) * is_rounded_up
        if any((data[d] + 2 * padding + more - kernel) // stride + 1 != out[d] for d in (2, 3)):
            continue
        if bool(padding or more) != is_padded or (is_rounded_up and stride == 1):
            continue
        body, source = _Body(), "pad_temp" if is_padded else "p0"
        if is_padded:
            _padding(body, "pad_temp", "ax0 ax1 ax2 ax3", data, padding, padding + more, _LOWEST)
        y, x = (
            f"v_{axis}{f' * {_int(stride)}' if stride > 1 else ''} + v_rv{n}" for n, axis in enumerate(("ax2", "ax3"))
        )
        element = f"{source}[v_ax0, v_ax1, {y}, {x}]"
        body.block(
            "pool_max",
            "ax0 ax1 ax2 ax3 | rv0 rv1",
            (*out, kernel, kernel),
            f"T.max(@, {element})",
            reads=element,
            init=_LOWEST,
            notes='"schedule_rule": "meta_schedule.pool_max"',
        )
        yield body.text(shapes, "pool_max")


def _padded_pools(shapes: Shapes) -> Iterator[str]:
    return _max_pools(shapes, is_padded=True)


def _plain_pools(shapes: Shapes) -> Iterator[str]:
    return _max_pools(shapes, is_padded=False)


def _global_pool(shapes: Shapes) -> Iterator[str]:
    data, out = shapes
    if out[2:] != (1, 1):
        return
    body = _Body()
    body.buffers.append(("adaptive_pool_sum", out))
    element = f"p0[v_ax0, v_ax1, v_ax2 * {_int(data[2])} + v_rv0, v_ax3 * {_int(data[3])} + v_rv1]"
    extents = (*out, *data[2:])
    axes = "ax0 ax1 ax2 ax3"
    body.block("adaptive_pool_sum", f"{axes} | rv0 rv1", extents, f"@ + {element}", reads=element, init=_ZERO)
    total = "adaptive_pool_sum[v_ax0, v_ax1, v_ax2, v_ax3]"
    value = f"{total} * T.float32({1.0 / (data[2] * data[3])!r})"
    notes = '"schedule_rule": "meta_schedule.adaptive_pool_avg"'
    body.block("adaptive_pool_avg", axes, out, value, reads=total, notes=notes)
    yield body.text(shapes, "adaptive_pool_avg")


def _concatenation(shapes: Shapes) -> Iterator[str]:
    *parts, out = shapes
    axes = [f"ax{number}" for number in range(len(out))]
    rest = [f"v_{axis}" for axis in axes]
    starts = [sum(part[1] for part in parts[:number]) for number in range(len(parts))]
    at = [", ".join([rest[0], f"{rest[1]} - {_int(s)}" if s else rest[1], *rest[2:]]) for s in starts]
    elements = [f"p{number}[{index}]" for number, index in enumerate(at)]
    value = elements[0]
    for start, element in zip(starts[1:], elements[1:], strict=True):
        value = f"T.if_then_else({_int(start)} <= {rest[1]}, {element}, {value})"
    body = _Body()
    body.block("T_concat", " ".join(axes), out, value, reads=", ".join(reversed(elements)))
    yield body.text(shapes, "T_concat")


def _flattening(shapes: Shapes) -> Iterator[str]:
    data, _ = shapes
    if data[2:] == (1, 1):
        body, element = _Body(), f"p0[v_ax0, v_ax1 % {_int(data[1])}, {_int(0)}, {_int(0)}]"
        body.block("tensor", "ax0 ax1", shapes[1], element, reads=element)
        yield body.text(shapes, "tensor")


def _softmax(shapes: Shapes) -> Iterator[str]:
    (rows, columns), _ = shapes
    body = _Body()
    most, exp, total = "T_softmax_maxelem", "T_softmax_exp", "T_softmax_expsum"
    body.buffers += [(most, (rows,)), (exp, (rows, columns)), (total, (rows,))]
    grid = (rows, columns)
    body.block(most, "i0 | k", grid, "T.max(@, p0[v_i0, v_k])", reads="p0[v_i0, v_k]", init=_LOWEST)
    reads = f"p0[v_i0, v_i1], {most}[v_i0]"
    body.block(exp, "i0 i1", grid, f"T.exp(p0[v_i0, v_i1] - {most}[v_i0])", reads=reads)
    body.block(total, "i0 | k", grid, f"@ + {exp}[v_i0, v_k]", reads=f"{exp}[v_i0, v_k]", init=_ZERO)
    value = f"{exp}[v_i0, v_i1] / {total}[v_i0]"
    reads = f"{exp}[v_i0, v_i1], {total}[v_i0]"
    body.block("T_softmax_norm", "i0 i1", grid, value, reads=reads, notes='"axis": 1')
    yield body.text(shapes, "T_softmax_norm")


_TAILS = ((), ("T_add",), ("T_add", "T_relu"), ("T_add", "T_add_1", "T_relu"))

_CONTRACTIONS: dict[Blocks, Callable[[Shapes], Iterator[_Body]]] = {
    frozenset({"pad_temp", "conv2d_nchw"}): _convolutions,
    frozenset({"data_pack", "bgemm", "inverse", "conv2d_winograd"}): _winograd,
    frozenset({"T_matmul_NT"}): _matmul,
}
_PLAIN: dict[Blocks, Callable[[Shapes], Iterator[str]]] = {
    frozenset({"pad_temp", "pool_max"}): _padded_pools,
    frozenset({"pool_max"}): _plain_pools,
    frozenset({"adaptive_pool_sum", "adaptive_pool_avg"}): _global_pool,
    frozenset({"T_concat"}): _concatenation,
    frozenset({"tensor"}): _flattening,
    frozenset({"T_softmax_maxelem", "T_softmax_exp", "T_softmax_expsum", "T_softmax_norm"}): _softmax,
}
