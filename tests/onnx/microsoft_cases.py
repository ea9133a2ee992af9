"""Models of one operator of com.microsoft or ai.onnx.ml each, with inputs: what onnxruntime gives
for them is what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from tests.onnx._run import model_of
from uncork.types import Array

MICROSOFT = "com.microsoft"
_rng = np.random.default_rng(28)


@dataclass
class Case:
    """An operator with its inputs, of which those that are constants are named."""

    op: str
    inputs: Sequence[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    about: str = ""
    constants: Sequence[int] = ()
    domain: str = MICROSOFT
    #: Of the results; of codes in steps.
    tolerance: float = 1e-5

    @property
    def name(self) -> str:
        return f"{self.op} {self.about}".strip()

    @property
    def fed(self) -> dict[str, Array]:
        """The inputs of a call."""
        return {
            f"x{i}": array
            for i, array in enumerate(self.inputs)
            if array is not None and i not in self.constants
        }

    def model(self) -> ModelProto:
        names = ["" if array is None else f"x{i}" for i, array in enumerate(self.inputs)]
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(
            self.op, names, outputs, name="layer", domain=self.domain, **self.attributes
        )
        types = {
            name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in self.fed.items()
        }
        constants = {f"x{i}": self.inputs[i] for i in self.constants}
        shapes = {name: array.shape for name, array in self.fed.items()}
        model = model_of([node], shapes, outputs, constants, types=types)  # type: ignore[arg-type]
        for output in model.graph.output:  # which onnxruntime infers
            output.ClearField("type")
        return model


def f(*shape: int) -> Array:
    """Numbers around 0."""
    return _rng.standard_normal(shape).astype(np.float32)


def u8(*shape: int, low: int = 0, high: int = 256) -> Array:
    """Codes."""
    return _rng.integers(low, high, shape).astype(np.uint8)


def i8(*shape: int) -> Array:
    """Codes of weights in 7 bits: onnxruntime adds products in 16 bits on older processors."""
    return _rng.integers(-64, 64, shape).astype(np.int8)


def one(value: float, kind: Any = np.float32) -> Array:
    """A scalar."""
    return np.array(value, kind)


def _attention() -> list[Case]:
    """[2, 3, 8] in two heads of four."""
    x, w, b = f(2, 3, 8), f(8, 24), f(24)
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    past = f(2, 2, 2, 5, 4)
    q, k, v = f(2, 3, 8), f(2, 5, 8), f(2, 5, 8)
    wide = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    two = {"num_heads": 2}
    return [
        Case("Attention", [x, w, b], two),
        Case("Attention", [x, w, b, mask], two, about="mask"),
        Case("Attention", [x, w, b, np.array([2, 3], np.int32)], two, about="lengths"),
        Case("Attention", [x, w, b], {**two, "unidirectional": 1}, about="causal"),
        Case("Attention", [x, w, b, None, past], two, 2, about="past"),
        Case("Attention", [x, w, b, None, None, f(2, 2, 3, 3)], two, about="bias"),
        Case("Attention", [x, w, b], {**two, "scale": 0.3}, about="scale"),
        _quantized(None, None, two, ""),
        _quantized(mask, None, two, "mask"),
        _quantized(None, None, {**two, "unidirectional": 1}, "causal"),
        _quantized(None, past, two, "past", [24]),
        Case("MultiHeadAttention", [q, k, v], two),
        Case("MultiHeadAttention", [q, k, v, b], two, about="bias"),
        Case("MultiHeadAttention", [q, k, v, None, wide], two, about="mask"),
        Case(
            "MultiHeadAttention",
            [q, k, v, None, np.array([3, 5], np.int32)],
            two,
            about="lengths",
        ),
        Case("MultiHeadAttention", [q, k, v, None, None, f(2, 2, 3, 5)], two, about="added"),
        Case(
            "MultiHeadAttention",
            [q, q * 2, q - 1, None, None, None, f(2, 2, 4, 4), f(2, 2, 4, 4)],
            two,
            3,
            about="past",
        ),
        *_grouped(),
    ]


def _quantized(
    mask: Array | None, past: Array | None, attributes: dict[str, Any], about: str, each: Any = ()
) -> Case:
    """QAttention with one scale of the weights, or one for each column."""
    scale, zero = np.full(each, 0.01, np.float32), np.full(each, 3, np.int8)
    product = [u8(2, 3, 8), i8(8, 24), f(24), one(0.02), scale, mask, one(7, np.uint8), zero]
    return Case("QAttention", [*product, past], attributes, 1 if past is None else 2, about)


def _grouped() -> list[Case]:
    """Four heads of 16 that share two heads of keys."""
    heads = {"num_heads": 4, "kv_num_heads": 2}
    angles = f(16, 8)
    turned = [np.cos(angles), np.sin(angles)]

    def tensors(rows: int, steps: int, before: int, room: int = 0) -> list[Any]:
        total = before + steps
        past: list[Any] = [None, None]
        if before:  # what is behind is zeros, as onnxruntime leaves it
            past = [f(rows, 2, room or before, 16) for _ in range(2)]
            for each in past:
                each[:, :, before:] = 0
        lengths = np.full(rows, total - 1, np.int32)
        new = [f(rows, steps, 64), f(rows, steps, 32), f(rows, steps, 32)]
        return [*new, *past, lengths, np.array(total, np.int32)]

    one_row = tensors(1, 3, 5)
    packed = [np.concatenate(one_row[:3], 2), None, None, *one_row[3:]]
    ragged = tensors(2, 1, 5)
    ragged[5] = np.array([5, 3], np.int32)
    for past in ragged[3:5]:
        past[1, :, 3:] = 0
    return [
        Case("GroupQueryAttention", inputs, {**heads, **more}, outputs, about=about)
        for about, inputs, more, outputs in (
            ("prompt", tensors(2, 3, 0), {}, 3),
            ("one step", tensors(2, 1, 5), {}, 3),
            ("three steps", one_row, {}, 3),
            ("rows of two lengths", ragged, {}, 3),
            ("room to spare", tensors(2, 1, 5, 9), {}, 3),
            ("turned", [*one_row, *turned], {"do_rotary": 1}, 3),
            ("packed", packed, {}, 3),
            ("soft cap", one_row, {"softcap": 2.0}, 3),
            ("window", tensors(1, 1, 7), {"local_window_size": 4}, 3),
            ("window of a prompt", tensors(1, 7, 0), {"local_window_size": 3}, 3),
        )
    ]


def _norms() -> list[Case]:
    x, skip, gamma, beta, bias = f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)
    ids = _rng.integers(0, 10, (2, 3)).astype(np.int32)
    kinds = _rng.integers(0, 2, (2, 3)).astype(np.int32)
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    tables = [f(10, 8), f(6, 8), f(2, 8), gamma, beta]
    sizes = {"epsilon": 1e-5}
    return [
        Case("SkipLayerNormalization", [x, skip, gamma, beta, bias], sizes),
        Case("SkipLayerNormalization", [x, skip, gamma], sizes, about="no shift"),
        Case("SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], sizes),
        Case("SimplifiedLayerNormalization", [x, gamma], {"axis": -1}, domain=""),
        Case("EmbedLayerNormalization", [ids, kinds, *tables, mask], sizes, 2),
        Case(
            "EmbedLayerNormalization",
            [ids, None, *tables[:2], None, gamma, beta],
            sizes,
            2,
            about="no kinds",
        ),
    ]


def _products() -> list[Case]:
    a, b = f(2, 3, 4), f(2, 4, 5)
    swap = np.ascontiguousarray(a.transpose(0, 2, 1))
    codes, weights = u8(3, 8), i8(8, 5)
    return [
        Case("FusedMatMul", [a, b], {"alpha": 0.5}),
        Case("FusedMatMul", [swap, b], {"transA": 1}, about="transposed"),
        Case("FusedMatMul", [a, f(5, 4)], {"transB": 1, "alpha": 2.0}, about="of a matrix"),
        Case(
            "FusedMatMul",
            [f(3, 2, 4), b],
            {"transBatchA": 1},
            about="batch inside",
        ),
        Case("TransposeMatMul", [a, f(2, 5, 4)], {"transB": 1}),
        Case("FusedGemm", [f(3, 4), f(4, 5), f(5)], {"activation": "Relu", "alpha": 0.5}),
        Case("BiasGelu", [a, f(4)]),
        Case("FastGelu", [a, f(4)]),
        Case("Gelu", [a]),
        Case("QuickGelu", [a], {"alpha": 1.5}),
        Case("Inverse", [f(2, 3, 3)], tolerance=1e-3),
        Case("ExpandDims", [a, one(1, np.int32)], constants=[1]),
        Case("Trilu", [f(3, 4)], {"upper": 0}),
        Case("MatMulIntegerToFloat", [codes, weights, one(0.1), one(0.2), one(7, np.uint8)]),
        Case(
            "MatMulIntegerToFloat",
            [codes, weights, one(0.1), np.abs(f(5)), one(7, np.uint8), i8(5), f(5)],
            about="by column",
        ),
        Case("DynamicQuantizeMatMul", [f(3, 8), weights, one(0.2), one(3, np.int8), f(5)]),
        Case(
            "DynamicQuantizeMatMul",
            [f(3, 8), weights, np.abs(f(5)), i8(5)],
            about="by column",
        ),
        Case("FusedConv", [f(1, 2, 6, 6), f(3, 2, 3, 3), f(3)], {"activation": "Relu"}),
    ]


def _few_bits() -> list[Case]:
    cases = []
    for bits, block, zeros in ((4, 16, 0), (4, 32, 1), (8, 16, 0), (8, 16, 1), (4, 16, 2)):
        rows, columns = 40, 6
        blocks = -(-rows // block)
        inputs: list[Any] = [
            f(3, rows),
            u8(columns, blocks, block * bits // 8),
            np.abs(f(columns * blocks)) + 0.1,
        ]
        if zeros == 1:
            inputs.append(u8(columns * -(-blocks * bits // 8)))
        elif zeros == 2:
            inputs.append(np.abs(f(columns * blocks)) * 4)
        cases.append(
            Case(
                "MatMulNBits",
                inputs,
                {"N": columns, "K": rows, "bits": bits, "block_size": block},
                about=f"{bits} bits in {block}, zeros {zeros}",
                constants=range(1, len(inputs)),
                tolerance=1e-4,
            )
        )
    return cases


def _codes() -> list[Case]:
    def scaled(array: Array, scale: float, zero: int) -> list[Array]:
        return [array, one(scale), one(zero, array.dtype)]

    a, b = scaled(u8(2, 4), 0.1, 100), scaled(u8(2, 4), 0.05, 7)
    out = [one(0.2), one(90, np.uint8)]
    picture = scaled(u8(1, 3, 6, 6), 0.1, 100)
    return [
        Case("QuantizeLinear", [f(2, 4), one(0.1), one(3, np.uint8)]),
        Case("DequantizeLinear", [u8(2, 4), one(0.1), one(3, np.uint8)]),
        Case("QLinearAdd", [*a, *b, *out], tolerance=1),
        Case("QLinearMul", [*a, *b, *out], tolerance=1),
        Case("QLinearSigmoid", [*a, one(1 / 256), one(0, np.uint8)], tolerance=1),
        Case("QLinearLeakyRelu", [*a, *out], {"alpha": 0.1}, tolerance=1),
        Case(
            "QLinearSoftmax",
            [*a, one(1 / 256), one(0, np.uint8)],
            {"axis": -1, "opset": 13},
            tolerance=1,
        ),
        Case(
            "QLinearConcat", [*out, *a, *b], {"axis": 1}, tolerance=1, constants=[0, 1, 3, 4, 6, 7]
        ),
        Case("QLinearGlobalAveragePool", [*picture, *out], {"channels_last": 0}, tolerance=1),
        Case(
            "QLinearAveragePool",
            [*picture, *out],
            {"kernel_shape": [2, 2], "strides": [2, 2]},
            tolerance=1,
        ),
        Case("QLinearWhere", [np.array([[True, False, True, False]]), *a, *b, *out], tolerance=1),
        Case("QGemm", [*scaled(u8(3, 8), 0.1, 7), *scaled(i8(8, 5), 0.2, 3)], {"alpha": 1.0}),
        Case(
            "QGemm",
            [*scaled(u8(3, 8), 0.1, 7), *scaled(i8(8, 5), 0.2, 3), None, *out],
            {"alpha": 1.0},
            about="codes",
            tolerance=1,
        ),
    ]


def _rotary() -> list[Case]:
    angles = f(16, 4)
    turned = [np.cos(angles), np.sin(angles)]
    places = np.array([[0, 1, 2], [4, 5, 6]])
    return [
        Case("RotaryEmbedding", [f(2, 3, 16), places, *turned]),
        Case("RotaryEmbedding", [f(2, 2, 3, 8), np.array([3]), *turned], about="from a step"),
        Case(
            "RotaryEmbedding",
            [f(2, 2, 3, 8), places, *turned],
            {"interleaved": 1},
            about="interleaved",
        ),
    ]


def _classical() -> list[Case]:
    ml = "ai.onnx.ml"
    x = f(5, 3)
    weights = {"coefficients": f(9).tolist(), "intercepts": f(3).tolist()}
    return [
        Case("Scaler", [x], {"offset": [1.0, 2, 3], "scale": [2.0, 3, 4]}, domain=ml),
        Case("Scaler", [x], {"offset": [1.0], "scale": [2.0]}, domain=ml, about="one"),
        *(Case("Normalizer", [x], {"norm": n}, domain=ml, about=n) for n in ("MAX", "L1", "L2")),
        Case("Binarizer", [x], {"threshold": 0.2}, domain=ml),
        Case(
            "Imputer",
            [np.where(x > 1, np.nan, x).astype(np.float32)],
            {"imputed_value_floats": [7.0, 8, 9], "replaced_value_float": float("nan")},
            domain=ml,
        ),
        Case("FeatureVectorizer", [x, f(5, 2)], {"inputdimensions": [3, 2]}, domain=ml),
        Case("ArrayFeatureExtractor", [x, np.array([0, 2])], domain=ml),
        Case(
            "OneHotEncoder",
            [np.array([[1], [3], [9]])],
            {"cats_int64s": [1, 3, 5], "zeros": 1},
            domain=ml,
        ),
        Case("LinearRegressor", [x], {**weights, "targets": 3}, domain=ml),
        *(
            Case(
                "LinearClassifier",
                [x],
                {**weights, "classlabels_ints": [4, 5, 6], "post_transform": how},
                2,
                domain=ml,
                about=how,
            )
            for how in ("NONE", "SOFTMAX", "LOGISTIC")
        ),
        *(
            Case(
                "LinearClassifier",
                [x],
                {
                    "coefficients": f(3).tolist(),
                    "intercepts": [0.1],
                    "classlabels_ints": [4, 5],
                    "post_transform": how,
                },
                2,
                domain=ml,
                about=f"two classes {how}",
            )
            for how in ("NONE", "LOGISTIC", "SOFTMAX")
        ),
    ]


CASES = [
    *_attention(),
    *_norms(),
    *_products(),
    *_few_bits(),
    *_codes(),
    *_rotary(),
    *_classical(),
]
