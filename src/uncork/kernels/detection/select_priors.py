"""Selection of the loop nest that makes boxes around every cell of a grid: PriorBox and
PriorBoxClustered, whose sizes only the call knows (others are constants).
"""

from __future__ import annotations

import numpy as np

from uncork.kernels.extents import as_number, decline_if, is_empty, nanoseconds, product
from uncork.kernels.kernel_plan import KernelPlan, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.axes import literal
from uncork.kernels.loops.nest_call import Call, View
from uncork.kernels.loops.regions import Rooms
from uncork.kernels.runtime.addresses import address_of
from uncork.ops.prior_box import PriorBox1, PriorBoxClustered1
from uncork.symbolic import SizeLike
from uncork.types import Array

#: Numbers of a row of the table of boxes: offsets and half sides of x and y, and whether a box is
#: of a fixed size.
_NUMBERS = 5


def select_priors(layer: Layer) -> Selection:
    """Select a nest that makes the numbers of x of a row of the grid, and for each row those of y;
    each number of a cell is one or the other. Steps are computed in f64 and rounded.
    """
    operation, inputs, target = layer.operation, layer.inputs, layer.target
    assert isinstance(operation, (PriorBox1, PriorBoxClustered1))
    sizes = [spec.sizes() or [None, None] for spec in inputs if spec is not None]
    (rows, columns), (down, across) = sizes
    if rows is None or columns is None or down is None or across is None:
        return "no kernel for sizes that are not told by shapes"
    scale = 1.0
    if isinstance(operation, PriorBox1) and not operation.scale_all_sizes:
        scale = float(as_number(down, "no kernel for boxes that are parts of an image of any size"))
    table = _table(operation, scale)
    count = len(table)
    decline_if(
        count != operation.boxes_per_cell(),
        "no kernel for boxes that are counted in another way than made",
    )
    length = 4 * count
    if not length or is_empty((rows, columns)):
        return KernelPlan("priors_of_none", [])
    variances = np.resize(np.array(operation.variance or 0.1, np.float32), length)
    # which numbers of a cell are of y
    vertical = np.resize(np.array([0, 1], np.float32), length)
    rooms = Rooms("f32")
    grid = (rows, columns, length)
    whole = product(grid)
    views = {
        "B": View(_address(table), "f32", (count, _NUMBERS)),
        "N": View(_address(variances), "f32", (length,)),
        "M": View(_address(vertical), "f32", (length,)),
        "Y": View(Out(0), "f32", grid),
        "W": View(Out(0, whole * 4), "f32", grid),
        "T": rooms.view((4,)),
        "U": rooms.view((columns, count, 4)),
        "V": rooms.view((count, 4)),
    }
    views["P"] = View(views["U"].base, "f32", (columns, length))
    views["Q"] = View(views["V"].base, "f32", (length,))
    lines = [
        "refused = either(number(down) < 1.0, number(across) < 1.0)",
        "x:",
        *_line(operation, scale, "x", "across", "U[x, b, {0}]", (0, 2)),
        # the others of a cell are read, but not chosen
        "  b: U[x, b, 1] = T[0] * 0.0; U[x, b, 3] = T[0] * 0.0",
        "y:",
        *_line(operation, scale, "y", "down", "V[b, {0}]", (1, 3)),
        "  b: V[b, 0] = T[0] * 0.0; V[b, 2] = T[0] * 0.0",
        "  x z*:",
        "    Y[y, x, z] = where(M[z] > 0.5, Q[z], P[x, z])",
        "    W[y, x, z] = N[z]",
    ]
    places: dict[str, SizeLike] = {"y": rows, "x": columns, "b": count, "z": length}
    places |= {"down": down, "across": across}
    text = "\n".join(lines)
    call = Call("priors", text, places, views, target, 1, scalar_type="f64").kernel_call()
    keep = [table, variances, vertical]
    return KernelPlan("priors", [call], rooms.size, keep, nanoseconds(whole, 0.5))


def _table(operation: PriorBox1 | PriorBoxClustered1, scale: float) -> Array:
    """The boxes of a cell: offsets of x and y, half sides, and 1 where its sizes are fixed."""
    places, halves, fixed = operation.cell(scale)
    is_fixed = (np.arange(len(places)) < fixed).astype(np.float32)[:, np.newaxis]
    return np.ascontiguousarray(np.concatenate([places, halves, is_fixed], 1), np.float32)


def _address(array: Array) -> int:
    return address_of(array)


def _line(
    operation: PriorBox1 | PriorBoxClustered1,
    scale: float,
    axis: str,
    pixels: str,
    place: str,
    numbers: tuple[int, int],
) -> list[str]:
    """The lines that make the low and the high ends of a cell's boxes along an axis. What is
    rounded to f32 is stored in between.
    """
    column, offset = int(axis == "y"), operation.offset
    share = f"number({pixels}) / size({axis})"
    if isinstance(operation, PriorBox1):
        offset = offset if operation.step else 0.5
        step = literal(operation.step * scale) if operation.step else share
        if operation.step == -1 and not operation.scale_all_sizes:
            step = "number(down) / size(y)"
    else:
        steps = [own or operation.step for own in (operation.step_w, operation.step_h)]
        step = literal(steps[column]) if any(steps) else share
    lines = [
        f"T[0] = number({axis})",
        f"T[1] = {literal(offset)}",
        f"T[2] = {step}",
        f"T[3] = number({pixels})",
        "c = (T[0] + T[1]) * T[2]",
        "b:",
        f"  m = c + B[b, {column}]",
        f"  low = (m - B[b, {column + 2}]) / T[3]",
        f"  high = (m + B[b, {column + 2}]) / T[3]",
    ]
    ends = ["low", "high"]
    if operation.cell(scale)[2]:
        ends = ["where(B[b, 4] > 0.5, larger(low, 0.0), low)"]
        ends += ["where(B[b, 4] > 0.5, smaller(high, 1.0), high)"]
    if operation.clip:
        ends = [f"larger(smaller({end}, 1.0), 0.0)" for end in ends]
    lines += [
        f"  {place.format(number)} = {end}" for number, end in zip(numbers, ends, strict=True)
    ]
    return [f"  {line}" for line in lines]
