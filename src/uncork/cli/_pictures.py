"""Pictures as inputs: a file becomes an array of the shape, the layout and the scale that a model
was trained with, by the layers of `uncork.preprocessing`.
"""

from __future__ import annotations

import argparse
import functools
import os
import warnings
from typing import Any

import numpy as np

from uncork import files
from uncork.cli._parser import Parser, mistyped_if, number_in, one_of
from uncork.compiler.arguments import ModelPort
from uncork.compiler.compile import CompiledModel, compile_model
from uncork.errors import InputError
from uncork.preprocessing.pictures import FITS, Pictures, Plan, plan
from uncork.types import Array

#: Endings of files that are read as pictures, and what Pillow may take them for: others of its
#: formats run programs (PostScript), or are no pictures of a camera or a screen.
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


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
        type=one_of(*FITS),
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
    mistyped_if(
        sorted(axes) not in (sorted(a) for a in ("HW", "CHW", "NHW", "NCHW")),
        f"expected H and W, with N and C where the input has them, such as NCHW, got '{text}'",
    )
    return axes


def _numbers(text: str) -> tuple[float, ...]:
    numbers = tuple(map(number_in, text.split(",")))
    mistyped_if(
        not np.isfinite(numbers).all(),
        f"expected a number, or one for each channel such as 123.7,116.3,103.5, got '{text}'",
    )
    return numbers


def _divisors(text: str) -> tuple[float, ...]:
    numbers = _numbers(text)
    mistyped_if(0 in numbers, f"expected numbers other than 0, got '{text}'")
    return numbers


def is_picture(path: str) -> bool:
    return path.lower().endswith(ENDINGS)


def pictures_in(folder: str) -> list[str]:
    """The paths of the pictures in a folder, in the order of their names. Raises InputError."""
    try:
        names = sorted(name for name in os.listdir(folder) if is_picture(name))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", folder) from None
    InputError.when(not names, f"is a folder without pictures: {', '.join(ENDINGS)}", folder)
    return [os.path.join(folder, name) for name in names]


def read_picture(path: str, port: ModelPort, how: Pictures) -> Array:
    """A picture as an array for an input. Raises InputError."""
    made, prepare = _prepared(port, how)
    if made.sizes.get("N") not in (None, 1):
        raise InputError(
            f"takes {made.sizes['N']} pictures at a time, got one: 'uncork reshape' makes it take "
            "1",
            f"input '{port.name}'",
        )
    pixels = _pixels(path, _MODES[made.channels])
    pixels = pixels if "C" in made.layout else pixels[..., 0]
    (array,) = prepare(pixels[None] if "N" in made.layout else pixels)
    return array


@functools.lru_cache(16)
def _prepared(port: ModelPort, how: Pictures) -> tuple[Plan, CompiledModel]:
    """How pictures become an input, and what makes them that."""
    made = plan(port, how)
    return made, compile_model(made.model())


def _pixels(path: str, mode: str) -> Array:
    """The pixels of a picture, [H, W, C] of u8."""
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
    pixels = np.asarray(picture)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels
