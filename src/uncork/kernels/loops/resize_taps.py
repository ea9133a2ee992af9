"""The cells and weights of an axis that is resized, as tables: made beforehand where sizes are
known, else by a kernel in each call.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Union

import numpy as np
from msgspec import Struct

from uncork.kernels.extents import decline_if
from uncork.kernels.kernel_plan import KernelCall, Scratch
from uncork.kernels.loops.axes import literal
from uncork.kernels.loops.nest_call import Call, View, row_bytes
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.target import Target
from uncork.ops._common.resize import Axis, Settings, nearest_cells, taps
from uncork.symbolic import SizeLike
from uncork.types import Array

#: Lanes of the vectors that are picked from two neighbours.
_NEAR = 16


class KnownTaps:
    """The taps of an axis of known sizes: for each place of the result its cells and, but for
    nearest, their weights, which are the reference's own numbers.
    """

    calls: Sequence[KernelCall] = ()
    scratch: SizeLike = 0

    def __init__(self, axis: Axis, how: Settings, smoothed: bool, name: str) -> None:
        """`name` is the type of the weights."""
        self.axis, self.weighted, self._name = axis.axis, how.mode != "nearest", name
        if self.weighted:
            cells, weights = taps(axis, how, smoothed)
            self._weights = np.ascontiguousarray(weights.T, "f8" if name == "f64" else "f4")
        else:
            cells = _nearest(axis, how)[:, np.newaxis]
            self._weights = np.zeros((0, 0), np.float32)
        self._cells = np.ascontiguousarray(cells.T, np.int32)
        self.count = len(self._cells)

    def of_channels(self, count: int) -> KnownTaps:
        """The taps of this axis and the one behind it, which has `count` elements and stays, joined
        into one axis.
        """
        joined = copy.copy(self)
        beside = np.arange(count, dtype=np.int32)
        cells = self._cells[..., np.newaxis] * count + beside
        joined._cells = np.ascontiguousarray(cells.reshape(self.count, -1))
        joined._weights = np.repeat(self._weights, count, axis=1)
        return joined

    @property
    def keep(self) -> Sequence[Array]:
        """What must live as long as the views."""
        return [self._cells, self._weights] if self.weighted else [self._cells]

    @property
    def cells(self) -> View:
        """Numbers of cells, `[taps, places]`."""
        return View(address_of(self._cells), "i32", self._cells.shape)

    @property
    def weights(self) -> View:
        """Their weights, `[taps, places]`."""
        return View(address_of(self._weights), self._name, self._weights.shape)

    @property
    def repeats(self) -> int:
        """How often each cell comes, where all come as often, in order; else 0."""
        return _repeats(self._cells[0]) if self.count == 1 else 0

    @property
    def is_near(self) -> bool:
        """Whether the cells of a vector of places lie within two vectors, from that of the first
        place on.
        """
        cells = np.concatenate([self._cells, np.repeat(self._cells[:, -1:], _NEAR, axis=1)], axis=1)
        windows = np.lib.stride_tricks.sliding_window_view(cells, _NEAR, 1)[:, ::_NEAR]
        firsts = windows[..., :1]
        return bool((windows >= firsts).all() and (windows < firsts + 2 * _NEAR).all())


def _nearest(axis: Axis, how: Settings) -> Array:
    return nearest_cells(
        axis, axis.coordinates(how.coordinate_transformation_mode), how.nearest_mode
    )


def _repeats(cells: Array) -> int:
    size, places = int(cells.max()) + 1, len(cells)
    times = places // size if places % size == 0 else 0
    return times if times in (2, 4, 8) and (cells == np.arange(places) // times).all() else 0


class OpenAxis(Struct, frozen=True):
    """`Axis` of sizes that only the call knows."""

    axis: int
    size: SizeLike
    result: SizeLike
    scale: Array | None


class OpenTaps:
    """The cells and weights of an axis in tables that a kernel fills, by the formulas of
    `interpolate.py`.
    """

    keep: Sequence[Array] = ()

    def __init__(
        self, axis: OpenAxis, how: Settings, name: str, scratch: SizeLike, target: Target
    ) -> None:
        """`name` is the type of the weights; the tables begin at `scratch` in the working
        memory.
        """
        self.axis, self.weighted, self._given, self._how = (
            axis.axis,
            how.mode != "nearest",
            axis,
            how,
        )
        decline_if(
            how.mode not in _LINES or how.antialias,
            f"no kernel for {how.mode} to sizes that only the call knows",
        )
        self.count = {"nearest": 1, "linear": 3, "linear_onnx": 2, "cubic": 4}[how.mode]
        shape = (self.count, axis.result)
        self.cells = View(Scratch(scratch), "i32", shape, own=False)
        each = row_bytes(self.count * axis.result, "i32")
        self.weights = View(Scratch(scratch + each), name, shape, own=False)
        self.scratch = each + (row_bytes(self.count * axis.result, name) if self.weighted else 0)
        lines = [
            *_coordinate(axis, how.coordinate_transformation_mode),
            *_LINES[how.mode](axis, how),
        ]
        text = "\n".join(["x:", *(f"  {line}" for line in lines)])
        # Coordinates are computed in f64, but for scales of fewer bits in f32.
        wide = (
            axis.scale is None
            or axis.scale.dtype == np.float64
            or how.coordinate_transformation_mode == "align_corners"
        )
        sizes = {"x": axis.result, "s": axis.size, "r": axis.result}
        views = {"S": self.cells, "Q": self.weights}
        call = Call(
            "resize_table", text, sizes, views, target, scalar_type="f64" if wide else "f32"
        )
        self.calls = [call.kernel_call()]

    @property
    def _grows(self) -> bool:
        """Whether the result is at least as long as the input, whatever the sizes are."""
        return self._given.scale is not None and float(self._given.scale) >= 1

    @property
    def repeats(self) -> int:
        """How often each cell comes, as `KnownTaps.repeats` says: a scale that is a power of 2 does
        the same at every size.
        """
        scale = self._given.scale
        if self.weighted or scale is None or float(scale) not in (2.0, 4.0, 8.0):
            return 0
        return _repeats(_nearest(Axis(self.axis, 64, 64 * int(scale), scale), self._how))

    @property
    def is_near(self) -> bool:
        """Whether a vector of places reads cells that are near, as `KnownTaps.is_near` says: places
        are no further from each other than cells.
        """
        return self._grows


Taps = Union[KnownTaps, OpenTaps]


def _coordinate(axis: OpenAxis, transformation: str) -> list[str]:
    """c, the coordinate of place x."""
    if transformation == "align_corners":
        c = "number(x) * number(s - 1) / larger(number(r - 1), 1.0)"
    else:
        centre = 0.0 if transformation == "asymmetric" else 0.5
        back = 0.0 if transformation == "tf_half_pixel_for_nn" else centre
        c = f"(number(x) + {centre})"
        c = (
            f"{c} * number(s) / number(r) - {back}"
            if axis.scale is None
            else f"{c} / {literal(float(axis.scale))} - {back}"
        )
        if transformation == "pytorch_half_pixel":
            c = f"where(number(r) == 1.0, 0.0, {c})"
    return [f"c = where(number(s) == number(r), number(x), {c})"]


def _inside(place: str) -> str:
    return f"truncated(smaller(larger({place}, 0.0), number(s - 1)))"


def _nearest_lines(axis: OpenAxis, how: Settings) -> list[str]:
    up, down = "-floor(-c)", "floor(c)"
    cell = {
        "simple": f"where(number(r) < number(s), {up}, {down})",
        "floor": down,
        "ceil": up,
        "round_prefer_floor": "-floor(0.5 - c)",
        "round_prefer_ceil": "floor(c + 0.5)",
    }[how.nearest_mode]
    if how.nearest_mode == "simple" and axis.scale is not None:
        cell = up if float(axis.scale) < 1 else down
    return [f"l = {cell}", f"S[0, x] = {_inside('l')}"]


def _linear_onnx_lines(axis: OpenAxis, how: Settings) -> list[str]:
    lines = ["c = smaller(larger(c, 0.0), number(s - 1))", "l = floor(c)", "p = c - l"]
    return [
        *lines,
        f"S[0, x] = {_inside('l')}",
        f"S[1, x] = {_inside('(l + 1.0)')}",
        "Q[0, x] = 1.0 - p",
        "Q[1, x] = p",
    ]


def _linear_lines(axis: OpenAxis, how: Settings) -> list[str]:
    lines = ["l = -floor(1.0 - c)"]
    for tap in range(3):
        lines += [f"d{tap} = l + {float(tap)}", f"S[{tap}, x] = {_inside(f'd{tap}')}"]
        weight = f"larger(1.0 - abs(d{tap} - c), 0.0)"
        lines += [f"w{tap} = where(both(d{tap} >= 0.0, d{tap} < number(s)), {weight}, 0.0)"]
    lines += ["t = w0 + w1 + w2", "t = where(t == 0.0, 1.0, t)"]
    return [*lines, *(f"Q[{tap}, x] = w{tap} / t" for tap in range(3))]


def _cubic_lines(axis: OpenAxis, how: Settings) -> list[str]:
    a = how.cube_coeff
    lines = ["l = floor(c)"]
    for tap in range(4):
        lines += [f"e = l + {float(tap - 1)}", f"S[{tap}, x] = {_inside('e')}", "d = abs(e - c)"]
        lines += [f"n = ({literal(a + 2)} * d - {literal(a + 3)}) * d * d + 1.0"]
        lines += [f"f = ((d - 5.0) * d + 8.0) * d * {literal(a)} - {literal(4 * a)}"]
        lines += [f"Q[{tap}, x] = where(d < 1.0, n, where(d < 2.0, f, 0.0))"]
    return lines


_LINES = {
    "nearest": _nearest_lines,
    "linear": _linear_lines,
    "linear_onnx": _linear_onnx_lines,
    "cubic": _cubic_lines,
}
