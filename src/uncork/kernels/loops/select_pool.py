"""Selection of the loop nest that pools: largest cells and means of windows, one axis after the
other.

All axes but the last are pooled into a row in working memory, whose neighbours are neighbours in
the data; then the row is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from uncork.internal_ops.pooled_values import PooledValues
from uncork.kernels.extents import (
    certainly,
    compute_nothing_of,
    decline_if,
    is_empty,
    largest,
    may_be_empty,
    product,
)
from uncork.kernels.kernel_plan import In, Out, Scratch, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.adaptive import adaptive_pool, largest_with_places
from uncork.kernels.loops.nest_call import Call, View, computed_type, row_bytes
from uncork.kernels.loops.windows import (
    Window,
    covers_all,
    padded,
    sizes_of,
    tap_loops,
    windows_of,
)
from uncork.kernels.runtime.target import Target
from uncork.ops._common.indices import normalised_axis
from uncork.ops.avg_pool import AvgPool1, Pooling
from uncork.ops.max_pool import MaxPool8
from uncork.symbolic import SizeLike

_FLOATS = frozenset({"f32", "f64", "f16", "bf16"})
_NUMBERS = _FLOATS | {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}
#: Bytes of the rows of a small plane: a part of the nearest cache.
_MOST_KEPT = 16 << 10
#: No place of an element.
_NOWHERE = 2**31 - 1


def select_max_pool(layer: Layer) -> Selection:
    return _select("max", cast("Pooling", layer.operation), layer)


def select_avg_pool(layer: Layer) -> Selection:
    return _select("avg", cast("Pooling", layer.operation), layer)


def select_values(layer: Layer) -> Selection:
    pool = cast("PooledValues", layer.operation).pool
    if isinstance(pool, Pooling):
        return _select("max", pool, layer)
    return adaptive_pool("max", layer)


def select_adaptive_mean(layer: Layer) -> Selection:
    decline_if(may_be_empty(layer.shape(0)[2:]), "no cells to look at")
    return adaptive_pool("avg", layer)


def select_adaptive_largest(layer: Layer) -> Selection:
    decline_if(may_be_empty(layer.shape(0)[2:]), "no cells to look at")
    return largest_with_places(layer)


def _select(word: str, operation: Pooling, layer: Layer) -> Selection:
    name, outputs, target = layer.input(0).element_type.name, layer.outputs, layer.target
    decline_if(name not in (_NUMBERS if word == "max" else _FLOATS), f"no kernel for {name}")
    shape, result = layer.shape(0), layer.result()
    compute_nothing_of(result, "pool")
    decline_if(is_empty(shape), "no cells to look at")
    windows = windows_of(operation, shape[2:], result[2:], operation.kernel)
    planes = product(shape[:2])
    if len(outputs) > 1:
        plane = product(shape[2:])
        if isinstance(plane, int) and plane >= _NOWHERE:
            return "no kernel for indices beyond 32 bits"
        return _with_indices(
            cast("MaxPool8", operation), windows, shape, name, outputs[1].element_type.name, target
        )
    if covers_all(windows):
        return _of_all(word, planes, product(shape[2:]), name, target)
    return _sliding(word, operation, windows, planes, name, target)


def _of_all(word: str, planes: SizeLike, count: SizeLike, name: str, target: Target) -> Selection:
    """Pooling by one window, of all cells."""
    text = (
        "n:\n  r*: m = max(X[n, r])\n  Y[n] = m"
        if word == "max"
        else "n:\n  r*: s = sum(X[n, r])\n  Y[n] = s / size(r)"
    )
    views = {"X": View(In(0), name, (planes, count)), "Y": View(Out(0), name, (planes,))}
    return Call(
        f"{word}_pool_all",
        text,
        {"n": planes, "r": count},
        views,
        target,
        4,
        planes * count // 16,
        shared="n",
    ).native()


def _sliding(
    word: str,
    operation: Pooling,
    windows: Sequence[Window],
    planes: SizeLike,
    name: str,
    target: Target,
) -> Selection:
    *rows, last = windows
    share = _Share(operation, windows) if isinstance(operation, AvgPool1) else None
    computed = computed_type(name)
    row = largest(last.begin + last.size, last.windows_extent)
    counts = [w.count for w in rows]
    kept = product(counts) * row_bytes(row, computed)
    together = bool(rows) and isinstance(kept, int) and kept <= _MOST_KEPT
    if not together:
        counts, kept = [], row_bytes(row, computed)
    views = {
        "X": View(In(0), name, (planes, *(w.size for w in windows))),
        "Y": View(Out(0), name, (planes, *(w.count for w in windows))),
        "T": View(Scratch(), computed, (*counts, row)),
        "A": View(Scratch(kept), computed, (last.count,)),
        **(share.views(name) if share else {}),
    }
    work = planes * product(w.count for w in windows)
    scratch = kept + row_bytes(last.count, computed)
    cost = work * sum(w.kernel for w in windows) // 8
    sizes = {"n": planes, "u": windows[-1].size, **sizes_of(windows)} | {"e": row}
    text = _text(word, windows, share, together)
    return Call(f"{word}_pool", text, sizes, views, target, 2, cost, scratch, shared="n").native()


def _text(word: str, windows: Sequence[Window], share: _Share | None, together: bool) -> str:
    """The text of the nest. `together`: all rows of a plane come before any column, so that what is
    read then is not just being written.
    """
    *rows, last = windows
    fold, neutral = ("max", "lowest") if word == "max" else ("sum", "0.0")
    before, of_rows = (share.before, share.of_rows) if share else ([], [])
    loops = " ".join(w.axis for w in rows)
    source = padded(f"X[n, {last.tap_index()}]", [last], neutral)
    joined: list[str] = []
    if rows:
        # The row has its padding around it, so that nothing of its windows lies outside.
        number = "".join(f"{w.axis}, " for w in rows if together)
        each = f"{loops} " if together else ""
        if last.is_padded:
            before = [*before, f"{each}e*: T[{number}e] = {neutral}"]
        cells = padded(f"X[n, {', '.join(w.tap_index() for w in rows)}, u]", rows, neutral)
        put = "u" if certainly(last.begin, 0) else f"u + {last.pad}"
        joined = [f"  {each}u*:", f"    {tap_loops(rows)}: m = {fold}({cells})"]
        joined.append(f"    T[{number}{put}] = m")
        source = f"T[{number}{last.tap_index(False)}]"
    columns = [
        "  x*:",
        f"    {tap_loops([last])}: m = {fold}({source})",
        f"    Y[{', '.join(['n', *(w.axis for w in windows)])}] = m{share.factor if share else ''}",
    ]
    if together:
        inside = [f"  {line}" for line in (*of_rows, *columns)]
        return "\n".join([*before, "n:", *joined, f"  {loops}:", *inside])
    return "\n".join([*before, f"n {loops}".rstrip() + ":", *of_rows, *joined, *columns])


class _Share:
    """The factor of a window's sum that makes it a mean: one divided by how many of its cells
    count.
    """

    def __init__(self, operation: AvgPool1, windows: Sequence[Window]) -> None:
        self.windows, self.in_data = windows, operation.exclude_pad
        *rows, last = windows
        self.before: list[str] = []
        self.of_rows: list[str] = []
        if all(not w.is_padded if self.in_data else w.stays_inside for w in windows):
            self.factor = f" * {1 / math.prod(w.kernel for w in windows)!r}"
            return
        share = "where(c > 0.0, 1.0 / c, 0.0)"
        self.before = [
            "x*:",
            f"  {tap_loops([last])}: c = sum(inside(C[{last.tap_index(self.in_data)}]))",
            f"  A[x] = {share}",
        ]
        self.factor = " * A[x]"
        if rows:
            cells = ", ".join(w.tap_index(self.in_data) for w in rows)
            self.of_rows = [f"  {tap_loops(rows)}: c = sum(inside(R[{cells}]))", f"  d = {share}"]
            self.factor = " * (A[x] * d)"

    def views(self, name: str) -> dict[str, View]:
        """Views that only tell which positions lie inside: the data, or the data with its
        padding.
        """
        sizes = tuple(w.size if self.in_data else w.begin + w.size + w.end for w in self.windows)
        return {"C": View(In(0), name, sizes[-1:]), "R": View(In(0), name, sizes[:-1])}


def _with_indices(
    operation: MaxPool8,
    windows: Sequence[Window],
    shape: Sequence[SizeLike],
    name: str,
    index: str,
    target: Target,
) -> Selection:
    """Max pooling with indices: the values first, then the first place of each, by a second look at
    the window, whose cells are still near.
    """
    cells = ", ".join(w.tap_index() for w in windows)
    taps, out = tap_loops(windows), ", ".join(["n", *(w.axis for w in windows)])
    cell = f"pad(X[n, {cells}], lowest)"
    place = windows[0].tap_index()
    for number, window in enumerate(windows[1:], 1):
        place = f"({place}) * s{number} + {window.tap_index()}"
    axis = normalised_axis(operation, operation.axis, len(shape))
    where = {0: "k, (n + first_n) * s", 1: "k, (n + first_n) % c * s"}.get(axis, "k % w, 0")
    better = f"either({cell} == m, differs({cell}))"
    first = f"where(both(inside(X[n, {cells}]) > 0, {better}), integer({place}), {_NOWHERE})"
    text = f"""n {" ".join(w.axis for w in windows[:-1])} x*:
  {taps}: m = max({cell})
  {taps}: f = min({first})
  k = where(f == {_NOWHERE}, 0, f)
  Y[{out}] = m
  I[{out}] = index({where})"""
    planes = product(shape[:2])
    sizes = {
        **sizes_of(windows),
        "n": planes,
        "first_n": 0,
        "s": product(shape[2:]),
        "c": shape[1],
        "w": product(shape[axis:]),
    }
    sizes |= {f"s{number}": window.size for number, window in enumerate(windows)}
    counts = (planes, *(w.count for w in windows))
    views = {
        "X": View(In(0), name, (planes, *(w.size for w in windows))),
        "Y": View(Out(0), name, counts),
        "I": View(Out(1), index, counts),
    }
    cost = product(counts) * math.prod(w.kernel for w in windows) // 2
    return Call("max_pool_indices", text, sizes, views, target, 1, cost, shared="n").native()
