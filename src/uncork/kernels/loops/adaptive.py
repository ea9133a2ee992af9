"""Selection of the loop nest that pools into a given number of windows: AdaptiveAvgPool,
AdaptiveMaxPool.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.extents import compute_nothing_of, decline_if, is_empty, product
from uncork.kernels.kernel_plan import In, Out, Scratch, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import Call, View, computed_type, row_bytes
from uncork.kernels.loops.windows import AXES, TAPS
from uncork.symbolic import SizeLike

#: No place of an element.
_NOWHERE = 2**31 - 1


def adaptive_pool(word: str, layer: Layer) -> Selection:
    """The nest of adaptive pooling: all spatial axes but the last are pooled into a row in working
    memory, window by window; then the row is.
    """
    name, shape, result = layer.input(0).element_type.name, layer.shape(0), layer.result()
    compute_nothing_of(result, "pool")
    decline_if(is_empty(shape), "no cells to look at")
    axes = _axes(shape)
    *rows, last = axes
    fold, end = ("max", "m") if word == "max" else ("sum", "m / {}")
    lines = [" ".join(["n", *(AXES[a] for a in rows)]) + ":"]
    source = f"X[n, {TAPS[last]}]"
    if rows:
        cells = ", ".join(TAPS[a] for a in rows)
        loops = " ".join(_loop(a) for a in rows)
        lines += [
            "  u*:",
            f"    {loops}: m = {fold}(X[n, {cells}, u])",
            f"    T[u] = {end.format(_count(rows))}",
        ]
        source = f"T[{TAPS[last]}]"
    out = ", ".join(["n", *(AXES[a] for a in axes)])
    lines += [
        "  x:",
        f"    {_loop(last)}: m = {fold}({source})",
        f"    Y[{out}] = {end.format(_count([last]))}",
    ]
    planes, computed = product(shape[:2]), computed_type(name)
    sizes = _sizes(shape, result) | {"u": shape[-1]}
    views = {
        "X": View(In(0), name, (planes, *shape[2:])),
        "Y": View(Out(0), name, (planes, *result[2:])),
        "T": View(Scratch(), computed, (shape[-1],)),
    }
    cost = product(shape) // 4 + product(result)
    return Call(
        f"adaptive_{word}",
        "\n".join(lines),
        sizes,
        views,
        layer.target,
        1,
        cost,
        row_bytes(shape[-1], computed),
        shared="n",
    ).native()


def largest_with_places(layer: Layer) -> Selection:
    """The nest of AdaptiveMaxPool with the place of each largest cell, the first of equal ones: a
    second look at the window finds it.
    """
    name, shape, result = layer.input(0).element_type.name, layer.shape(0), layer.result()
    compute_nothing_of(result, "pool")
    decline_if(is_empty(shape), "no cells to look at")
    plane = product(shape[2:])
    if not isinstance(plane, int) or plane >= _NOWHERE:
        return "no kernel for indices that may be beyond 32 bits"
    axes = _axes(shape)
    out = ", ".join(["n", *(AXES[a] for a in axes)])
    *outer, last = (_loop(a) for a in axes)
    loops = " ".join([*outer, last.replace("=", "*=", 1)])
    cell = f"X[n, {', '.join(TAPS[a] for a in axes)}]"
    place = TAPS[axes[0]]
    for a in axes[1:]:
        place = f"({place}) * s{AXES[a]} + {TAPS[a]}"
    better = f"either({cell} == m, differs({cell}))"
    text = f"""{out.replace(",", "")}:
  {loops}: m = max({cell})
  {loops}: f = min(where({better}, integer({place}), {_NOWHERE}))
  Y[{out}] = m
  I[{out}] = index(f, 0)"""
    planes = product(shape[:2])
    extent = _sizes(shape, result)
    counts = (planes, *result[2:])
    views = {
        "X": View(In(0), name, (planes, *shape[2:])),
        "Y": View(Out(0), name, counts),
        "I": View(Out(1), layer.outputs[1].element_type.name, counts),
    }
    cost = product(shape) // 4 + product(result) * 8
    return Call("adaptive_places", text, extent, views, layer.target, 1, cost, shared="n").native()


def _axes(shape: Sequence[SizeLike]) -> range:
    """The spatial axes of a tensor, by their numbers among all that have names."""
    return range(len(AXES) - len(shape) + 2, len(AXES))


def _sizes(shape: Sequence[SizeLike], result: Sequence[SizeLike]) -> dict[str, SizeLike]:
    """The number of planes and, for each spatial axis, of windows and of cells."""
    sizes: dict[str, SizeLike] = {"n": product(shape[:2])}
    for a, size, count in zip(_axes(shape), shape[2:], result[2:], strict=True):
        sizes |= {AXES[a]: count, f"s{AXES[a]}": size, f"c{AXES[a]}": count}
    return sizes


def _begin(a: int) -> str:
    return f"{AXES[a]}*s{AXES[a]}//c{AXES[a]}"


def _end(a: int) -> str:
    return f"({AXES[a]}*s{AXES[a]}+s{AXES[a]}+c{AXES[a]}-1)//c{AXES[a]}"


def _loop(a: int) -> str:
    """The loop over the cells of a window."""
    return f"{TAPS[a]}={_begin(a)}..{_end(a)}"


def _count(axes: Sequence[int]) -> str:
    """How many cells a window has."""
    return "number(" + " * ".join(f"({_end(a)} - {_begin(a)})" for a in axes) + ")"
