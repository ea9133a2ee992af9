"""Selection of the kernels of what Detectron models need beside proposals: the best detections of
an image, the best regions, and the priors around every cell of a grid.
"""

from __future__ import annotations

from uncork.kernels.detection.select import bits, zeros_in
from uncork.kernels.detection.select_classes import taken
from uncork.kernels.detection.select_output import listed
from uncork.kernels.detection.select_regions import moved_lines
from uncork.kernels.detection.spec import BY_CLASS_IF_ALL, REGIONS, BestRows, Classify
from uncork.kernels.extents import compute_nothing_of, nanoseconds, smallest
from uncork.kernels.kernel_plan import In, KernelPlan, Out, Scratch, Selection, Workspace
from uncork.kernels.layer import Layer
from uncork.kernels.loops.axes import literal
from uncork.kernels.loops.nest_call import Call, View
from uncork.kernels.loops.regions import Rooms
from uncork.ops.detectron import (
    DetectronDetectionOutput6,
    DetectronPriorGridGenerator6,
    DetectronTopKROIs6,
)
from uncork.symbolic import SizeLike
from uncork.types import ElementType


def select_detections(layer: Layer) -> Selection:
    operation, outputs, target = layer.of(DetectronDetectionOutput6), layer.outputs, layer.target
    layer.require(0, ElementType.f32)
    compute_nothing_of(layer.result(), "detect")
    regions, classes = layer.shape(0)[0], operation.num_classes
    every = regions * classes
    lines = [f"b{n} = R[r, {n}]" for n in range(4)]
    lines += [
        f"d{n} = X[r, 4*c + {n}] / {literal(weight)}"
        for n, weight in enumerate(operation.deltas_weights)
    ]
    lines += moved_lines(1, operation.max_delta_log_wh)
    lines += [f"c{n} = larger(c{n}{' - 1.0' * (n > 1)}, 0.0)" for n in range(4)]
    lines.append("C[r, 4*c] = interleaved(c0, c1, c2, c3)")
    views = {
        "R": View(In(0), "f32", (regions, 4)),
        "X": View(In(1), "f32", (regions, 4 * classes)),
        "C": View(Scratch(), "f32", (regions, 4 * classes)),
    }
    text = "\n".join(["r c*:", *(f"  {line}" for line in lines)])
    decoding = Call("decode_classes", text, {"r": regions, "c": classes}, views, target, 1)
    room = Workspace()
    call = Classify(REGIONS, BY_CLASS_IF_ALL, target.lanes)(
        boxes=room.take(every * 16),
        box_image=0,
        box_class=16,
        box_step=classes * 16,
        rois=In(0),
        scores=In(2),
        rows=Out(0),
        labels=Out(1),
        values=Out(2),
        batches=1,
        background=0,
        keep=operation.max_detections_per_image,
        overlap=bits(operation.nms_threshold),
        least=bits(operation.score_threshold),
        **listed(room, regions, classes),
        **taken(
            room,
            target.lanes,
            (classes, regions, operation.post_nms_count, regions),
            layer.result()[0],
        ),
    )
    calls = [*zeros_in(outputs), decoding.kernel_call(), call]
    return KernelPlan(call[0].name, calls, room.bytes, cost=nanoseconds(every, 3.0))


def select_best(layer: Layer) -> Selection:
    operation, outputs = layer.of(DetectronTopKROIs6), layer.outputs
    layer.require(0, ElementType.f32)
    count, room = layer.shape(0)[0], Workspace()
    kept = smallest(count, operation.max_rois)
    call = BestRows()(
        rows=In(0), scores=In(1), output=Out(0), count=count, kept=kept, **room.sorts(count)
    )
    calls = [*zeros_in(outputs), call]
    return KernelPlan(call[0].name, calls, room.bytes, cost=nanoseconds(count, 6.0))


def select_grid(layer: Layer) -> Selection:
    """Select a nest that first makes a row of the grid: of each number the prior's, that plus the
    center's x, and whether it is one of y. Centers are computed in f64 and rounded.
    """
    operation, outputs, target = layer.of(DetectronPriorGridGenerator6), layer.outputs, layer.target
    layer.require(0, ElementType.f32)
    count, pixels = layer.shape(0)[0], layer.shape(2)[2:]
    height, width = layer.shape(1)[2:]
    rows, columns = operation.h or height, operation.w or width
    cells = {"x": columns, "y": rows}
    steps = {"x": operation.stride_x, "y": operation.stride_y}
    lengths = {"x": "across", "y": "down"}
    step = {
        axis: literal(steps[axis]) if steps[axis] else f"(number({lengths[axis]}) / size({axis}))"
        for axis in "xy"
    }
    rooms, line = Rooms("f32"), (columns, count, 4)
    views = {
        "P": View(In(0), "f32", (count, 4)),
        "Y": View(Out(0), "f32", (rows, columns * count * 4)),
        "A": rooms.view(line),
        "Q": rooms.view(line),
        "M": rooms.view(line),
        "G": rooms.view((1,)),
    }
    flat = (columns * count * 4,)
    for name, table in (("A", "U"), ("Q", "V"), ("M", "W")):
        views[table] = View(views[name].base, "f32", flat)
    text = f"""
x:
  G[0] = (number(x) + 0.5) * {step["x"]}
  p j=4: A[x, p, j] = G[0] + P[p, j]; Q[x, p, j] = P[p, j]
  p: M[x, p, 0] = 0.0; M[x, p, 1] = 1.0; M[x, p, 2] = 0.0; M[x, p, 3] = 1.0
y:
  G[0] = (number(y) + 0.5) * {step["y"]}
  z*: Y[y, z] = where(W[z] > 0.5, V[z] + G[0], U[z])
"""
    sizes: dict[str, SizeLike] = {**cells, "p": count, "z": flat[0]}
    sizes |= {"down": pixels[0], "across": pixels[1]}
    call = Call("grid", text, sizes, views, target, 2, scalar_type="f64").kernel_call()
    cost = nanoseconds(flat[0] * rows, 0.3)
    first = (
        zeros_in(outputs) if operation.h or operation.w else []
    )  # what lies behind a smaller grid
    return KernelPlan("grid", [*first, call], rooms.size, cost=cost)
