"""How pictures are coloured, resized and padded."""

from __future__ import annotations

from enum import Enum


class ColorFormat(Enum):
    """What the channels of a picture are."""

    UNDEFINED = 0
    NV12_SINGLE_PLANE = 1
    NV12_TWO_PLANES = 2
    I420_SINGLE_PLANE = 3
    I420_THREE_PLANES = 4
    RGB = 5
    BGR = 6
    GRAY = 7
    RGBX = 8
    BGRX = 9


class ResizeAlgorithm(Enum):
    """How a picture gets another size."""

    RESIZE_LINEAR = 0
    RESIZE_CUBIC = 1
    RESIZE_NEAREST = 2
    RESIZE_BILINEAR_PILLOW = 3
    RESIZE_BICUBIC_PILLOW = 4


class PaddingMode(Enum):
    """What stands around a picture."""

    CONSTANT = 0
    REFLECT = 1
    SYMMETRIC = 2
