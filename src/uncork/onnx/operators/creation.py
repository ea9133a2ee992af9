"""Operators that make tensors of nothing: constants, ranges, random numbers."""

from __future__ import annotations

import math

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import lowering
from uncork.types import Array, ElementType

T = ElementType


@lowering("Constant")
def _constant(g: Graph, call: Call) -> Source:
    simple = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    for name, kind in simple.items():
        if name in call.attributes:
            return g.constant(np.array(call.attributes[name], kind))
    for name in ("value_string", "value_strings"):
        if name in call.attributes:
            return g.constant(np.array(call.attributes[name], object), T.string)
    if "sparse_value" in call.attributes:
        return g.constant(*_dense(call))
    array, element_type = call.tensor("value")
    return g.constant(array, element_type)


def _dense(call: Call) -> tuple[Array, ElementType]:
    """The values of a sparse tensor, with zeros between them."""
    sparse = call.attributes["sparse_value"]
    values, kind = call.scope.tensor(sparse.values)
    places, _ = call.scope.tensor(sparse.indices)
    shape = tuple(sparse.dims)
    count = math.prod(shape)
    ValidationError.when(
        any(d < 0 for d in shape) or count > 1 << 28,
        f"expected the shape of a tensor, got {list(shape)}",
    )
    dense = np.zeros(count, kind.dtype)
    if places.ndim == 2:
        places = np.ravel_multi_index(tuple(places.T), shape)
    dense[places] = values
    return dense.reshape(shape), kind


@lowering("ConstantOfShape")
def _constant_of_shape(g: Graph, call: Call, data: Source) -> Source:
    value = g.of_type(0.0, T.f32)
    if "value" in call.attributes:
        array, kind = call.tensor("value")
        value = g.constant(array.reshape(()), kind)
    if g.spec(data).shape.size == 0:
        return value
    return g.broadcast(value, data)


@lowering("Range")
def _range(g: Graph, call: Call) -> Source:
    start, stop, step = (g.reshape(call[i], []) for i in range(3))
    return g.make("Range", start, stop, step, output_type=g.type(start))


@lowering("EyeLike")
def _eye_like(g: Graph, call: Call, data: Source) -> Source:
    kind = call.element_type("dtype", g.type(data))
    rows, columns = (g.reshape(g.size_of(data, axis), []) for axis in (0, 1))
    given = kind if kind in (T.f16, T.f32, T.f64, T.i8, T.u8, T.i32, T.i64, T.bf16) else T.i32
    eye = g.make("Eye", rows, columns, g.i64(call.integer("k")), output_type=given)
    return g.convert(eye, kind)


# ---- random numbers


def _seed(call: Call) -> int:
    """The seed of an operation; 0 is another one at each call."""
    seed = call.get("seed")
    return 0 if seed is None else abs(int(float(seed) * 1000003)) % (1 << 31) + 1


def uniform(
    g: Graph, call: Call, shape: Source, low: float, high: float, kind: ElementType
) -> Source:
    """Numbers that are equally likely between two."""
    return g.make(
        "RandomUniform",
        shape,
        g.of_type(low, kind),
        g.of_type(high, kind),
        output_type=kind,
        global_seed=0,
        op_seed=_seed(call),
    )


def _normal(g: Graph, call: Call, shape: Source, kind: ElementType) -> Source:
    """Normally distributed numbers, of pairs of equally likely ones (Box, Muller)."""
    first = uniform(g, call, shape, 2.0**-24, 1.0, T.f32)
    second = g.make(
        "RandomUniform",
        shape,
        g.of_type(0.0, T.f32),
        g.of_type(2 * math.pi, T.f32),
        output_type=T.f32,
        global_seed=0,
        op_seed=_seed(call) + 1 if _seed(call) else 0,
    )
    radius = g.make("Sqrt", g.times(g.make("Log", first), -2.0))
    normal = g.times(radius, g.make("Cos", second))
    scale, mean = call.number("scale", 1.0), call.number("mean", 0.0)
    return g.convert(g.plus(g.times(normal, scale), mean), kind)


@lowering("RandomUniform", "RandomUniformLike")
def _random_uniform(g: Graph, call: Call) -> Source:
    like = call.op_type.endswith("Like")
    shape = g.shape_of(call[0]) if like else g.i64(call.integers("shape"))
    kind = call.element_type("dtype", g.type(call[0]) if like else T.f32)
    return uniform(g, call, shape, call.number("low", 0.0), call.number("high", 1.0), kind)


@lowering("RandomNormal", "RandomNormalLike")
def _random_normal(g: Graph, call: Call) -> Source:
    like = call.op_type.endswith("Like")
    shape = g.shape_of(call[0]) if like else g.i64(call.integers("shape"))
    return _normal(g, call, shape, call.element_type("dtype", g.type(call[0]) if like else T.f32))


@lowering("Bernoulli")
def _bernoulli(g: Graph, call: Call, data: Source) -> Source:
    kind = call.element_type("dtype", g.type(data))
    drawn = uniform(g, call, g.shape_of(data), 0.0, 1.0, T.f32)
    return g.convert(g.make("Less", drawn, g.convert(data, T.f32)), kind)


@lowering("Multinomial")
def _multinomial(g: Graph, call: Call, data: Source) -> Source:
    kind = call.element_type("dtype", T.i32)
    return g.make(
        "Multinomial",
        data,
        g.i64(call.integer("sample_size", 1)),
        convert_type=kind,
        with_replacement=True,
        log_probs=True,
        global_seed=0,
        op_seed=_seed(call),
    )
