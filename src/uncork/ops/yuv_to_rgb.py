"""NV12toRGB-8, NV12toBGR-8, I420toRGB-8, I420toBGR-8: images of a plane of brightness and planes of
colour of half its size.

    R = 1.164 * (Y - 16) + 1.596 * (V - 128)
    G = 1.164 * (Y - 16) - 0.391 * (U - 128) - 0.813 * (V - 128)         all cut to 0..255
    B = 1.164 * (Y - 16) + 2.018 * (U - 128)

One U and one V belong to 2 x 2 pixels. NV12 has them in pairs, [N, H / 2, W / 2, 2], I420 in a
plane each; all planes may lie in a single one below each other, [N, H * 3 / 2, W, 1], row after row
without gaps. Pages: operation-specs/image/nv12-to-rgb-8, nv12-to-bgr-8, i420-to-rgb-8,
i420-to-bgr-8. Decided where they are silent: u8 is rounded to the nearest, halves to even; images
of odd height or width are refused.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._operation import Operation, register
from uncork.ops._ports import REAL, Input, Output
from uncork.types import DYNAMIC, Array, Dimension, ElementType, PartialShape, TensorSpec

_TYPES = REAL | {ElementType.u8}


class _Planes(Operation):
    """The base of the four conversions. The first input is the plane of brightness, or the one
    plane that holds everything.
    """

    colours = Output("T")
    #: The last dimension of the planes after the first.
    channels = 1
    blue_first = False

    def infer(self, *specs: TensorSpec | None) -> PartialShape:
        planes = [
            (port.name, spec.shape)
            for port, spec in zip(self.inputs, specs, strict=False)
            if spec is not None
        ]
        self.require(
            len(planes) in (1, len(self.inputs)),
            "expected 1 input or {}, got {}",
            len(self.inputs),
            len(planes),
        )
        batch, height, width = DYNAMIC, DYNAMIC, DYNAMIC
        for index, (name, shape) in enumerate(planes):
            channels = self.channels if index else 1
            fits = shape.rank is None or (shape.rank == 4 and shape[3].agrees(channels))
            self.require(
                fits, "input '{}': expected a shape [N, H, W, {}], got {}", name, channels, shape
            )
            if shape.rank is None:
                continue
            rows, columns = shape[1], shape[2]
            if index:
                rows, columns = rows * 2, columns * 2
            elif len(planes) == 1:
                self._require_multiple(name, "height", rows, 3)
                rows = (rows * 2) // 3
            self._require_multiple(name, "height", rows, 2)
            self._require_multiple(name, "width", columns, 2)
            found = batch.merge(shape[0]), height.merge(rows), width.merge(columns)
            image = PartialShape([batch, height, width])
            self.require(
                None not in found,
                "input '{}': expected a plane of images [N, H, W] = {}, got shape {}",
                name,
                image,
                shape,
            )
            batch, height, width = (size or DYNAMIC for size in found)
        return PartialShape([batch, height, width, 3])

    def _require_multiple(self, name: str, what: str, size: Dimension, factor: int) -> None:
        self.require(
            size.is_multiple_of(factor),
            "input '{}': expected a {} that is a multiple of {}, got {}",
            name,
            what,
            factor,
            size,
        )

    def halves(self, single: Array) -> tuple[Array, Array]:
        """The planes U and V, [N, H / 2, W / 2] each, from the part of a single plane below the
        brightness, [N, H / 2, W].
        """
        raise NotImplementedError

    def reference(self, *planes: Array | None) -> Array:
        brightness, *rest = (p for p in planes if p is not None)
        exact = np.float64 if brightness.dtype == np.float64 else np.float32
        if rest:
            u, v = (
                (rest[0][..., 0], rest[0][..., 1])
                if self.channels == 2
                else (p[..., 0] for p in rest)
            )
        else:
            height = brightness.shape[1] * 2 // 3
            u, v = self.halves(brightness[:, height:, :, 0])
            brightness = brightness[:, :height]
        u, v = (p.astype(exact).repeat(2, axis=1).repeat(2, axis=2) - exact(128) for p in (u, v))
        light = exact(1.164) * (brightness[..., 0].astype(exact) - exact(16))
        red = light + exact(1.596) * v
        green = light - exact(0.391) * u - exact(0.813) * v
        blue = light + exact(2.018) * u
        colours = np.clip(
            np.stack([blue, green, red] if self.blue_first else [red, green, blue], axis=-1), 0, 255
        )
        whole: Array = np.rint(colours)
        return whole if brightness.dtype == np.uint8 else colours


@register("NV12toRGB", 8)
class NV12toRGB8(_Planes):
    y = Input(_TYPES, "T")
    uv = Input(_TYPES, "T", optional=True)
    channels = 2

    def halves(self, single: Array) -> tuple[Array, Array]:
        return single[..., 0::2], single[..., 1::2]


@register("NV12toBGR", 8)
class NV12toBGR8(NV12toRGB8):
    blue_first = True


@register("I420toRGB", 8)
class I420toRGB8(_Planes):
    y = Input(_TYPES, "T")
    u = Input(_TYPES, "T", optional=True)
    v = Input(_TYPES, "T", optional=True)

    def halves(self, single: Array) -> tuple[Array, Array]:
        batch, rows, width = single.shape
        planes = single.reshape(batch, 2, rows, width // 2)
        return planes[:, 0], planes[:, 1]


@register("I420toBGR", 8)
class I420toBGR8(I420toRGB8):
    blue_first = True
