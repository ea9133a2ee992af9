"""Convolutions whose filters only the call knows, and those of other types than f32: a loop nest,
which needs no packing.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.extents import decline_if, extents, is_empty, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import present
from uncork.kernels.loops.nest_call import Call, View
from uncork.kernels.loops.windows import (
    padded,
    sizes_of,
    tap_loops,
    windows_of,
)
from uncork.kernels.runtime.target import Target
from uncork.ops.convolution import Convolution1
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec

#: Cells between neighbours that a vector may be loaded with.
_MOST_STRIDE = 4
#: So many outputs are summed together, the first of these numbers that divides them: a vector of
#: the data is loaded once for all of them, and their sums do not wait for each other.
_TOGETHER = (8, 4, 2)
_FLOATS = frozenset({"f32", "f64", "f16", "bf16"})


def by_nest(
    operation: Convolution1, inputs: Sequence[TensorSpec | None], output: TensorSpec, target: Target
) -> Selection:
    """The calls of a convolution."""
    data, filters = present(inputs[0]), present(inputs[1])
    name = data.element_type.name
    decline_if(name not in _FLOATS, f"no kernel for {name}")
    sizes, given, result = extents(data), extents(filters), extents(output)
    decline_if(is_empty((*sizes, *given, *result)), "no kernel for empty tensors")
    grouped = given if operation.lead == 3 else (1, *given)
    groups, outputs, channels, *taps = grouped
    kernel = [tap for tap in taps if isinstance(tap, int)]
    decline_if(
        len(kernel) < len(taps), "no kernel for windows whose size is known at the call only"
    )
    windows = windows_of(operation, sizes[2:], result[2:], kernel)
    decline_if(
        windows[-1].stride > _MOST_STRIDE, "no kernel for filters of the call that are so far apart"
    )
    cells = ", ".join(window.tap_index() for window in windows)
    seen, loops = padded(f"X[n, g, c, {cells}]", windows, "0.0"), tap_loops(windows)
    axes, taken = [window.axis for window in windows], ", ".join(window.tap for window in windows)
    together = _together(outputs)
    places = [f"o, {k}" for k in range(together)]
    sums = [f"s{k} = sum({seen} * W[g, {at}, c, {taken}])" for k, at in enumerate(places)]
    stores = [f"Y[n, g, {at}, {', '.join(axes)}] = s{k}" for k, at in enumerate(places)]
    text = f"""n g o {" ".join(axes[:-1])} {axes[-1]}*:
  c {loops}: {"; ".join(sums)}
  {"; ".join(stores)}"""
    counted: dict[str, SizeLike] = {
        "n": sizes[0],
        "g": groups,
        "o": outputs // together,
        "c": channels,
    }
    counted |= sizes_of(windows)
    views = {
        "X": View(In(0), name, (sizes[0], groups, channels, *sizes[2:])),
        "W": View(In(1), name, (groups, outputs // together, together, channels, *taps)),
        "Y": View(Out(0), name, (sizes[0], groups, outputs // together, together, *result[2:])),
    }
    cost = product(result) * channels * product(kernel) // 8
    return Call(
        "convolution_nest", text, counted, views, target, 2, cost, shared=("n", "o")
    ).native()


def _together(outputs: SizeLike) -> int:
    """How many outputs one turn of the loops sums; one where their number is open."""
    if not isinstance(outputs, int):
        return 1
    return next((many for many in _TOGETHER if outputs % many == 0), 1)
