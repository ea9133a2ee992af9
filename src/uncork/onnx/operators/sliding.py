"""What convolution and pooling share: the attributes of windows that slide."""

from __future__ import annotations

from typing import Any

from uncork.errors import ValidationError
from uncork.onnx.call import Call

_AUTO = {
    "NOTSET": "explicit",
    "SAME_UPPER": "same_upper",
    "SAME_LOWER": "same_lower",
    "VALID": "valid",
}


def window(call: Call, axes: int) -> dict[str, Any]:
    """Strides, pads and dilations of windows over so many axes, as operations have them."""
    strides = _numbers(call, "strides", axes, 1)
    pads = _numbers(call, "pads", 2 * axes, 0)
    auto = _AUTO[call.one_of("auto_pad", "NOTSET", *_AUTO)]
    if auto != "explicit":
        pads = [0] * (2 * axes)
    return {
        "strides": strides,
        "pads_begin": pads[:axes],
        "pads_end": pads[axes:],
        "auto_pad": auto,
        "dilations": _numbers(call, "dilations", axes, 1),
    }


def _numbers(call: Call, name: str, count: int, default: int) -> list[int]:
    numbers = call.integers(name) or [default] * count
    ValidationError.when(
        len(numbers) != count, f"attribute '{name}': expected {count} numbers, got {numbers!r:.60}"
    )
    return numbers
