"""Selection of the loop nest that lays a tensor into a frame of one number: Pad.

Each row is written once, by vectors: a fill and a copy would write it twice. Rows shorter than a
vector, other modes, and pads that only the call knows, are copies.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from uncork.kernels.extents import certainly, compute_nothing_of, elements_of, product, same
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import WORDS, Call, View, vector_lanes
from uncork.kernels.movement.select_copy_table import select_move
from uncork.kernels.runtime.target import Target
from uncork.symbolic import SizeLike

#: The axes of a nest, the innermost last.
_AXES = "wzyx"


class _Axis(Struct):
    """Neighbouring axes of which at most the first is padded: the size of the data and of the
    result, and the place of the data in it.
    """

    size: SizeLike
    result: SizeLike
    begin: SizeLike


def select_padding(layer: Layer) -> Selection:
    name = WORDS.get(layer.input(0).element_type.dtype.itemsize)
    constant = getattr(layer.operation, "pad_mode", "constant") == "constant"
    begins, ends = elements_of(layer.input(1)), elements_of(layer.input(2))
    if not constant or name is None or begins is None or ends is None:
        return select_move(layer)
    result = layer.result()
    compute_nothing_of(result, "pad")
    padded = [not (certainly(b, 0) and certainly(e, 0)) for b, e in zip(begins, ends, strict=True)]
    axes = _joined(layer.shape(0), result, begins, padded)
    if len(axes) > len(_AXES) or not any(padded) or _is_short(axes[-1].result, name, layer.target):
        return select_move(layer)
    return _nest(layer, axes, name)


def _is_short(row: SizeLike, name: str, target: Target) -> bool:
    return isinstance(row, int) and row < vector_lanes([name], target)


def _joined(
    shape: Sequence[SizeLike],
    result: Sequence[SizeLike],
    begins: Sequence[SizeLike],
    padded: Sequence[bool],
) -> list[_Axis]:
    """As few axes as there may be: one that is not padded goes into the one before it."""
    axes: list[_Axis] = []
    for size, wide, begin, is_padded in zip(shape, result, begins, padded, strict=True):
        if is_padded or not axes:
            axes.append(_Axis(size, wide, begin))
        else:
            last = axes[-1]
            last.size, last.result = last.size * size, last.result * size
            last.begin = last.begin * size
    return axes


def _nest(layer: Layer, axes: list[_Axis], name: str) -> Selection:
    names = _AXES[-len(axes) :]
    places = [
        letter if certainly(axis.begin, 0) and n == 0 else f"{letter} - p{letter}"
        for n, (letter, axis) in enumerate(zip(names, axes, strict=True))
    ]
    has_value = layer.has(3)
    value = "V[0]" if has_value else "0"
    loops = " ".join([*names[:-1], f"{names[-1]}*"])
    text = f"{loops}: Y[{', '.join(names)}] = pad(X[{', '.join(places)}], {value})"
    sizes: dict[str, SizeLike] = {n: axis.result for n, axis in zip(names, axes, strict=True)}
    sizes |= {
        f"p{n}": axis.begin
        for n, axis, place in zip(names, axes, places, strict=True)
        if place != n
    }
    views = {
        "X": View(In(0), name, tuple(axis.size for axis in axes)),
        "Y": View(Out(0), name, tuple(axis.result for axis in axes)),
    }
    if has_value:
        views["V"] = View(In(3), name, (1,))
    # Parts of an axis that is longer than its data would begin behind them.
    whole = certainly(axes[0].begin, 0) and same(axes[0].size, axes[0].result)
    shared = [*names[:1]] if whole else []
    cost = product(layer.result()) * layer.input(0).element_type.dtype.itemsize // 16
    return Call("pad", text, sizes, views, layer.target, 1, cost, shared=shared).native()
