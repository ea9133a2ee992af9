"""Pictures as inputs: a file becomes an array of the shape, the layout and the scale that a model
was trained with.
"""

from __future__ import annotations

import argparse
import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from uncork import files
from uncork.cli._parser import Parser, one_of
from uncork.compiler.arguments import ModelPort
from uncork.errors import InputError
from uncork.types import Array, ElementType

#: Endings of files that are read as pictures, and what Pillow may take them for: others of its
#: formats run programs (PostScript), or are no pictures of a camera or a screen.
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_CHANNELS = {1: "L", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True)
class Pictures:
    """What is made of a picture: how its axes are called in the order of the model's ("" follows
    from the shape), what is subtracted from channels and what they are divided by, whether blue
    comes first, and how it is brought to the model's size.
    """

    layout: str = ""
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    bgr: bool = False
    fit: str = "stretch"


def add_pictures(parser: Parser) -> None:
    """Give a command the options of inputs that are pictures."""
    add = parser.add_argument
    add(
        "--layout",
        type=_layout,
        metavar="AXES",
        help="pictures: the input's axes, such as NCHW or HWC, where its shape leaves that open",
    )
    add(
        "--mean",
        type=_numbers,
        metavar="R,G,B",
        help="pictures: what is subtracted from values of 0 to 255, one number or one a channel",
    )
    add(
        "--scale",
        type=_divisors,
        metavar="R,G,B",
        help="pictures: what they are divided by then, such as 255",
    )
    add("--bgr", action="store_true", help="pictures: blue is the first channel")
    add(
        "--fit",
        type=one_of("stretch", "crop", "pad"),
        default="stretch",
        metavar="HOW",
        help="pictures of another shape: stretch (default); crop to the middle; pad with black",
    )


def pictures_of(arguments: argparse.Namespace) -> Pictures:
    """What the options of a command say."""
    given = vars(arguments)
    return Pictures(
        given.get("layout") or "",
        given.get("mean") or (),
        given.get("scale") or (),
        bool(given.get("bgr")),
        given.get("fit") or "stretch",
    )


def _layout(text: str) -> str:
    axes = text.upper()
    if sorted(axes) not in (sorted(a) for a in ("HW", "CHW", "NHW", "NCHW")):
        raise argparse.ArgumentTypeError(
            f"expected H and W, with N and C where the input has them, such as NCHW, got '{text}'"
        )
    return axes


def _numbers(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or not np.isfinite(numbers).all():
        raise argparse.ArgumentTypeError(
            f"expected a number, or one for each channel such as 123.7,116.3,103.5, got '{text}'"
        )
    return numbers


def _divisors(text: str) -> tuple[float, ...]:
    numbers = _numbers(text)
    if 0 in numbers:
        raise argparse.ArgumentTypeError(f"expected numbers other than 0, got '{text}'")
    return numbers


def is_picture(path: str) -> bool:
    return path.lower().endswith(ENDINGS)


def pictures_in(folder: str) -> list[str]:
    """The paths of the pictures in a folder, in the order of their names. Raises InputError."""
    try:
        names = sorted(name for name in os.listdir(folder) if is_picture(name))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", folder) from None
    if not names:
        raise InputError(f"is a folder without pictures: {', '.join(ENDINGS)}", folder)
    return [os.path.join(folder, name) for name in names]


def read_picture(path: str, port: ModelPort, how: Pictures) -> Array:
    """A picture as an array for an input. Raises InputError."""
    where = f"input '{port.name}'"
    layout = how.layout or _found_layout(port, where)
    sizes = _sizes(port, layout, where)
    if sizes.get("N") not in (None, 1):
        raise InputError(
            f"takes {sizes['N']} pictures at a time, got one: 'uncork reshape' makes it take 1",
            where,
        )
    channels = (sizes["C"] or 3) if "C" in sizes else 1
    if channels not in _CHANNELS:
        raise InputError(f"expected 1, 3 or 4 channels for a picture, got {channels}", where)
    planes = _pixels(path, _CHANNELS[channels], sizes["H"], sizes["W"], how.fit)
    if how.bgr:
        planes = planes[..., [2, 1, 0, 3][: planes.shape[-1]]] if channels > 1 else planes
    values = _scaled(planes, port.element_type, how, where)
    axes = [axis for axis in "NHWC" if axis in layout]
    kept = values[..., 0] if "C" not in layout else values
    whole = kept[None] if "N" in layout else kept
    return np.ascontiguousarray(whole.transpose([axes.index(axis) for axis in layout]))


def _found_layout(port: ModelPort, where: str) -> str:
    """The layout that a shape tells: of one axis it can be that it counts channels."""
    shape = port.shape
    if shape.rank in (3, 4):
        axes = "NCHW"[4 - shape.rank :], "NHWC"[4 - shape.rank :]
        for channels in (3, 1, 4):
            fit = [a for a in axes if shape.dims[a.index("C")].static_size == channels]
            if fit:
                if len(fit) == 1:
                    return fit[0]
                break
    raise InputError(
        f"has shape {shape}, which does not tell its layout: give --layout, such as NCHW or NHWC",
        where,
    )


def _sizes(port: ModelPort, layout: str, where: str) -> dict[str, int | None]:
    """The sizes of the input by the names of axes; None for those that are open."""
    shape = port.shape
    if shape.rank is None:
        return dict.fromkeys(layout)
    if shape.rank != len(layout):
        raise InputError(f"has shape {shape}, got the layout {layout}", where)
    return {axis: dim.static_size for axis, dim in zip(layout, shape.dims, strict=True)}


def _scaled(planes: Array, element_type: ElementType, how: Pictures, where: str) -> Array:
    """Pixels in the type of the input, less the mean and divided by the scale."""
    if not element_type.is_float:
        if how.mean or how.scale:
            raise InputError(
                f"is of {element_type}, which takes pixels as they are: leave out --mean and "
                "--scale",
                where,
            )
        if element_type not in (ElementType.u8, ElementType.i16, ElementType.i32, ElementType.i64):
            raise InputError(f"is of {element_type}, which holds no pixels of 0 to 255", where)
        return planes.astype(element_type.dtype)
    for option, numbers in (("--mean", how.mean), ("--scale", how.scale)):
        if len(numbers) not in (0, 1, planes.shape[-1]):
            raise InputError(
                f"{option}: expected 1 number or {planes.shape[-1]}, one a channel, got "
                f"{len(numbers)}",
                where,
            )
    values = planes.astype(np.float32)
    if how.mean:
        values -= np.array(how.mean, np.float32)
    if how.scale:
        values /= np.array(how.scale, np.float32)
    return values.astype(element_type.dtype) if element_type.is_native else values


def _pixels(path: str, mode: str, height: int | None, width: int | None, fit: str) -> Array:
    """The pixels of a picture of a size, [H, W, C] of u8."""
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise InputError(
            "pictures need Pillow, which is not installed: pip install 'uncork[images]'", path
        ) from None
    try:
        with warnings.catch_warnings(), files.opened(path) as file:
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=_FORMATS) as opened:
                if opened.mode[0] in "IF":  # what they mean is not 0 to 255
                    raise InputError("has pixels of more than 8 bits: save it with 8", path)
                picture: Any = ImageOps.exif_transpose(opened).convert(mode)
    except InputError:
        raise
    except UnidentifiedImageError:
        raise InputError(f"is no picture: expected {', '.join(_FORMATS)}", path) from None
    except OSError as error:
        raise InputError(files.why_not(error, path), path) from None
    except Exception as error:
        # Damage of each kind has an error of its own in Pillow's readers, as has a picture that
        # would take too much memory.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"cannot be read as a picture: {reason}", path) from None
    size = (width or picture.width, height or picture.height)
    if picture.size != size:
        how = Image.Resampling.BILINEAR
        if fit == "crop":
            picture = ImageOps.fit(picture, size, how)
        elif fit == "pad":
            picture = ImageOps.pad(picture, size, how)
        else:
            picture = picture.resize(size, how)
    pixels = np.asarray(picture)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels
