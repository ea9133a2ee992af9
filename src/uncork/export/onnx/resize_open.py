"""Interpolate where sizes are known only as the model runs: coordinates, cells and weights computed
by nodes.
"""

from __future__ import annotations

import numpy as np

from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.ops._common.resize import Settings
from uncork.types import ElementType, PartialShape

T = ElementType
#: Cells and their weights, each one for every place of the output.
Taps = list[tuple[Tensor, Tensor]]


class OpenAxis:
    """One axis whose size, result or scale are scalars that the model computes."""

    def __init__(
        self, g: Graph, size: Tensor, result: Tensor, scale: Tensor | None, how: Settings
    ) -> None:
        self.g, self.size, self.result, self.scale, self.how = g, size, result, scale, how

    def _number(self, value: float) -> Tensor:
        return self.g.constant(np.float64(value))

    def _whole(self, tensor: Tensor) -> Tensor:
        return self.g.cast(tensor, T.f64)

    def coordinates(self) -> Tensor:
        """The input coordinate, in f64, of each place of the output; an axis that keeps its size is
        copied.
        """
        g, mode = self.g, self.how.coordinate_transformation_mode
        places = g.op("Range", g.constant(0, I64), self.result, g.constant(1, I64))
        x = self._whole(places)
        size, result = self._whole(self.size), self._whole(self.result)
        one = self._number(1)
        if mode == "align_corners":
            last = g.op("Max", g.op("Sub", result, one), one)
            moved = g.op("Div", g.op("Mul", x, g.op("Sub", size, one)), last)
        else:
            moved = self._scaled(places, x, size, result, mode)
        if mode == "pytorch_half_pixel":
            moved = g.op("Where", g.op("Equal", result, one), self._number(0), moved)
        return g.op("Where", g.op("Equal", self.size, self.result), x, moved, shape=[None])

    def _scaled(self, places: Tensor, x: Tensor, size: Tensor, result: Tensor, mode: str) -> Tensor:
        g = self.g
        centre = 0.0 if mode == "asymmetric" else 0.5
        back = 0.0 if mode == "tf_half_pixel_for_nn" else centre
        if self.scale is None:
            moved = g.op("Div", g.op("Mul", g.op("Add", x, self._number(centre)), size), result)
            return g.op("Sub", moved, self._number(back))
        # In the type of the scales, as the operation has it.
        near = g.op("Add", g.cast(places, self.scale.type), g.number(centre, self.scale))
        return self._whole(g.op("Sub", g.op("Div", near, self.scale), g.number(back, self.scale)))

    def nearest(self) -> Tensor:
        """The input cell that each place of the output reads."""
        g, rounding, coordinates = self.g, self.how.nearest_mode, self.coordinates()
        up, down = (g.op(node, coordinates) for node in ("Ceil", "Floor"))
        if rounding == "simple":
            rounded = g.op("Where", g.op("Less", self.result, self.size), up, down)
        elif rounding == "round_prefer_floor":
            rounded = g.op("Ceil", g.op("Sub", coordinates, self._number(0.5)))
        elif rounding == "round_prefer_ceil":
            rounded = g.op("Floor", g.op("Add", coordinates, self._number(0.5)))
        else:
            rounded = up if rounding == "ceil" else down
        return self._inside(rounded)

    def _inside(self, cells: Tensor) -> Tensor:
        last = self.g.op("Sub", self._whole(self.size), self._number(1))
        return self.g.cast(self.g.op("Max", self.g.op("Min", cells, last), self._number(0)), I64)

    def taps(self) -> Taps:
        """The cells that each place reads, and their weights, for linear and cubic modes."""
        g, coordinates = self.g, self.coordinates()
        one = self._number(1)
        if self.how.mode == "linear_onnx":
            last = g.op("Sub", self._whole(self.size), one)
            inside = g.op("Max", g.op("Min", coordinates, last), self._number(0))
            low = g.op("Floor", inside)
            part = g.op("Sub", inside, low)
            return [
                (self._inside(low), g.op("Sub", one, part)),
                (self._inside(g.op("Add", low, one)), part),
            ]
        low = g.op("Floor", coordinates)
        part = g.op("Sub", coordinates, low)
        if self.how.mode == "cubic":
            shifts = [g.op("Add", low, self._number(k)) for k in range(-1, 3)]
            return [
                (self._inside(s), self._keys(g.op("Abs", g.op("Sub", s, coordinates))))
                for s in shifts
            ]
        return self._linear(low, part)

    def _linear(self, low: Tensor, part: Tensor) -> Taps:
        """The two cells around each coordinate and their weights; a cell outside has none."""
        g, zero, one = self.g, self._number(0), self._number(1)
        cells = [low, g.op("Add", low, one)]
        weights = []
        for cell, weight in zip(cells, (g.op("Sub", one, part), part), strict=True):
            counts = g.op(
                "And",
                g.op("GreaterOrEqual", cell, zero),
                g.op("Less", cell, self._whole(self.size)),
            )
            weights.append(g.op("Where", counts, weight, zero))
        total = g.op("Add", *weights)
        none = g.op("Equal", total, zero)
        divisor = g.op("Where", none, one, total)
        return [
            (self._inside(c), g.op("Div", w, divisor)) for c, w in zip(cells, weights, strict=True)
        ]

    def _keys(self, d: Tensor) -> Tensor:
        """The weight at a distance by Keys' cubic convolution kernel."""
        g, a = self.g, self.how.cube_coeff
        square = g.op("Mul", d, d)
        near = g.op("Sub", g.op("Mul", self._number(a + 2), d), self._number(a + 3))
        near = g.op("Add", g.op("Mul", near, square), self._number(1))
        far = g.op("Add", g.op("Mul", g.op("Sub", d, self._number(5)), d), self._number(8))
        far = g.op("Sub", g.op("Mul", g.op("Mul", far, d), self._number(a)), self._number(4 * a))
        outer = g.op("Where", g.op("Less", d, self._number(2)), far, self._number(0))
        return g.op("Where", g.op("Less", d, self._number(1)), near, outer)

    def _coordinates_in_f32(self) -> Tensor:
        """The coordinates that `coordinates_in_f32` gives, for pictures of bytes."""
        g, mode = self.g, self.how.coordinate_transformation_mode
        places = g.op("Range", g.constant(0, I64), self.result, g.constant(1, I64))
        size, result = (g.cast(n, T.f32) for n in (self.size, self.result))
        one, x = g.constant(np.float32(1)), g.cast(places, T.f32)
        if mode == "align_corners":
            last = g.op("Max", g.op("Sub", result, one), one)
            moved = g.op("Mul", x, g.op("Div", g.op("Sub", size, one), last))
        else:
            given = None if self.scale is None else g.cast(self.scale, T.f32)
            centre = g.constant(np.float32(0 if mode == "asymmetric" else 0.5))
            scale = g.op("Div", result, size) if given is None else given
            moved = g.op("Div", g.op("Add", x, centre), scale)
            if mode != "tf_half_pixel_for_nn":
                moved = g.op("Sub", moved, centre)
        if mode == "pytorch_half_pixel":
            moved = g.op("Where", g.op("Equal", result, one), g.constant(np.float32(0)), moved)
        return g.op("Where", g.op("Equal", self.size, self.result), x, moved, shape=[None])

    def applied_to_bytes(self, values: Tensor, axis: int) -> Tensor:
        """f32 values of bytes resized by linear_onnx, the second product of an axis unrounded."""
        g, rank = self.g, self.g.rank(values)
        one, zero = g.constant(np.float32(1)), g.constant(np.float32(0))
        last = g.op("Sub", g.cast(self.size, T.f32), one)
        inside = g.op("Max", g.op("Min", self._coordinates_in_f32(), last), zero)
        low = g.op("Floor", inside)
        part = g.op("Sub", inside, low)
        high = g.op("Min", g.op("Add", low, one), last)
        products = [(low, g.op("Sub", one, part)), (high, part)]
        if axis == rank - 2:
            products.reverse()
        exact, rounded = (
            (
                g.op("Gather", values, g.cast(cells, I64), axis=axis),
                g.unsqueeze(Tensor(w.name, w.type, PartialShape([None])), [*range(1, rank - axis)]),
            )
            for cells, w in products
        )
        product = g.op("Mul", *(g.cast(factor, T.f64) for factor in exact))
        total = g.op("Add", product, g.cast(g.op("Mul", *rounded), T.f64))
        return g.cast(total, T.f32)

    def applied(self, data: Tensor, axis: int) -> Tensor:
        """The data resized along this axis."""
        g, rank = self.g, self.g.rank(data)
        if self.how.mode == "nearest":
            return g.op("Gather", data, self.nearest(), axis=axis)
        total: Tensor | None = None
        for cells, weights in self.taps():
            vector = Tensor(weights.name, weights.type, PartialShape([None]))
            spread = g.unsqueeze(g.cast(vector, data.type), list(range(1, rank - axis)))
            part = g.op("Mul", g.op("Gather", data, cells, axis=axis), spread)
            total = part if total is None else g.op("Add", total, part)
        assert total is not None
        return total
