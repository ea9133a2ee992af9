"""The layers that random graphs are made of: those that find sizes out, and those that must live
with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import uncork
from tests.fuzz.graphs import SIZES, Graph, Value, drawn
from uncork.ir.bodies import GraphBody
from uncork.ops._body import (
    BodyInput,
    BodyMap,
    BodyOutput,
    InnerResult,
    JoinedOutput,
    SlicedInput,
    Slicing,
    TurnNumber,
)

Layer = Callable[[Graph], object]
FINDERS: list[Layer] = []
LAYERS: list[Layer] = []


def finder(layer: Layer) -> Layer:
    """Declare a layer whose result has sizes that the shapes of the model's inputs do not tell."""
    FINDERS.append(layer)
    return layer


def reader(layer: Layer) -> Layer:
    LAYERS.append(layer)
    return layer


# ---- sizes


@finder
def non_zero(g: Graph) -> object:
    data = g.input("mask", 8) if g.random.random() < 0.5 else g.pick(exact=True, least=1)
    (found,) = g.layer("NonZero", 3, data, output_type=g.random.choice(["i32", "i64"]))
    if g.random.random() < 0.7 and found.array.shape[0] == 1:
        way = g.random.random()
        if way < 0.4:
            return g.layer("Squeeze", 1, found, g.constant(np.array([0])))
        if way < 0.7:
            return g.layer("Reshape", 1, found, g.constant(np.array([-1])), special_zero=False)
        return g.layer("Transpose", 1, found, g.constant(np.array([1, 0])))
    return found


@finder
def unique(g: Graph) -> object:
    return g.layer("Unique", 10, g.pick(kind="i"), sorted=g.random.random() < 0.5)


@finder
def range_of(g: Graph) -> object:
    count = g.random.choice(SIZES)
    stop = g.sizes([count])
    (scalar,) = g.layer("Squeeze", 1, stop, g.constant(np.array([0])))
    (wide,) = g.layer("Convert", 1, scalar, destination_type="i64")
    return g.layer(
        "Range", 4, g.constant(np.int64(0)), wide, g.constant(np.int64(1)), output_type="i64"
    )


@finder
def slice_of(g: Graph) -> object:
    data = g.pick(least=1)
    axis = g.random.randrange(data.array.ndim)
    size = data.array.shape[axis]
    start, stop = sorted(g.random.randint(0, size) for _ in range(2))
    numbers = [g.sizes([number]) for number in (start, stop)]
    wide = [g.layer("Convert", 1, number, destination_type="i64")[0] for number in numbers]
    return g.layer(
        "Slice",
        8,
        data,
        *wide,
        g.constant(np.array([g.random.choice([1, 1, 2])])),
        g.constant(np.array([axis])),
    )


@finder
def strided_slice(g: Graph) -> object:
    data = g.pick(least=1)
    size = data.array.shape[0]
    begin = g.random.randint(0, max(0, size - 1))
    shrinks = size > 0 and g.random.random() < 0.4
    ends = [
        g.layer("Convert", 1, g.sizes([number]), destination_type="i64")[0]
        for number in (begin, g.random.randint(begin, size))
    ]
    masks = {
        "begin_mask": [int(g.random.random() < 0.2)],
        "end_mask": [int(g.random.random() < 0.3)],
        "shrink_axis_mask": [int(shrinks)],
    }
    return g.layer("StridedSlice", 1, data, *ends, g.constant(np.array([1])), **masks)


@finder
def tile(g: Graph) -> object:
    data = g.pick(least=1)
    return g.layer(
        "Tile", 1, data, g.sizes([g.random.choice([0, 1, 1, 2, 3]) for _ in range(data.array.ndim)])
    )


@finder
def broadcast(g: Graph) -> object:
    data = g.pick(least=1)
    shape = [g.random.choice(SIZES) if n == 1 else n for n in data.array.shape]
    if g.random.random() < 0.3:
        shape = [g.random.choice(SIZES), *shape]
    return g.layer(
        "Broadcast", 3, data, g.sizes(shape), mode=g.random.choice(["numpy", "bidirectional"])
    )


@finder
def reshape_by_values(g: Graph) -> object:
    data = g.pick(least=1)
    return g.layer(
        "Reshape", 1, data, g.sizes(_factors(g, data)), special_zero=g.random.random() < 0.5
    )


@finder
def top_k(g: Graph) -> object:
    data = g.pick(kind="f", least=1, exact=True)
    k = g.layer(
        "Squeeze",
        1,
        g.sizes([g.random.randint(0, data.array.shape[-1])]),
        g.constant(np.array([0])),
    )[0]
    return g.layer(
        "TopK",
        11,
        data,
        k,
        axis=-1,
        mode=g.random.choice(["max", "min"]),
        sort="value",
        stable=True,
    )


@finder
def pad(g: Graph) -> object:
    data = g.pick(least=1)
    before, after = (
        g.sizes([g.random.choice([0, 0, 1, 2, -1]) for _ in range(data.array.ndim)])
        for _ in range(2)
    )
    if before.array.dtype != after.array.dtype:
        (after,) = g.layer("ConvertLike", 1, after, before)
    return g.layer("Pad", 12, data, before, after, pad_mode="constant")


@finder
def variadic_split(g: Graph) -> object:
    data = g.pick(least=1)
    axis = g.random.randrange(data.array.ndim)
    first = g.random.randint(0, data.array.shape[axis])
    lengths = g.sizes([first, data.array.shape[axis] - first])
    return g.layer("VariadicSplit", 1, data, g.constant(np.int64(axis)), lengths)


@finder
def filled_rows(g: Graph) -> object:
    """Entries in order mostly, and a number of rows that the call gives."""
    entries, rows = g.random.choice([1, 2, 3, 8]), g.random.choice([1, 3, 8])
    places = sorted((g.random.randrange(rows), g.random.randrange(2)) for _ in range(entries))
    if g.random.random() < 0.1:
        g.random.shuffle(places)
    indices = g.parameter("places", np.array(places, np.int64), static=True)
    values = g.input("x", entries)
    shape = g.parameter("sizes", np.array([rows, 2]), static=True)
    return g.layer("SparseFillEmptyRows", 16, values, shape, indices, g.constant(np.float32(-1)))


@finder
def boxes(g: Graph) -> object:
    """Boxes that are left of some, two classes, and of each the box itself."""
    count = g.random.choice([1, 3, 8])
    corners = g.parameter("boxes", drawn(g.random, "boxes", (1, count, 4)), static=False)
    scores = g.parameter("mask", drawn(g.random, "mask", (1, 2, count)), static=True)
    numbers = [
        g.sizes([g.random.choice([0, 1, 2, 5])]),
        g.constant(np.float32(0.3)),
        g.constant(np.float32(0.5)),
    ]
    rows, _, _ = g.layer(
        "NonMaxSuppression",
        9,
        corners,
        scores,
        *numbers,
        sort_result_descending=g.random.random() < 0.5,
    )
    (column,) = g.layer("Gather", 8, rows, g.constant(np.array(2)), g.constant(np.int64(1)))
    (image,) = g.layer("Squeeze", 1, corners, g.constant(np.array([0])))
    return g.layer("Gather", 8, image, column, g.constant(np.int64(0)))


# ---- other shapes of the same elements


def _factors(g: Graph, data: Value) -> list[int]:
    """A shape that has as many elements."""
    size = data.array.size
    divisor = g.random.choice([n for n in (1, 2, 3, 4, 6, 8) if size % n == 0])
    shape = [size] if g.random.random() < 0.4 else [divisor, size // divisor]
    if g.random.random() < 0.3:
        shape.insert(g.random.randint(0, len(shape)), 1)
    if g.random.random() < 0.4 and math.prod(n for n in shape[1:]) > 0:
        shape[0] = -1
    return shape


@reader
def reshape(g: Graph) -> object:
    data = g.pick(least=1)
    return g.layer("Reshape", 1, data, g.constant(np.array(_factors(g, data))), special_zero=False)


@reader
def reshape_like(g: Graph) -> object:
    """To a shape that is computed from that of another tensor."""
    data = g.pick(least=1)
    (shape,) = g.layer("ShapeOf", 3, data, output_type="i64")
    (first,) = g.layer("Gather", 8, shape, g.constant(np.array([0])), g.constant(np.int64(0)))
    (target,) = g.layer("Concat", 1, first, g.constant(np.array([-1])), axis=0)
    return g.layer("Reshape", 1, data, target, special_zero=False)


@reader
def squeeze(g: Graph) -> object:
    data = g.pick(least=1)
    if g.random.random() < 0.2:
        return g.layer("Squeeze", 1, data)
    return g.layer("Squeeze", 1, data, g.constant(np.array([g.random.randrange(data.array.ndim)])))


@reader
def unsqueeze(g: Graph) -> object:
    data = g.pick()
    return g.layer(
        "Unsqueeze", 1, data, g.constant(np.array([g.random.randint(0, data.array.ndim)]))
    )


@reader
def transpose(g: Graph) -> object:
    data = g.pick(least=2)
    axes = list(range(data.array.ndim))
    g.random.shuffle(axes)
    return g.layer("Transpose", 1, data, g.constant(np.array(axes)))


@reader
def concat(g: Graph) -> object:
    data = g.pick(least=1)
    axis = g.random.randrange(data.array.ndim)
    fits = [
        v
        for v in g.values
        if v.array.dtype == data.array.dtype and v.array.ndim == data.array.ndim
        if all(
            a == b
            for i, (a, b) in enumerate(zip(v.array.shape, data.array.shape, strict=True))
            if i != axis
        )
    ]
    return g.layer("Concat", 1, data, *g.random.choices(fits, k=g.random.randint(1, 2)), axis=axis)


@reader
def parts_joined(g: Graph) -> object:
    """Parts of one tensor beside each other: rolls, turned axes, blocks taken apart."""
    data = g.pick(least=1)
    axis = g.random.randrange(data.array.ndim)
    far = 1 << 40
    parts = []
    for _ in range(g.random.randint(1, 3)):
        step = g.random.choice([-2, -1, 1, 1, 2, 3])
        begin = g.random.randint(-3, 3)
        numbers = (begin, far if step > 0 else -far, step, axis)
        parts += g.layer("Slice", 8, data, *(g.constant(np.array([n])) for n in numbers))
    (joined,) = g.layer("Concat", 1, *parts, axis=axis)
    order = list(range(data.array.ndim))
    if g.random.random() < 0.3:
        g.random.shuffle(order)
        return g.layer("Transpose", 1, joined, g.constant(np.array(order)))
    return [joined]


@reader
def split(g: Graph) -> object:
    data = g.pick(least=1)
    axis = g.random.randrange(data.array.ndim)
    counts = [n for n in (2, 3, 4) if data.array.shape[axis] % n == 0] or [1]
    return g.layer("Split", 1, data, g.constant(np.int64(axis)), num_splits=g.random.choice(counts))


@reader
def shape_of(g: Graph) -> object:
    return g.layer("ShapeOf", 3, g.pick(), output_type=g.random.choice(["i32", "i64"]))


# ---- element by element


def _stretches(a: Value, b: Value) -> bool:
    try:
        np.broadcast_shapes(a.array.shape, b.array.shape)
    except ValueError:
        return False
    return a.array.dtype == b.array.dtype


@reader
def arithmetic(g: Graph) -> object:
    a = g.pick()
    b = g.random.choice([v for v in g.values if _stretches(a, v)] or [a])
    if g.random.random() < 0.3:
        b = g.constant(np.array(g.random.randint(1, 3), a.array.dtype))
    a, b = g.random.choice([(a, b), (b, a)])
    (total,) = g.layer(g.random.choice(["Add", "Multiply", "Subtract", "Maximum"]), 1, a, b)
    return g.layer("Negative", 1, total) if g.random.random() < 0.3 else total


@reader
def function(g: Graph) -> object:
    name, opset = g.random.choice(
        [("Sigmoid", 1), ("Tanh", 1), ("Abs", 1), ("ReLU", 1), ("Sqrt", 1)]
    )
    data = g.pick(kind="f")
    if name == "Sqrt":
        (data,) = g.layer("Abs", 1, data)
    return g.layer(name, opset, data, exact=name in ("Abs", "ReLU"))


@reader
def select(g: Graph) -> object:
    a = g.pick(exact=True)
    b = g.random.choice([v for v in g.values if _stretches(a, v) and v.exact] or [a])
    (condition,) = g.layer("Greater", 1, a, b)
    return g.layer("Select", 1, condition, a, b)


@reader
def convert(g: Graph) -> object:
    data = g.pick(exact=True)
    return g.layer("Convert", 1, data, destination_type=g.random.choice(["f32", "i64", "i32"]))


# ---- sums, products and look-ups


@reader
def reduce(g: Graph) -> object:
    data = g.pick(least=1)
    axes = g.random.sample(range(data.array.ndim), g.random.randint(1, data.array.ndim))
    name = g.random.choice(
        ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"]
        + ["ReduceMean"] * (data.array.dtype.kind == "f")
    )
    exact = name in ("ReduceMax", "ReduceMin")
    return g.layer(
        name, 1, data, g.constant(np.array(axes)), keep_dims=g.random.random() < 0.5, exact=exact
    )


@reader
def softmax(g: Graph) -> object:
    return g.layer("SoftMax", 8, g.pick(kind="f", least=1), axis=-1, exact=False)


@reader
def cumulative_sum(g: Graph) -> object:
    return g.layer("CumSum", 3, g.pick(least=1), g.constant(np.int64(0)), exact=False)


@reader
def product(g: Graph) -> object:
    """With a constant matrix, a bias and an activation, or of two tensors."""
    a = g.pick(kind="f", least=2)
    inner, columns = a.array.shape[-1], g.random.choice([1, 3, 8])
    if g.random.random() < 0.3:
        (turned,) = g.layer(
            "Transpose",
            1,
            a,
            g.constant(np.array([*range(a.array.ndim - 2), a.array.ndim - 1, a.array.ndim - 2])),
        )
        return g.layer("MatMul", 1, a, turned, exact=False)
    matrix = g.constant(
        (np.arange(inner * columns) % 7 - 3).reshape(inner, columns).astype(np.float32) / 4
    )
    (total,) = g.layer("MatMul", 1, a, matrix, exact=False)
    if g.random.random() < 0.6:
        (total,) = g.layer("Add", 1, total, g.constant(np.arange(columns, dtype=np.float32)))
    return g.layer("ReLU", 1, total) if g.random.random() < 0.5 else total


def _table(g: Graph) -> Value:
    rows, columns = g.random.choice([3, 8]), g.random.choice([1, 4, 8])
    array = (np.arange(rows * columns) % 11 - 5).reshape(rows, columns).astype(np.float32) / 8
    return g.constant(array) if g.random.random() < 0.8 else g.input("x", rows, columns)


@reader
def gather(g: Graph) -> object:
    indices = g.pick(kind="i")
    data = _table(g) if g.random.random() < 0.5 else g.pick(least=1)
    axis = g.random.randrange(data.array.ndim)
    return g.layer("Gather", 8, data, indices, g.constant(np.int64(axis)))


def _ids(g: Graph) -> Value:
    return g.pick(kind="i", rank=1)


def _of_length(g: Graph, dtype: type, count: int, numbers: str) -> Value:
    """A vector of so many numbers: one that there is, an input or a constant."""
    fits = [v for v in g.values if v.array.shape == (count,) and v.array.dtype == dtype]
    if fits and g.random.random() < 0.4:
        return g.random.choice(fits)
    if g.random.random() < 0.7:
        found = g.input(numbers, count)
        return (
            found
            if found.array.dtype == dtype
            else g.layer("Convert", 1, found, destination_type=np.dtype(dtype).name)[0]
        )
    return g.constant(np.sort(np.arange(count) % 3).astype(dtype))


@reader
def bags(g: Graph) -> object:
    ids = _ids(g)
    count = len(ids.array)
    starts = sorted(g.random.randint(0, count) for _ in range(g.random.choice([1, 2, 4])))
    more = []
    if g.random.random() < 0.6:
        more = [g.constant(np.array(g.random.choice([-1, 1]), ids.array.dtype))]
        if g.random.random() < 0.7:
            more.append(_of_length(g, np.float32, count, "x"))
    offsets = g.constant(np.array(starts, ids.array.dtype))
    return g.layer("EmbeddingBagOffsetsSum", 3, _table(g), ids, offsets, *more, exact=False)


@reader
def bags_by_found_offsets(g: Graph) -> object:
    """Where bags start is found, too."""
    ids, offsets = _ids(g), _ids(g)
    if ids.array.dtype != offsets.array.dtype:
        (offsets,) = g.layer("ConvertLike", 1, offsets, ids)
    (zero,) = g.layer("Subtract", 1, offsets, offsets) if g.random.random() < 0.5 else [offsets]
    return g.layer("EmbeddingBagOffsetsSum", 3, _table(g), ids, zero, exact=False)


@reader
def segments(g: Graph) -> object:
    ids = _ids(g)
    dtype = ids.array.dtype.type
    owners = _of_length(g, dtype, len(ids.array), "ids")
    more = []
    if g.random.random() < 0.5:
        more = [g.constant(np.array(-1, dtype))]
        if g.random.random() < 0.6:
            more.append(_of_length(g, np.float32, len(ids.array), "x"))
    return g.layer(
        "EmbeddingSegmentsSum",
        3,
        _table(g),
        ids,
        owners,
        g.constant(np.array(8, dtype)),
        *more,
        exact=False,
    )


@reader
def packed_bags(g: Graph) -> object:
    return g.layer("EmbeddingBagPackedSum", 3, _table(g), g.pick(kind="i", rank=2), exact=False)


@reader
def scatter(g: Graph) -> object:
    data = g.pick(rank=1)
    indices = _ids(g)
    updates = _of_length(
        g, data.array.dtype.type, len(indices.array), "ids" if data.array.dtype.kind == "i" else "x"
    )
    return g.layer("ScatterUpdate", 3, data, indices, updates, g.constant(np.int64(0)))


def _updates(g: Graph, data: Value, *shape: int) -> Value:
    """Numbers of such a shape in the type of the data."""
    found = g.input("ids" if data.array.dtype.kind == "i" else "x", *shape)
    return (
        found
        if found.array.dtype == data.array.dtype
        else g.layer("ConvertLike", 1, found, data)[0]
    )


@reader
def scatter_elements(g: Graph) -> object:
    data, indices = g.pick(rank=1), _ids(g)
    reduction = g.random.choice(["none", "sum", "min", "max", "prod"])
    updates = _updates(g, data, len(indices.array))
    attributes = {"reduction": reduction, "use_init_val": g.random.random() < 0.7}
    return g.layer(
        "ScatterElementsUpdate",
        12,
        data,
        indices,
        updates,
        g.constant(np.int64(0)),
        exact=reduction == "none",
        **attributes,
    )


def _tuples(g: Graph) -> Value:
    """Ids as tuples of one."""
    return g.layer("Unsqueeze", 1, _ids(g), g.constant(np.array([-1])))[0]


@reader
def scatter_tuples(g: Graph) -> object:
    data, tuples = g.pick(least=1), _tuples(g)
    reduction = g.random.choice(["none", "none", "sum", "sub", "max"])
    updates = _updates(g, data, len(tuples.array), *data.array.shape[1:])
    return g.layer(
        "ScatterNDUpdate",
        15,
        data,
        tuples,
        updates,
        exact=reduction in ("none", "max"),
        reduction=reduction,
    )


@reader
def gather_tuples(g: Graph) -> object:
    return g.layer("GatherND", 8, g.pick(least=1), _tuples(g))


@reader
def one_hot(g: Graph) -> object:
    """Of a depth that a shape tells, or the call."""
    ids = g.pick(kind="i")
    depth = g.layer("Squeeze", 1, g.sizes([g.random.choice([1, 3, 8])]), g.constant(np.array([0])))[
        0
    ]
    return g.layer(
        "OneHot",
        1,
        ids,
        depth,
        g.constant(np.float32(1)),
        g.constant(np.float32(-1)),
        axis=g.random.choice([0, -1]),
    )


@reader
def search(g: Graph) -> object:
    borders = g.constant(np.array([-1, 0.25, 0.5, 2], np.float32))
    if g.random.random() < 0.5:
        return g.layer(
            "Bucketize", 3, g.pick(exact=True), borders, with_right_bound=g.random.random() < 0.5
        )
    return g.layer(
        "SearchSorted",
        15,
        borders,
        g.pick(kind="f", exact=True),
        right_mode=g.random.random() < 0.5,
    )


@reader
def sequence(g: Graph) -> object:
    """A GRU over a tensor [batch, steps, inner], of which each row may have a length of its own."""
    x = g.pick(kind="f", rank=3)
    batch, steps, inner = x.array.shape
    hidden = 4
    state = (
        g.constant(np.zeros((batch, 1, hidden), np.float32))
        if g.random.random() < 0.5
        else g.input("x", batch, 1, hidden)
    )
    lengths = (
        _of_length(g, np.int64, batch, "ids")
        if g.random.random() < 0.5
        else g.constant(np.full(batch, steps, np.int64))
    )
    weights = [
        g.constant(((np.arange(math.prod(shape)) % 5 - 2) / 8).astype(np.float32).reshape(shape))
        for shape in ((1, 3 * hidden, inner), (1, 3 * hidden, hidden), (1, 3 * hidden))
    ]
    return g.layer(
        "GRUSequence",
        5,
        x,
        state,
        lengths,
        *weights,
        hidden_size=hidden,
        direction="forward",
        exact=False,
    )


def _branch(rank: int, rows: int) -> BodyMap:
    """What an If runs: a product with a matrix of so many rows, or the sum with 1 where there are
    none.
    """
    builder = uncork.Builder("branch")
    x = builder.parameter("x", "f32", [None] * rank)
    matrix = builder.constant(np.full((rows, 3), 0.5, np.float32) if rows else np.float32(1))
    builder.result(builder.add("MatMul" if rows else "Add", 1, x, matrix)[0], "y")
    return BodyMap(GraphBody(builder.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))


@reader
def branches(g: Graph) -> object:
    """Of the two branches, the one that the first call takes fits."""
    x = g.pick(kind="f", least=2)
    rank, rows = x.array.ndim, x.array.shape[-1]
    least = g.constant(np.int64(g.random.choice([0, 2, 3])))
    (size,) = g.layer(
        "ReduceMax",
        1,
        g.layer("ShapeOf", 3, x, output_type="i64")[0],
        g.constant(np.array([0])),
        keep_dims=False,
    )
    (condition,) = g.layer("Greater", 1, size, least)
    fits, other = _branch(rank, rows), _branch(rank, g.random.choice([0, 3, 5]))
    bodies = (fits, other) if condition.array else (other, fits)
    return g.layer(
        "If",
        8,
        condition,
        x,
        exact=False,
        bodies=dict(zip(("then_body", "else_body"), bodies, strict=True)),
    )


@reader
def turns(g: Graph) -> object:
    """A running value of the parts of a tensor along an axis, in either direction: the last one,
    and all of them.
    """
    x = g.pick(kind="f", least=2)
    rank, axis = x.array.ndim, g.random.randrange(x.array.ndim)
    body = uncork.Builder("body")
    part, before = (body.parameter(name, "f32", [None] * rank) for name in ("part", "before"))
    half = body.add("Multiply", 1, before, body.constant(np.float32(0.5)))[0]
    new = body.add("Tanh", 1, body.add("Add", 1, part, half)[0])[0]
    body.result(new, "new")
    ways = Slicing(axis), Slicing(axis, -1, 0, -1)
    maps = BodyMap(
        GraphBody(body.model()),
        (SlicedInput(0, 0, g.random.choice(ways)), BodyInput(1, 1)),
        (BodyOutput(0, 0), JoinedOutput(1, 0, g.random.choice(ways))),
        ((0, 1),),
    )
    first = g.layer("Gather", 8, x, g.constant(np.array([0])), g.constant(np.int64(axis)))[0]
    return g.layer("TensorIterator", 1, x, first, exact=False, bodies={"body": maps})


@finder
def turns_until(g: Graph) -> object:
    """A running value that the body ends: the last one, and all of them along an axis and along a
    new one. The number of turns is a size of the call, or one more than nothing.
    """
    x = g.pick(kind="f", least=1)
    rank, axis = x.array.ndim, g.random.randrange(x.array.ndim)
    limit = g.sizes([g.random.choice(SIZES)])
    body = uncork.Builder("body")
    before, most = (
        body.parameter("before", "f32", [None] * rank),
        body.parameter("most", "i64", [1]),
    )
    number = body.parameter("number", "i64", [1])
    half = body.add("Multiply", 1, before, body.constant(np.float32(0.5)))[0]
    new = body.add("Tanh", 1, half)[0]
    body.result(new, "new")
    body.result(body.add("Unsqueeze", 1, new, body.constant(np.array([0])))[0], "row")
    following = body.add("Add", 1, number, body.constant(np.array([1])))[0]
    body.result(body.add("Less", 1, following, most)[0], "go on")

    def way(axis: int) -> Slicing:
        return g.random.choice((Slicing(axis), Slicing(axis, -1, 0, -1)))

    maps = BodyMap(
        GraphBody(body.model()),
        (BodyInput(2, 0), BodyInput(3, 1), TurnNumber(2)),
        (
            BodyOutput(0, 0),
            JoinedOutput(1, 0, way(axis)),
            JoinedOutput(2, 1, way(0)),
            InnerResult(2, purpose="execution_condition"),
        ),
        ((0, 0),),
    )
    first = g.layer("Gather", 8, x, g.constant(np.array([0])), g.constant(np.int64(axis)))[0]
    (wide,) = g.layer("Convert", 1, limit, destination_type="i64")
    begins = g.constant(np.array(True))
    if g.random.random() < 0.4:
        (begins,) = g.layer("Greater", 1, wide, g.constant(np.array([0])))
    trips = g.constant(np.int64(g.random.choice([-1, 3])))
    return g.layer("Loop", 5, trips, begins, first, wide, exact=False, bodies={"body": maps})
