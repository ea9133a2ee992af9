"""Images: other sizes, other places, more around them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from uncork.functional._torch.layered import (
    LAYERS,
    choice,
    fixed,
    named,
    rank_from,
    refuse,
    refuse_if,
    sizes,
)
from uncork.ir.model import Source
from uncork.onnx.graph import Graph

_PADS = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


@named
def pad(
    g: Graph, input: Source, pad: Any, mode: str = "constant", value: float | None = None
) -> Source:
    """More around the data, or less: two numbers for each axis, the last axis first."""
    rank = g.rank(input)
    whole = isinstance(pad, tuple) and all(isinstance(n, (int, np.integer)) for n in pad)
    refuse_if(
        not whole or len(pad) % 2 or len(pad) > 2 * rank,
        f"pad: expected two whole numbers for each of up to {rank} axes, got {pad!r}",
    )
    choice("mode", mode, *_PADS, "circular")
    if mode != "constant" and value is not None:
        raise refuse(f"value is for mode='constant', got mode={mode!r}")
    begins, ends = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        begins[rank - 1 - i], ends[rank - 1 - i] = int(pad[2 * i]), int(pad[2 * i + 1])
    if mode == "circular":
        return _around(g, input, begins, ends)
    refuse_if(
        mode != "constant" and min(*begins, *ends) < 0,
        f"pad: less than 0 is for mode='constant', got {pad!r}",
    )
    fill = g.like(value or 0, input)
    return g.make("Pad", input, g.i64(begins), g.i64(ends), fill, pad_mode=_PADS[mode], opset=12)


def _around(g: Graph, data: Source, begins: list[int], ends: list[int]) -> Source:
    """The data as if they went on from the start behind their end."""
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if begin or end:
            size = fixed(g, data, axis)
            refuse_if(
                not (0 <= begin <= size and 0 <= end <= size),
                f"pad: expected 0 to {size} around an axis of {size}, got {begin} and {end}",
            )
            order = np.arange(-begin, size + end) % size
            data = g.gather(data, g.constant(order), axis)
    return data


# ---- other sizes


_AXES = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_SMOOTH = {"bilinear": "bilinear_pillow", "bicubic": "bicubic_pillow"}


@named
def interpolate(
    g: Graph,
    input: Source,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Source:
    """Images in another size."""
    rank = g.rank(input)
    axes = rank - 2
    choice("mode", mode, "nearest", "nearest-exact", "area", *_AXES)
    refuse_if(
        axes not in (1, 2, 3) or _AXES.get(mode, axes) != axes,
        f"input: expected {_AXES.get(mode, 'one, two or three')} axes behind [N, C] for "
        f"mode={mode!r}, got shape {g.spec(input).shape}",
    )
    if align_corners is not None and mode not in _AXES:
        raise refuse(f"align_corners is for {', '.join(_AXES)}, got mode={mode!r}")
    refuse_if(
        antialias and (mode not in _SMOOTH or align_corners),
        "antialias is for bilinear and bicubic, without align_corners",
    )
    wanted, scales = _sizes(g, input, size, scale_factor, axes)
    if mode == "area":
        return g.make("AdaptiveAvgPool", input, g.i64(wanted))
    by_sizes = scales is None or bool(recompute_scale_factor)
    if antialias and not by_sizes:
        pairs = zip(g.sizes(input)[2:], scales or [], strict=True)
        refuse_if(
            [float(n or 0) * s for n, s in pairs] != [float(n) for n in wanted],
            "antialias: scale_factor must give whole sizes; give size, or "
            "recompute_scale_factor=True",
        )
    how = "half_pixel"
    if align_corners:
        how = "align_corners"
    elif mode == "nearest":
        how = "asymmetric"
    kinds = {"nearest": "nearest", "nearest-exact": "nearest", "bicubic": "cubic"}
    kind = _SMOOTH[mode] if antialias else kinds.get(mode, "linear_onnx")
    if by_sizes:
        amount = g.i64(wanted)
    else:
        amount = g.constant(np.array(scales, np.float32))
    return g.make(
        "Interpolate",
        input,
        amount,
        g.i64(list(range(2, rank))),
        mode=kind,
        shape_calculation_mode="sizes" if by_sizes else "scales",
        coordinate_transformation_mode=how,
        nearest_mode="floor" if mode == "nearest" else "round_prefer_ceil",
        cube_coeff=-0.5 if antialias else -0.75,
        opset=11,
    )


def _sizes(
    g: Graph, data: Source, size: Any, scale_factor: Any, axes: int
) -> tuple[list[int], list[float] | None]:
    """The sizes of a result, and the scales where these were given."""
    if (size is None) == (scale_factor is None):
        raise refuse("size and scale_factor: expected one of them")
    if size is not None:
        return sizes("size", size, axes, 1), None
    given = scale_factor if isinstance(scale_factor, tuple) else (scale_factor,) * axes
    numbers = all(isinstance(n, (int, float, np.number)) and n > 0 for n in given)
    refuse_if(
        not numbers or len(given) != axes,
        f"scale_factor: expected a number or {axes} of them, got {scale_factor!r}",
    )
    scales = [float(n) for n in given]
    before = [fixed(g, data, 2 + i) for i in range(axes)]
    after = [math.floor(n * s) for n, s in zip(before, scales, strict=True)]
    # what the operation takes for a whole number, as files need it
    refuse_if(
        after != [math.floor(n * s + 1e-6) for n, s in zip(before, scales, strict=True)],
        f"scale_factor: {scale_factor!r} of {before} is just below a size: give size",
    )
    refuse_if(
        0 in after and 0 not in before, f"scale_factor {scale_factor!r} leaves nothing of {before}"
    )
    return after, scales


@named
def upsample(
    g: Graph,
    input: Source,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Source:
    """The name that `interpolate` had."""
    return interpolate(g, input, size, scale_factor, mode, align_corners)


@named
def upsample_nearest(g: Graph, input: Source, size: Any = None, scale_factor: Any = None) -> Source:
    """`interpolate` by the nearest cell."""
    return interpolate(g, input, size, scale_factor)


@named
def upsample_bilinear(
    g: Graph, input: Source, size: Any = None, scale_factor: Any = None
) -> Source:
    """`interpolate` with aligned corners."""
    return interpolate(g, input, size, scale_factor, "bilinear", True)


# ---- other places


@named
def grid_sample(
    g: Graph,
    input: Source,
    grid: Source,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Source:
    """Images `[N, C, H, W]` looked at in the places of a grid `[N, h, w, 2]`, from -1 to 1."""
    refuse_if(
        g.rank(input) != 4, f"input: expected images [N, C, H, W], got shape {g.spec(input).shape}"
    )
    return g.make(
        "GridSample",
        input,
        grid,
        align_corners=bool(align_corners),
        mode=choice("mode", mode, "bilinear", "nearest", "bicubic"),
        padding_mode=choice("padding_mode", padding_mode, "zeros", "border", "reflection"),
    )


@named
def affine_grid(g: Graph, theta: Source, size: Any, align_corners: bool | None = None) -> Source:
    """The places that affine maps `[N, 2, 3]` look at, for results of a size `[N, C, H, W]`; of
    `[N, 3, 4]` with a depth.
    """
    if not isinstance(size, tuple) or len(size) not in (4, 5):
        raise refuse(f"size: expected [N, C, H, W], or with a depth, got {size!r}")
    wanted = [int(n) for n in size[2:]]
    axes = len(wanted)
    refuse_if(
        g.rank(theta) != 3 or g.sizes(theta)[1:] not in ([axes, axes + 1], [None, None]),
        f"theta: expected [N, {axes}, {axes + 1}], got shape {g.spec(theta).shape}",
    )
    lines = [
        np.linspace(-1, 1, n) * (1 if align_corners or n < 2 else (n - 1) / n)
        if n > 1
        else np.zeros(n)
        for n in wanted
    ]
    mesh = np.meshgrid(*lines, indexing="ij")
    places = np.stack([own.reshape(-1) for own in (*mesh[::-1], np.ones_like(mesh[0]))], axis=1)
    base = g.convert(g.constant(places), g.type(theta))
    flat = g.matmul(base, theta, tb=True)
    shape = g.concat([g.size_of(theta, 0), g.i64([*wanted, axes])], 0)
    return g.reshape(flat, shape)


def _blocks(g: Graph, type_name: str, data: Source, name: str, factor: Any) -> Source:
    rank = g.rank(data)
    refuse_if(
        rank not in (3, 4),
        f"input: expected images [N, C, H, W] or [C, H, W], got shape {g.spec(data).shape}",
    )
    (block,) = sizes(name, factor, 1, 1)
    data = g.unsqueeze(data, 0) if rank == 3 else data
    result = g.make(type_name, data, block_size=block, mode="depth_first")
    return g.squeeze(result, 0) if rank == 3 else result


@named
def pixel_shuffle(g: Graph, input: Source, upscale_factor: int) -> Source:
    """Channels as pixels of an image that is so many times larger."""
    return _blocks(g, "DepthToSpace", input, "upscale_factor", upscale_factor)


@named
def pixel_unshuffle(g: Graph, input: Source, downscale_factor: int) -> Source:
    """Pixels as channels of an image that is so many times smaller."""
    return _blocks(g, "SpaceToDepth", input, "downscale_factor", downscale_factor)


@named
def channel_shuffle(g: Graph, input: Source, groups: int) -> Source:
    """Channels of every group in turn."""
    rank_from(g, input, 3)
    (count,) = sizes("groups", groups, 1, 1)
    return g.make("ShuffleChannels", input, axis=1, group=count)


LAYERS["native_channel_shuffle"] = channel_shuffle
