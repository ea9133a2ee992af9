"""Selection of the loop nest that makes running sums and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from msgspec import Struct

from uncork.internal_ops.running_product import RunningProduct
from uncork.kernels.extents import certainly, compute_nothing_of, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import Call, View
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import element_bytes
from uncork.ops._common.indices import normalised_axis
from uncork.ops.cumsum import CumSum
from uncork.symbolic import SizeLike


class _Scan(Struct, frozen=True):
    """What is put together, and in which direction; an exclusive scan leaves the element itself
    out, so that what comes first is `first`.
    """

    word: str
    first: int
    exclusive: bool
    reverse: bool


def select_running_sum(layer: Layer) -> Selection:
    given = layer.constant(1, "the axis is") if layer.has(1) else None
    along = 0 if given is None else int(given.reshape(-1)[0])
    scan = cast("CumSum", layer.operation)
    return _select(layer, along, _Scan("sum", 0, scan.exclusive, scan.reverse))


def select_running_product(layer: Layer) -> Selection:
    scan = cast("RunningProduct", layer.operation)
    return _select(layer, scan.axis, _Scan("prod", 1, scan.exclusive, scan.reverse))


def _select(layer: Layer, along: int, scan: _Scan) -> Selection:
    name, shape = layer.input(0).element_type.name, layer.shape(0)
    compute_nothing_of(shape, "sum")
    axis = normalised_axis(layer.operation, along, len(shape))
    sizes = product(shape[:axis]), shape[axis], product(shape[axis + 1 :])
    make = _along_rows if certainly(sizes[2], 1) else _along_columns
    return make(scan, sizes, name, layer.target).native()


def _along_columns(scan: _Scan, sizes: Sequence[SizeLike], name: str, target: Target) -> Call:
    """The running sum along an axis with neighbours behind it, which stay neighbours; a sum in
    reverse begins at the end of its views and goes back.
    """
    outer, count, inner = sizes
    add, put = f"t = {scan.word}(X[n, c, x])", "Y[n, c, x] = t"
    text = f"n x*:\n  c: {put}; {add}" if scan.exclusive else f"n x*:\n  c: {add}; {put}"
    row = inner * element_bytes(name)
    first, step = ((count - 1) * row, -1 * row) if scan.reverse else (0, row)
    strides = (count * row, step, element_bytes(name))
    views = {
        "X": View(In(0, first), name, tuple(sizes), strides),
        "Y": View(Out(0, first), name, tuple(sizes), strides),
    }
    counts = {"n": outer, "c": count, "x": inner}
    return Call(
        f"running_{scan.word}",
        text,
        counts,
        views,
        target,
        2,
        product(sizes) // 8,
        shared=("n", "x"),
    )


def _along_rows(scan: _Scan, sizes: Sequence[SizeLike], name: str, target: Target) -> Call:
    """The running sum along the last axis, by sums of lanes within each vector. An exclusive sum is
    the inclusive one moved by a place, with what comes first at the first place.
    """
    outer, count, _ = sizes
    size = element_bytes(name)
    shape, row = (outer, count), count * size
    place = "e - x" if scan.reverse else "x"
    views = {"X": View(In(0), name, shape), "Y": View(Out(0), name, shape)}
    counts: dict[str, SizeLike] = {"n": outer, "x": count, "e": count - 1}
    text = f"n:\n  x*: t = {scan.word}(X[n, {place}]); Y[n, {place}] = t"
    if scan.exclusive:
        put = "f - x" if scan.reverse else "x"
        text = f"n:\n  Z[n] = {scan.first}\n  x*: t = {scan.word}(X[n, {place}]); Y[n, {put}] = t"
        views["Z"] = View(Out(0, row - size if scan.reverse else 0), name, (outer,), (row,))
        views["Y"] = View(Out(0, 0 if scan.reverse else size), name, shape, (row, size))
        counts |= {"x": count - 1, "f": count - 2}
    return Call(
        f"running_{scan.word}_rows", text, counts, views, target, 1, product(sizes) // 2, shared="n"
    )
