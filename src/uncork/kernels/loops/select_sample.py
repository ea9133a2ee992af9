"""Which loop nest reads images between their cells: GridSample, bilinear and nearest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from uncork.kernels.extents import extents, is_empty, product
from uncork.kernels.kernel_plan import In, KernelPlan, Out, Selection
from uncork.kernels.loops.nest_call import Call, View, computed_type, unsupported
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import selects
from uncork.ops import Operation
from uncork.ops.grid_sample import GridSample9
from uncork.types import TensorSpec

#: Coordinates are cut so far outside: an image has no such cells.
_FAR = float(1 << 30)


@selects("GridSample")
def select_sampling(
    operation: Operation,
    inputs: Sequence[TensorSpec | None],
    outputs: Sequence[TensorSpec],
    target: Target,
) -> Selection:
    data, grid = inputs
    assert data is not None and grid is not None
    sample = cast("GridSample9", operation)
    name, places = data.element_type.name, grid.element_type.name
    if why := unsupported([name, places], target):
        return why
    if computed_type(name) != "f32" or computed_type(places) != "f32":
        return f"no kernel for {name} at places of {places}"
    if sample.padding_mode == "reflection" or sample.mode == "bicubic":
        return f"no kernel for {sample.padding_mode} with {sample.mode}"
    shape, result = extents(data), extents(outputs[0])
    if is_empty(result):
        return KernelPlan("sample_nothing", [])
    if is_empty(shape):
        return "no cells to look at"
    text = "\n".join(["n y x*:", *(f"  {line}" for line in _lines(sample))])
    sizes = dict(zip("ncyx", result)) | {"h": shape[2], "w": shape[3]}
    views = {
        "X": View(In(0), name, shape),
        "Y": View(Out(0), name, result),
        "G": View(In(1), places, (result[0], result[2], 2 * result[3])),
    }
    taps = 4 if sample.mode == "bilinear" else 1
    return Call(
        "sample", text, sizes, views, target, 1, product(result) * taps, shared=("n", "y")
    ).native()


def _lines(sample: GridSample9) -> list[str]:
    """The cells around the place of each pixel, and their sum by weights, channel by channel."""
    lines = [_coordinate(sample, "u", 0, "w"), _coordinate(sample, "v", 1, "h")]
    if sample.mode == "nearest":
        # of a NaN there is no cell: adding 0 times it makes a NaN of what is read
        lines += [
            "l = rint(u)",
            "t = rint(v)",
            _cell(sample, "i", "l", "w"),
            _cell(sample, "j", "t", "h"),
        ]
        lines += ["b = either(differs(u), differs(v))", "r = u + v"]
        return [*lines, f"c: Y[n, c, y, x] = where(b, r, {_read('j', 'i')})"]
    lines += ["l = floor(u)", "t = floor(v)", "p = u - l", "q = v - t"]
    lines += [_cell(sample, "i", "l", "w"), _cell(sample, "k", "(l + 1.0)", "w")]
    lines += [_cell(sample, "j", "t", "h"), _cell(sample, "m", "(t + 1.0)", "h")]
    lines += ["d = (1.0 - q) * (1.0 - p)", "e = (1.0 - q) * p", "f = q * (1.0 - p)", "g = q * p"]
    terms = [("j", "i", "d"), ("j", "k", "e"), ("m", "i", "f"), ("m", "k", "g")]
    return [
        *lines,
        "c: Y[n, c, y, x] = " + " + ".join(f"{weight} * {_read(j, i)}" for j, i, weight in terms),
    ]


def _coordinate(sample: GridSample9, name: str, which: int, size: str) -> str:
    raised = f"(G[n, y, 2*x + {which}] + 1.0)"
    centre = (
        f"{raised} * number({size} - 1)"
        if sample.align_corners
        else f"({raised} * number({size}) - 1.0)"
    )
    return f"{name} = smaller(larger({centre} / 2.0, {-_FAR}), {_FAR})"


def _cell(sample: GridSample9, name: str, place: str, size: str) -> str:
    """A whole coordinate as an integer: of NaN any, as its weight is one."""
    whole = f"where(differs({place}), 0.0, {place})"
    if sample.padding_mode == "border":
        whole = f"smaller(larger({whole}, 0.0), number({size} - 1))"
    return f"{name} = truncated({whole})"


def _read(row: str, column: str) -> str:
    return f"pad(X[n, c, at({row}), at({column})], 0.0)"
