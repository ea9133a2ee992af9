"""ai.onnx.ml: scalers, encoders, normalisers and linear models, as scikit-learn exports them."""

from __future__ import annotations

from typing import Any

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import ML, lowering
from uncork.types import ElementType

T = ElementType


def _floats(g: Graph, call: Call, name: str) -> Source:
    return g.constant(np.array(call.numbers(name), np.float32))


def _as_f32(g: Graph, call: Call, position: int = 0) -> Source:
    return g.convert(call[position], T.f32)


@lowering("Scaler", domain=ML)
def _scaler(g: Graph, call: Call) -> Source:
    data = _as_f32(g, call)
    return g.times(g.minus(data, _floats(g, call, "offset")), _floats(g, call, "scale"))


@lowering("Normalizer", domain=ML)
def _normalizer(g: Graph, call: Call) -> Source:
    data = _as_f32(g, call)
    norm = call.one_of("norm", "MAX", "MAX", "L1", "L2")
    if norm == "MAX":
        size = g.reduce("ReduceMax", data, [-1])  # which may be negative
    else:
        size = g.reduce(f"Reduce{norm}", data, [-1])
    zero = g.make("Equal", size, g.like(0.0, size))
    return g.over(data, g.select(zero, g.like(1.0, size), size))


@lowering("Binarizer", domain=ML)
def _binarizer(g: Graph, call: Call, data: Source) -> Source:
    above = g.make("Greater", data, g.like(call.number("threshold"), data))
    return g.convert(above, g.type(data))


@lowering("Imputer", domain=ML)
def _imputer(g: Graph, call: Call, data: Source) -> Source:
    floats = g.type(data).is_float
    name = "imputed_value_floats" if floats else "imputed_value_int64s"
    values: list[Any] = call.get(name) or []
    sought = call.get("replaced_value_float" if floats else "replaced_value_int64", 0)
    filled = g.constant(np.array(values, g.type(data).dtype), g.type(data))
    if floats and np.isnan(sought):
        wrong = g.make("IsNaN", data)
    else:
        wrong = g.make("Equal", data, g.like(sought, data))
    return g.select(wrong, filled, data)


@lowering("ArrayFeatureExtractor", domain=ML)
def _array_feature_extractor(g: Graph, call: Call, data: Source, y: Source) -> Source:
    places = g.reshape(y, [-1])
    if g.rank(data) == 1:
        return g.unsqueeze(g.gather(data, places, 0), 0)
    return g.gather(data, places, g.rank(data) - 1)


@lowering("FeatureVectorizer", domain=ML)
def _feature_vectorizer(g: Graph, call: Call) -> Source:
    parts = [_as_f32(g, call, i) for i in range(call.count)]
    parts = [g.unsqueeze(p, 1) if g.rank(p) == 1 else p for p in parts]
    return g.concat(parts, 1)


@lowering("LabelEncoder", domain=ML)
def _label_encoder_of_classes(g: Graph, call: Call, data: Source) -> Source:
    classes = call.texts("classes_strings")
    numbers = list(range(len(classes)))
    if g.type(data) is T.string:
        return _mapped(
            g, call, classes, numbers, call.integer("default_int64", -1), T.string, T.i64
        )
    default = call.text("default_string", "_Unused")
    return _mapped(g, call, numbers, classes, default, T.i64, T.string)


_LABELS = {
    "strings": (T.string, "_Unused"),
    "int64s": (T.i64, -1),
    "floats": (T.f32, -0.0),
}


@lowering("LabelEncoder", domain=ML, since=2)
def _label_encoder(g: Graph, call: Call) -> Source:
    keys, keys_kind = _labels(call, "keys")
    values, values_kind = _labels(call, "values")
    single = {T.string: "default_string", T.i64: "default_int64", T.f32: "default_float"}
    if values_kind in single:
        default = call.get(
            single[values_kind], {T.string: "_Unused", T.i64: -1}.get(values_kind, 0)
        )
    else:
        default = 0
    if "default_tensor" in call.attributes:
        array, kind = call.tensor("default_tensor")
        ValidationError.when(
            kind is not values_kind or array.size != 1,
            f"attribute 'default_tensor': expected one element of {values_kind}, got "
            f"{array.size} of {kind}",
        )
        default = array.reshape(-1)[0]
    return _mapped(g, call, keys, values, default, keys_kind, values_kind)


def _labels(call: Call, name: str) -> tuple[Any, ElementType]:
    for kind, (element_type, _) in _LABELS.items():
        if f"{name}_{kind}" in call.attributes:
            return call.attributes[f"{name}_{kind}"], element_type
    return call.tensor(f"{name}_tensor")


def _mapped(
    g: Graph,
    call: Call,
    keys: Any,
    values: Any,
    default: Any,
    source: ElementType,
    result: ElementType,
) -> Source:
    """Each element by a table; what is not in it becomes the default."""
    data = call[0]
    ValidationError.when(
        len(keys) != len(values) or len(keys) == 0,
        f"expected as many values as keys, got {len(values)}, {len(keys)}",
    )
    rank = g.rank(data)
    table = g.constant(np.array(keys, source.dtype), source)
    column = g.unsqueeze(data, rank)
    same = g.make("Equal", column, table)
    if source.is_float:
        nan = g.make("LogicalAnd", g.make("IsNaN", column), g.make("IsNaN", table))
        same = g.make("LogicalOr", same, nan)
    hits = g.convert(same, T.i32)
    _, place = g.best(hits, rank, stable=True)
    place = g.squeeze(place, rank)
    found = g.make("ReduceLogicalOr", same, g.i64([rank]), keep_dims=False)
    texts = np.empty(len(values), result.dtype)
    texts[:] = values
    chosen = g.gather(g.constant(texts, result), place, 0)
    other = g.constant(np.array(default, result.dtype), result)
    return g.select(found, chosen, other)


@lowering("OneHotEncoder", domain=ML)
def _one_hot_encoder(g: Graph, call: Call, data: Source) -> Source:
    kind = g.type(data)
    name = "cats_strings" if kind is T.string else "cats_int64s"
    cats = np.array(call.need(name), object if kind is T.string else kind.dtype)
    same = g.make("Equal", g.unsqueeze(data, g.rank(data)), g.constant(cats, kind))
    return g.convert(same, T.f32)


def _transformed(g: Graph, call: Call, scores: Source) -> Source:
    how = call.one_of(
        "post_transform", "NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"
    )
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return g.make("Sigmoid", scores)
    if how == "SOFTMAX":
        return g.make("SoftMax", scores, axis=-1)
    call.refuse_if(
        how == "PROBIT", "post_transform PROBIT", "apply it to the scores outside the model"
    )
    exps = g.make("SoftMax", scores, axis=-1)
    zero = g.make("Equal", scores, g.like(0.0, scores))
    return g.select(zero, g.like(0.0, scores), exps)


def _linear(g: Graph, call: Call, rows: int) -> Source:
    """The products with the coefficients, and the intercepts."""
    data = _as_f32(g, call)
    numbers = np.array(call.numbers("coefficients"), np.float32)
    ValidationError.when(
        rows < 1 or len(numbers) % rows, f"{len(numbers)} coefficients do not make {rows} rows"
    )
    scores = g.matmul(data, g.constant(numbers.reshape(rows, -1)), tb=True)
    return g.plus(scores, _floats(g, call, "intercepts")) if call.get("intercepts") else scores


@lowering("LinearRegressor", domain=ML)
def _linear_regressor(g: Graph, call: Call) -> Source:
    return _transformed(g, call, _linear(g, call, call.integer("targets", 1)))


@lowering("LinearClassifier", domain=ML)
def _linear_classifier(g: Graph, call: Call) -> tuple[Source, Source]:
    texts, numbers = call.get("classlabels_strings"), call.get("classlabels_ints")
    labels = np.array(texts, object) if texts else np.array(numbers or [0, 1], np.int64)
    count = len(labels)
    rows = max(1, len(call.get("intercepts") or []) or count)
    scores = _linear(g, call, rows)
    if rows == 1 and count == 2:
        return _of_two(g, call, scores, labels)
    _, best = g.best(scores, 1, stable=True)
    kind = T.string if texts else T.i64
    chosen = g.gather(g.constant(labels, kind), g.squeeze(best, 1), 0)
    return chosen, _transformed(g, call, scores)


def _of_two(g: Graph, call: Call, score: Source, labels: Any) -> tuple[Source, Source]:
    """One score tells two classes apart."""
    kind = T.string if labels.dtype == object else T.i64
    how = call.text("post_transform", "NONE")
    if how == "LOGISTIC":
        second = g.make("Sigmoid", score)
        first, bound = g.minus(1.0, second), 0.5
    else:
        first, second, bound = g.minus(1.0, score), score, 0.0
    above = g.convert(g.make("Greater", second, g.like(bound, second)), T.i64)
    chosen = g.gather(g.constant(labels, kind), g.squeeze(above, 1), 0)
    return chosen, g.concat([first, second], 1)
