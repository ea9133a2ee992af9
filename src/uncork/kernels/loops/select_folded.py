"""Selection of the loop nest that adds up patches of an image where they overlap: Col2Im.

Each cell of the image asks which patches reach it, the last one of them first: so many rows and
columns of patches as a kernel's extent has strides.
"""

from __future__ import annotations

from uncork.kernels.extents import compute_nothing_of, decline_if, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import Call, View
from uncork.ops._common.spatial import extent
from uncork.ops.col2im import Col2Im15
from uncork.symbolic import SizeLike

_TYPES = frozenset({"f32", "f64", "f16", "bf16", "i32", "i64"})
#: The names of the loops over cells, over the patches that reach one, and of the padding before.
_AXES = ("y", "j", "py"), ("x", "i", "px")
#: Nanoseconds for an element that is gathered and added.
_COST = 0.5


def select_folded(layer: Layer) -> Selection:
    operation, target = layer.of(Col2Im15), layer.target
    name, result = layer.input(0).element_type.name, layer.result()
    decline_if(name not in _TYPES, f"no kernel for {name}")
    compute_nothing_of(result, "fold")
    kernel = [int(n) for n in layer.constant(2, "the size of the kernel is").tolist()]
    planes = product(result[:-2])
    sizes: dict[str, SizeLike] = {"n": planes, "first_y": 0}
    counts: list[SizeLike] = []
    reached = 1
    for axis, (cell, patch, pad) in enumerate(_AXES):
        begin, stride = operation.pads_begin[axis], operation.strides[axis]
        span, size = extent(kernel[axis], operation.dilations[axis]), result[axis - 2]
        counts.append((size + (begin + operation.pads_end[axis] - span)) // stride + 1)
        sizes |= {cell: size, patch: -(-span // stride), pad: begin}
        reached *= -(-span // stride)
    views = {
        "X": View(In(0), name, (planes, *kernel, *counts)),
        "Y": View(Out(0), name, (planes, *result[-2:])),
    }
    cost = product(result) * max(1, int(reached * _COST))
    return Call(
        "folded", _text(operation), sizes, views, target, 1, cost, shared=("n", "y")
    ).native()


def _text(operation: Col2Im15) -> str:
    """The text of the nest: `r` and `c` are the row and the column of a patch, `v` and `u` the
    place in it, as far as that is one of the kernel's.
    """
    lines: list[str] = []
    exact: list[str] = []
    for axis, (cell, patch, pad) in enumerate(_AXES):
        stride, dilation = operation.strides[axis], operation.dilations[axis]
        row, tap = ("r", "v") if axis == 0 else ("c", "u")
        first = "first_y + y" if axis == 0 else cell
        lines.append(f"{row} = integer(({first} + {pad}) // {stride} - {patch})")
        within = f"({first} + {pad}) % {stride} + {stride}*{patch}"
        lines.append(f"{tap} = integer(({within}) // {dilation})")
        if dilation > 1:
            lines.append(f"w{tap} = integer(({within}) % {dilation})")
            exact.append(f"w{tap} < 1")
    value = "pad(X[n, at(v), at(u), at(r), at(c)], 0)"
    for condition in exact:
        value = f"where({condition}, {value}, 0)"
    inner = [f"    {line}" for line in (*lines, f"s = sum({value})")]
    return "\n".join(["n y x*:", "  j i:", *inner, "  Y[n, y, x] = s"])
