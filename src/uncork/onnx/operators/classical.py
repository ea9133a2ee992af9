"""ai.onnx.ml: scalers, encoders, normalisers and linear models, as scikit-learn exports them."""

from __future__ import annotations

from typing import Any

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.registry import ML, lowering
from uncork.types import ElementType

T = ElementType


def _floats(call: Call, name: str) -> Source:
    return call.graph.constant(np.array(call.numbers(name), np.float32))


def _as_f32(call: Call, position: int = 0) -> Source:
    return call.graph.convert(call[position], T.f32)


@lowering("Scaler", domain=ML)
def _scaler(call: Call) -> Source:
    graph, data = call.graph, _as_f32(call)
    return graph.times(graph.minus(data, _floats(call, "offset")), _floats(call, "scale"))


@lowering("Normalizer", domain=ML)
def _normalizer(call: Call) -> Source:
    graph, data = call.graph, _as_f32(call)
    norm = call.one_of("norm", "MAX", "MAX", "L1", "L2")
    if norm == "MAX":
        size = graph.reduce("ReduceMax", data, [-1])  # which may be negative
    else:
        size = graph.reduce(f"Reduce{norm}", data, [-1])
    zero = graph.make("Equal", size, graph.like(0.0, size))
    return graph.over(data, graph.select(zero, graph.like(1.0, size), size))


@lowering("Binarizer", domain=ML)
def _binarizer(call: Call) -> Source:
    graph, data = call.graph, call[0]
    above = graph.make("Greater", data, graph.like(call.number("threshold"), data))
    return graph.convert(above, graph.type(data))


@lowering("Imputer", domain=ML)
def _imputer(call: Call) -> Source:
    graph, data = call.graph, call[0]
    floats = graph.type(data).is_float
    name = "imputed_value_floats" if floats else "imputed_value_int64s"
    values: list[Any] = call.get(name) or []
    sought = call.get("replaced_value_float" if floats else "replaced_value_int64", 0)
    filled = graph.constant(np.array(values, graph.type(data).dtype), graph.type(data))
    if floats and np.isnan(sought):
        wrong = graph.make("IsNaN", data)
    else:
        wrong = graph.make("Equal", data, graph.like(sought, data))
    return graph.select(wrong, filled, data)


@lowering("ArrayFeatureExtractor", domain=ML)
def _array_feature_extractor(call: Call) -> Source:
    graph, data = call.graph, call[0]
    places = graph.reshape(call[1], [-1])
    if graph.rank(data) == 1:
        return graph.unsqueeze(graph.gather(data, places, 0), 0)
    return graph.gather(data, places, graph.rank(data) - 1)


@lowering("FeatureVectorizer", domain=ML)
def _feature_vectorizer(call: Call) -> Source:
    parts = [_as_f32(call, i) for i in range(call.count)]
    parts = [call.graph.unsqueeze(p, 1) if call.graph.rank(p) == 1 else p for p in parts]
    return call.graph.concat(parts, 1)


@lowering("LabelEncoder", domain=ML)
def _label_encoder_of_classes(call: Call) -> Source:
    classes = call.texts("classes_strings")
    numbers = list(range(len(classes)))
    if call.graph.type(call[0]) is T.string:
        return _mapped(call, classes, numbers, call.integer("default_int64", -1), T.string, T.i64)
    default = call.text("default_string", "_Unused")
    return _mapped(call, numbers, classes, default, T.i64, T.string)


_LABELS = {
    "strings": (T.string, "_Unused"),
    "int64s": (T.i64, -1),
    "floats": (T.f32, -0.0),
}


@lowering("LabelEncoder", domain=ML, since=2)
def _label_encoder(call: Call) -> Source:
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
    return _mapped(call, keys, values, default, keys_kind, values_kind)


def _labels(call: Call, name: str) -> tuple[Any, ElementType]:
    for kind, (element_type, _) in _LABELS.items():
        if f"{name}_{kind}" in call.attributes:
            return call.attributes[f"{name}_{kind}"], element_type
    return call.tensor(f"{name}_tensor")


def _mapped(
    call: Call, keys: Any, values: Any, default: Any, source: ElementType, result: ElementType
) -> Source:
    """Each element by a table; what is not in it becomes the default."""
    graph, data = call.graph, call[0]
    ValidationError.when(
        len(keys) != len(values) or len(keys) == 0,
        f"expected as many values as keys, got {len(values)}, {len(keys)}",
    )
    rank = graph.rank(data)
    table = graph.constant(np.array(keys, source.dtype), source)
    column = graph.unsqueeze(data, rank)
    same = graph.make("Equal", column, table)
    if source.is_float:
        nan = graph.make("LogicalAnd", graph.make("IsNaN", column), graph.make("IsNaN", table))
        same = graph.make("LogicalOr", same, nan)
    hits = graph.convert(same, T.i32)
    _, place = graph.several(
        "TopK",
        hits,
        graph.i64(1),
        axis=rank,
        mode="max",
        sort="value",
        index_element_type=T.i64,
        stable=True,
        opset=11,
    )
    place = graph.squeeze(place, rank)
    found = graph.make("ReduceLogicalOr", same, graph.i64([rank]), keep_dims=False)
    texts = np.empty(len(values), result.dtype)
    texts[:] = values
    chosen = graph.gather(graph.constant(texts, result), place, 0)
    other = graph.constant(np.array(default, result.dtype), result)
    return graph.select(found, chosen, other)


@lowering("OneHotEncoder", domain=ML)
def _one_hot_encoder(call: Call) -> Source:
    graph, data = call.graph, call[0]
    kind = graph.type(data)
    name = "cats_strings" if kind is T.string else "cats_int64s"
    cats = np.array(call.need(name), object if kind is T.string else kind.dtype)
    same = graph.make("Equal", graph.unsqueeze(data, graph.rank(data)), graph.constant(cats, kind))
    return graph.convert(same, T.f32)


def _transformed(call: Call, scores: Source) -> Source:
    graph = call.graph
    how = call.one_of(
        "post_transform", "NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"
    )
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return graph.make("Sigmoid", scores)
    if how == "SOFTMAX":
        return graph.make("SoftMax", scores, axis=-1)
    call.refuse_if(
        how == "PROBIT", "post_transform PROBIT", "apply it to the scores outside the model"
    )
    exps = graph.make("SoftMax", scores, axis=-1)
    zero = graph.make("Equal", scores, graph.like(0.0, scores))
    return graph.select(zero, graph.like(0.0, scores), exps)


def _linear(call: Call, rows: int) -> Source:
    """The products with the coefficients, and the intercepts."""
    graph, data = call.graph, _as_f32(call)
    numbers = np.array(call.numbers("coefficients"), np.float32)
    ValidationError.when(
        rows < 1 or len(numbers) % rows, f"{len(numbers)} coefficients do not make {rows} rows"
    )
    scores = graph.matmul(data, graph.constant(numbers.reshape(rows, -1)), tb=True)
    return graph.plus(scores, _floats(call, "intercepts")) if call.get("intercepts") else scores


@lowering("LinearRegressor", domain=ML)
def _linear_regressor(call: Call) -> Source:
    return _transformed(call, _linear(call, call.integer("targets", 1)))


@lowering("LinearClassifier", domain=ML)
def _linear_classifier(call: Call) -> tuple[Source, Source]:
    graph = call.graph
    texts, numbers = call.get("classlabels_strings"), call.get("classlabels_ints")
    labels = np.array(texts, object) if texts else np.array(numbers or [0, 1], np.int64)
    count = len(labels)
    rows = max(1, len(call.get("intercepts") or []) or count)
    scores = _linear(call, rows)
    if rows == 1 and count == 2:
        return _of_two(call, scores, labels)
    _, best = graph.several(
        "TopK",
        scores,
        graph.i64(1),
        axis=1,
        mode="max",
        sort="value",
        index_element_type=T.i64,
        stable=True,
        opset=11,
    )
    kind = T.string if texts else T.i64
    chosen = graph.gather(graph.constant(labels, kind), graph.squeeze(best, 1), 0)
    return chosen, _transformed(call, scores)


def _of_two(call: Call, score: Source, labels: Any) -> tuple[Source, Source]:
    """One score tells two classes apart."""
    graph = call.graph
    kind = T.string if labels.dtype == object else T.i64
    how = call.text("post_transform", "NONE")
    if how == "LOGISTIC":
        second = graph.make("Sigmoid", score)
        first, bound = graph.minus(1.0, second), 0.5
    else:
        first, second, bound = graph.minus(1.0, score), score, 0.0
    above = graph.convert(graph.make("Greater", second, graph.like(bound, second)), T.i64)
    chosen = graph.gather(graph.constant(labels, kind), graph.squeeze(above, 1), 0)
    return chosen, graph.concat([first, second], 1)
