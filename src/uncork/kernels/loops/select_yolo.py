"""Selection of the loop nest that makes probabilities of the numbers of YOLO's last layer:
RegionYolo.
"""

from __future__ import annotations

from uncork.kernels.extents import compute_nothing_of, decline_if, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import Call, View
from uncork.ops.region_yolo import RegionYolo1
from uncork.symbolic import SizeLike


def select_probabilities(layer: Layer) -> Selection:
    operation, target = layer.of(RegionYolo1), layer.target
    name, shape = layer.input(0).element_type.name, layer.shape(0)
    decline_if(name == "f64", "no kernel for f64")
    compute_nothing_of(shape, "yolo")
    coords, classes, regions = operation.coords, operation.classes, operation.regions
    tensor = shape[0], regions, coords + 1 + classes, product(shape[2:])
    # a class is a number like the objectness, but where all of them share one
    alone = coords + 1 if operation.do_softmax else coords + 1 + classes
    sigmoid = "1.0 / (1.0 + exp(-X[n, r, {0}, s]))"
    lines = [
        _each("a", 0, min(2, coords), sigmoid),
        _each("b", min(2, coords), coords, "X[n, r, {0}, s]"),
        _each("d", coords, alone, sigmoid),
    ]
    if operation.do_softmax:
        turns = f"{alone}..{coords + 1 + classes}"
        lines += [
            "s*:",
            f"  c={turns}: m = max(X[n, r, c, s])",
            f"  c={turns}: t = sum(exp(X[n, r, c, s] - m))",
            "  f = 1.0 / t",
            f"  c={turns}: Y[n, r, c, s] = exp(X[n, r, c, s] - m) * f",
        ]
    sizes: dict[str, SizeLike] = {"n": tensor[0], "r": tensor[1], "s": tensor[3]}
    views = {"X": View(In(0), name, tensor), "Y": View(Out(0), name, tensor)}
    text = "\n".join(["n r:", *(f"  {line}" for line in lines)])
    return Call("yolo", text, sizes, views, target, 2, product(tensor), shared=("n", "r")).native()


def _each(loop: str, first: int, last: int, value: str) -> str:
    """The line that computes numbers of a region, each by itself."""
    return f"{loop}={first}..{last} s*: Y[n, r, {loop}, s] = {value.format(loop)}"
