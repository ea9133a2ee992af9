"""Windows over spatial axes, counted one by one, for the loops of convolutions and poolings; and
values as Python numbers.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._sample import Case
from uncork import storage
from uncork.types import ElementType


def plain(case: Case, position: int) -> np.ndarray:
    """An input as an object array of Python ints or floats."""
    return np.asarray(storage.decode(case.inputs[position], case.types[position])).astype(object)


def carried(values: np.ndarray, element_type: ElementType) -> np.ndarray:
    """Python numbers as an array: floats in f64, to be rounded by the test; integers modulo
    2**bits.
    """
    if element_type.is_float:
        return values.astype(np.float64)
    modulus = 2**element_type.bits
    least = -(modulus // 2) if element_type.kind == "signed" else 0
    flat = [(int(v) - least) % modulus + least for v in values.ravel()]
    return np.array(flat, element_type.dtype).reshape(values.shape)


def axis_windows(
    size: int, kernel: int, attributes: dict[str, Any], axis: int
) -> tuple[list[list[int]], int]:
    """For each window along an axis, the data cells under each cell of the kernel, and the padding
    at the end.
    """

    def of(name: str, default: int) -> int:
        return attributes[name][axis] if attributes.get(name) else default

    stride, dilation = of("strides", 1), of("dilations", 1)
    cells = [k * dilation for k in range(kernel)]
    span = cells[-1] + 1
    auto_pad, rounding = (
        attributes.get("auto_pad", "explicit"),
        attributes.get("rounding_type", "floor"),
    )
    begin = of("pads_begin", 0) if auto_pad == "explicit" else 0
    end = of("pads_end", 0) if auto_pad == "explicit" else 0
    starts = [0]
    if auto_pad in ("same_upper", "same_lower"):
        starts = list(range(0, size, stride))
        missing = 0
        while starts and starts[-1] + span > size + missing:
            missing += 1
        begin = missing // 2 if auto_pad == "same_upper" else missing - missing // 2
        end = missing - begin
    else:
        while starts[-1] + span < size + begin + end:
            starts.append(starts[-1] + stride)
        if starts[-1] + span > size + begin + end and rounding == "floor":
            starts.pop()
        if rounding == "ceil_torch" and starts[-1] >= size + begin:
            starts.pop()
    return [[start - begin + cell for cell in cells] for start in starts], end


def each_window(sizes: tuple[int, ...], kernel: tuple[int, ...], attributes: dict[str, Any]) -> Any:
    """For each place of the output, the pairs (place in the kernel, place in the data or outside
    it).
    """
    along = [
        axis_windows(s, k, attributes, i)[0]
        for i, (s, k) in enumerate(zip(sizes, kernel, strict=True))
    ]
    for place in itertools.product(*(range(len(w)) for w in along)):
        under = [along[axis][i] for axis, i in enumerate(place)]
        yield (
            place,
            [
                (cell, tuple(u[c] for u, c in zip(under, cell, strict=True)))
                for cell in itertools.product(*map(range, kernel))
            ],
        )


def counts(
    sizes: tuple[int, ...], kernel: tuple[int, ...], attributes: dict[str, Any]
) -> tuple[int, ...]:
    return tuple(
        len(axis_windows(s, k, attributes, i)[0])
        for i, (s, k) in enumerate(zip(sizes, kernel, strict=True))
    )


def inside(place: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    return all(0 <= p < s for p, s in zip(place, sizes, strict=True))


@st.composite
def geometries(
    draw: st.DrawFn, pads: int = 2, dilated: bool = True, max_axes: int = 3
) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Sizes of the data, of the kernel, and attributes by which at least one window fits."""
    axes = draw(st.integers(1, max_axes))
    limit = {1: 7, 2: 5, 3: 3}[axes]

    def list_of(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes)))

    kernel = list_of(1, 3 if axes < 3 else 2)
    attributes = {
        "strides": list_of(1, 3),
        "pads_begin": list_of(0, pads),
        "pads_end": list_of(0, pads),
        "auto_pad": draw(
            st.sampled_from(["explicit", "explicit", "same_upper", "same_lower", "valid"])
        ),
    }
    if dilated:
        attributes["dilations"] = list_of(1, 2)
    sizes = list(list_of(1, limit))
    for axis in range(axes):
        span = (kernel[axis] - 1) * (attributes["dilations"][axis] if dilated else 1) + 1
        padding = (
            attributes["pads_begin"][axis] + attributes["pads_end"][axis]
            if attributes["auto_pad"] == "explicit"
            else 0
        )
        if not attributes["auto_pad"].startswith("same"):
            sizes[axis] = max(sizes[axis], span - padding, 1)
    return tuple(sizes), kernel, attributes
