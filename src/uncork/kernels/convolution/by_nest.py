"""Convolutions whose filters only the call knows, and those of other types than f32: a loop nest,
which needs no packing.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.extents import extents, is_empty, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.loops.nest_call import Call, View, unsupported
from uncork.kernels.loops.windows import PADS, taps_written_out, windows_of
from uncork.kernels.runtime.target import Target
from uncork.ops.convolution import Convolution1
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec

#: Cells between neighbours that a vector may be loaded with.
_MOST_STRIDE = 4
_FLOATS = frozenset({"f32", "f64", "f16", "bf16"})


def by_nest(
    operation: Convolution1, inputs: Sequence[TensorSpec | None], output: TensorSpec, target: Target
) -> Selection:
    """The calls of a convolution."""
    data, filters = inputs[0], inputs[1]
    assert data is not None and filters is not None
    name = data.element_type.name
    if name not in _FLOATS:
        return f"no kernel for {name}"
    if why := unsupported([name], target):
        return why
    sizes, given, result = extents(data), extents(filters), extents(output)
    if is_empty((*sizes, *given, *result)):
        return "no kernel for empty tensors"
    grouped = given if operation.lead == 3 else (1, *given)
    groups, outputs, channels, *taps = grouped
    kernel = [tap for tap in taps if isinstance(tap, int)]
    if len(kernel) < len(taps):
        return "no kernel for windows whose size is known at the call only"
    windows = windows_of(operation, sizes[2:], result[2:], kernel)
    if windows[-1].stride > _MOST_STRIDE:
        return "no kernel for filters of the call that are so far apart"
    cells = ", ".join(window.tap_index() for window in windows)
    seen = f"X[n, g, c, {cells}]"
    if any(window.is_padded for window in windows):
        seen = f"pad({seen}, 0.0)"
    written_out = taps_written_out(windows)
    loops = " ".join(window.loop(written_out) for window in windows)
    axes = [window.axis for window in windows]
    text = f"""n g o {" ".join(axes[:-1])} {axes[-1]}*:
  c {loops}: s = sum({seen} * W[g, o, c, {", ".join(window.tap for window in windows)}])
  Y[n, g, o, {", ".join(axes)}] = s"""
    counted: dict[str, SizeLike] = {"n": sizes[0], "g": groups, "o": outputs, "c": channels}
    for window in windows:
        counted |= {
            window.axis: window.count,
            window.tap: window.kernel,
            PADS[window.spatial_axis]: window.begin,
        }
    views = {
        "X": View(In(0), name, (sizes[0], groups, channels, *sizes[2:])),
        "W": View(In(1), name, tuple(grouped)),
        "Y": View(Out(0), name, (sizes[0], groups, outputs, *result[2:])),
    }
    cost = product(result) * channels * product(kernel) // 8
    return Call(
        "convolution_nest", text, counted, views, target, 2, cost, shared=("n", "o")
    ).native()
