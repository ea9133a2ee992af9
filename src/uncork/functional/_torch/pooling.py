"""Pooling: windows that slide, and as many as results have cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.functional._torch.layered import (
    Ids,
    Layers,
    fixed,
    named_for_axes,
    refuse_if,
    sizes,
    without,
)
from uncork.ir.model import Source
from uncork.onnx.graph import Graph
from uncork.types import ElementType


def _windows(axes: int, kernel_size: Any, stride: Any, padding: Any, ceil: bool) -> dict[str, Any]:
    """What all windows have, as operations have it."""
    kernel, pads = sizes("kernel_size", kernel_size, axes, 1), sizes("padding", padding, axes)
    refuse_if(
        any(2 * pad > cells for pad, cells in zip(pads, kernel, strict=True)),
        f"padding: expected at most half of kernel_size, {kernel}, got {pads}",
    )
    return {
        "kernel": kernel,
        "strides": sizes("stride", stride, axes, 1) if stride not in (None, ()) else kernel,
        "pads_begin": pads,
        "pads_end": pads,
        # a window that would begin behind the data and its pads is left out
        "rounding_type": "ceil_torch" if ceil else "floor",
        "auto_pad": "explicit",
    }


@named_for_axes
def avg_pool(axes: int) -> Layers:
    """The means under windows."""

    def layers(
        g: Graph,
        input: Source,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Source:
        settings = _windows(axes, kernel_size, stride, padding, ceil_mode)
        exclude = not count_include_pad
        if divisor_override is not None:
            refuse_if(not divisor_override, "divisor_override: expected a number other than 0")
            refuse_if(ceil_mode, "divisor_override with ceil_mode is not supported")
            exclude = False
        result = g.make("AvgPool", input, exclude_pad=exclude, opset=14, **settings)
        if divisor_override is not None:
            result = g.times(result, math.prod(settings["kernel"]) / divisor_override)
        return result

    return without(layers, "divisor_override") if axes == 1 else layers


@named_for_axes
def max_pool(axes: int) -> Layers:
    """The largest cells under windows; with `return_indices` also where they lie."""

    def layers(
        g: Graph,
        input: Source,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Sequence[Source]:
        return g.several(
            "MaxPool",
            input,
            dilations=sizes("dilation", dilation, axes, 1),
            index_element_type=ElementType.i64,
            axis=2,
            opset=14,
            **_windows(axes, kernel_size, stride, padding, ceil_mode),
        )[: 1 + bool(return_indices)]

    return layers


@named_for_axes
def max_unpool(axes: int) -> Layers:
    """What `max_pool` found, where it lay, among zeros."""

    def layers(
        g: Graph,
        input: Source,
        indices: Ids,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Source:
        places = indices if g.rank(indices) == g.rank(input) else g.unsqueeze(indices, 0)
        settings = _windows(axes, kernel_size, stride, padding, False)
        if output_size is None:
            parts = (settings["strides"], settings["pads_begin"], settings["kernel"])
            given = [fixed(g, input, 2 + i) for i in range(axes)]
            wanted = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(given, *parts, strict=True)]
        else:
            wanted = sizes("output_size", tuple(output_size)[-axes:], axes, 1)
        lead = [fixed(g, input, 0), fixed(g, input, 1)]
        flat, where = (g.reshape(own, [*lead, -1]) for own in (input, places))
        zeros = g.broadcast(g.like(0, input), g.i64([*lead, math.prod(wanted)]))
        filled = g.make("ScatterElementsUpdate", zeros, where, flat, g.i64(2), opset=3)
        return g.reshape(filled, [*lead, *wanted])

    return layers


@named_for_axes
def lp_pool(axes: int) -> Layers:
    """The norms of what lies under windows."""

    def layers(
        g: Graph,
        input: Source,
        norm_type: float,
        kernel_size: Any,
        stride: Any = None,
        ceil_mode: bool = False,
    ) -> Source:
        settings = _windows(axes, kernel_size, stride, 0, ceil_mode)
        powers = g.power(input, float(norm_type))
        mean = g.make("AvgPool", powers, exclude_pad=False, opset=14, **settings)
        total = g.times(g.make("ReLU", mean), math.prod(settings["kernel"]))
        return g.power(total, 1.0 / norm_type)

    return layers


def _wanted(g: Graph, data: Source, output_size: Any, axes: int) -> Source:
    """The sizes of an adaptive result; None is the data's own."""
    given = output_size if isinstance(output_size, tuple) else (output_size,) * axes
    own = [fixed(g, data, 2 + i) if n is None else n for i, n in enumerate(given[:axes])]
    refuse_if(
        len(given) != axes, f"output_size: expected a number or {axes} of them, got {output_size!r}"
    )
    return g.constant(np.array(sizes("output_size", tuple(own), axes), np.int64))


@named_for_axes
def adaptive_avg_pool(axes: int) -> Layers:
    """The means of as many parts as the result has cells."""

    def layers(g: Graph, input: Source, output_size: Any) -> Source:
        return g.make("AdaptiveAvgPool", input, _wanted(g, input, output_size, axes))

    return layers


@named_for_axes
def adaptive_max_pool(axes: int) -> Layers:
    """The largest cells of as many parts as the result has cells."""

    def layers(
        g: Graph, input: Source, output_size: Any, return_indices: bool = False
    ) -> Sequence[Source]:
        wanted = _wanted(g, input, output_size, axes)
        results = g.several("AdaptiveMaxPool", input, wanted, index_element_type=ElementType.i64)
        return results[: 1 + bool(return_indices)]

    return layers
