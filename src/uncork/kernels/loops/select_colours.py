"""Selection of the loop nest that makes colours of planes of brightness and colour: NV12toRGB,
NV12toBGR, I420toRGB, I420toBGR.
"""

from __future__ import annotations

from uncork.kernels.extents import compute_nothing_of, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import Call, View, computed_type
from uncork.kernels.stored_types import element_bytes
from uncork.ops.yuv_to_rgb import I420toRGB8, NV12toRGB8
from uncork.symbolic import SizeLike

#: Pairs of pixels beside each other, and rows of them below each other, have one colour.
_TEXT = """n r p*:
  u = real({u}) - 128.0
  v = real({v}) - 128.0
  red = 1.596 * v
  fall = 0.391 * u
  drop = 0.813 * v
  blue = 2.018 * u
  t=2:
    a = 1.164 * (real(X[n, r, t, 2*p]) - 16.0)
    b = 1.164 * (real(X[n, r, t, 2*p + 1]) - 16.0)
    Y[n, r, t, 6*p] = interleaved({colours})"""
_COLOURS = "{light} + red", "{light} - fall - drop", "{light} + blue"


def select_colours(layer: Layer) -> Selection:
    operation, target = layer.operation, layer.target
    data, *others = [spec for spec in layer.inputs if spec is not None]
    assert isinstance(operation, (NV12toRGB8, I420toRGB8))
    name = data.element_type.name
    batch, height, width, _ = layer.result()
    compute_nothing_of((batch, height, width), "colour")
    rows, size = height // 2, element_bytes(name)
    plane = height * width
    # Of a single plane the colours come below the brightness.
    image = plane if others else plane + plane // 2
    steps = tuple(number * size for number in (image, width * 2, width, 1))
    views = {
        "X": View(In(0), name, (batch, rows, 2, width), steps),
        "Y": View(Out(0), name, (batch, rows, 2, width * 3)),
    }
    pairs = isinstance(operation, NV12toRGB8)
    for number, word in enumerate("U" if pairs else "UV"):
        row = width if pairs else width // 2
        base, step = In(1 + number), rows * row
        if not others:
            base, step = In(0, (plane + number * (plane // 4)) * size), image
        views[word] = View(base, name, (batch, rows, row), (step * size, row * size, size))
    u, v = ("U[n, r, 2*p]", "U[n, r, 2*p + 1]") if pairs else ("U[n, r, p]", "V[n, r, p]")
    text = _TEXT.format(u=u, v=v, colours=", ".join(_values(operation.blue_first, name == "u8")))
    sizes: dict[str, SizeLike] = {"n": batch, "r": rows, "p": width // 2}
    numbers = "f32" if name == "u8" else computed_type(name)
    cost = product((batch, height, width)) // 4
    return Call(
        "colours", text, sizes, views, target, 1, cost, shared=("n", "r"), scalar_type=numbers
    ).native()


def _values(blue_first: bool, whole: bool) -> list[str]:
    """The colours of two pixels beside each other."""
    result = []
    for light in "ab":
        for colour in reversed(_COLOURS) if blue_first else _COLOURS:
            value = f"smaller(larger({colour.format(light=light)}, 0.0), 255.0)"
            result.append(f"rint({value})" if whole else value)
    return result
