"""Selection of the loop nest that lays patches of images out along the channels:
ExtractImagePatches.
"""

from __future__ import annotations

from uncork.kernels.extents import compute_nothing_of, decline_if, largest, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import WORDS, Call, View
from uncork.kernels.stored_types import element_bytes
from uncork.ops._common.spatial import extent
from uncork.ops.extract_image_patches import ExtractImagePatches3
from uncork.symbolic import SizeLike

#: Types of which 0 is all bits 0, and an element its own bytes.
_TYPES = frozenset(
    {"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}
)


def select_patches(layer: Layer) -> Selection:
    operation, target = layer.of(ExtractImagePatches3), layer.target
    name, shape, result = layer.input(0).element_type.name, layer.shape(0), layer.result()
    decline_if(name not in _TYPES, f"no kernel for {name}")
    name = WORDS[element_bytes(name)]
    compute_nothing_of(result, "patches")
    sizes: dict[str, SizeLike] = {"n": shape[0], "c": shape[1]}
    cells = []
    for axis, (place, tap) in enumerate(zip("yx", "ji", strict=True)):
        stride, rate = operation.strides[axis], operation.rates[axis]
        count, kernel = result[2 + axis], operation.sizes[axis]
        total: SizeLike = 0
        if operation.auto_pad != "valid":
            reach = (count - 1) * stride + extent(kernel, rate)
            total = largest(reach - shape[2 + axis], 0)
        begin = total // 2 if operation.auto_pad == "same_upper" else total - total // 2
        sizes |= {place: count, tap: kernel, f"p{place}": begin}
        cells.append(f"{stride}*{place} + {rate}*{tap} - p{place}")
    text = f"n j i c y x*: Y[n, j, i, c, y, x] = pad(X[n, c, {cells[0]}, {cells[1]}], 0)"
    views = {
        "X": View(In(0), name, shape),
        "Y": View(Out(0), name, (shape[0], *operation.sizes, shape[1], *result[2:])),
    }
    cost = product(result) // 8
    return Call("patches", text, sizes, views, target, 2, cost, shared=("n", "c")).native()
