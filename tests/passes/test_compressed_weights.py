"""Weights stored in few bits: Convert, Subtract and Multiply chains as compression tools write
them, against values worked by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.ir.model import Source

BACKENDS = ("cpu", "reference")


@dataclass(frozen=True)
class Chain:
    """`stored` as it lies in the file, `zero` and `scale` as they are subtracted and multiplied,
    `weights` what comes out [2, n].
    """

    element_type: str
    stored: Any
    zero: Any
    scale: Any
    weights: Any
    #: The type that the chain computes in.
    computed: str = "f32"
    zero_type: str = ""


CHAINS = {
    # 0.1 is 0x2e66 in f16: 1638 / 2**14.
    "f16": Chain(
        "f16",
        np.array([[1, 0.1], [-65504, 2**-24]], np.float16),
        None,
        None,
        [[1, 0.0999755859375], [-65504, 2**-24]],
    ),
    # 1/3 is 0x3eab in bf16: 171 / 512.
    "bf16": Chain(
        "bf16",
        np.array([[0x3F80, 0x3EAB], [0xC040, 0x7F80]], np.uint16),
        None,
        None,
        [[1, 0.333984375], [-3, np.inf]],
    ),
    "i8, a scale for each row": Chain(
        "i8", [[-128, 127], [3, -4]], None, [[0.5], [0.25]], [[-64, 63.5], [0.75, -1]]
    ),
    "i8, one scale": Chain("i8", [[-128, 127], [0, -1]], None, 0.25, [[-32, 31.75], [0, -0.25]]),
    "i8, a scale for each column": Chain(
        "i8", [[-128, 127], [2, -1]], None, [[0.5, 2]], [[-64, 254], [1, -2]]
    ),
    "u8, a zero point for each row": Chain(
        "u8", [[0, 255], [10, 12]], [[128], [10]], [[0.5], [0.25]], [[-64, 63.5], [0, 0.5]]
    ),
    "u8, one zero point": Chain("u8", [[0, 255], [127, 128]], 128, 0.5, [[-64, 63.5], [-0.5, 0]]),
    # The zero point is no whole number here, and below the values' own type.
    "u8, an f32 zero point": Chain(
        "u8",
        [[0, 255], [1, 2]],
        [[-0.5], [1.5]],
        [[1], [4]],
        [[0.5, 255.5], [-2, 2]],
        zero_type="f32",
    ),
    "i8, an i8 zero point": Chain(
        "i8", [[-128, 127], [5, 6]], [[-128], [5]], [[1], [0.5]], [[0, 255], [0, 0.5]]
    ),
    "i4, a scale for each row": Chain(
        "i4", [[-8, 7], [-1, 3]], None, [[0.5], [2]], [[-4, 3.5], [-2, 6]]
    ),
    "i4, an odd number": Chain(
        "i4", [[-8, 7, 1], [-1, 3, 2]], None, [[0.5], [2]], [[-4, 3.5, 0.5], [-2, 6, 4]]
    ),
    "i4, in groups of two": Chain(
        "i4",
        [[[-8, 7], [1, 2]], [[-1, 3], [4, -5]]],
        None,
        [[[1], [0.5]], [[2], [0.25]]],
        [[-8, 7, 0.5, 1], [-2, 6, 1, -1.25]],
    ),
    "u4, a zero point for each row": Chain(
        "u4", [[0, 15], [7, 8]], [[8], [7]], [[0.5], [2]], [[-4, 3.5], [0, 2]]
    ),
    "u4, in groups of two": Chain(
        "u4",
        [[[0, 15], [1, 2]], [[9, 3], [4, 5]]],
        [[[8], [1]], [[9], [0]]],
        [[[1], [0.5]], [[2], [0.25]]],
        [[-8, 7, 0, 0.5], [0, -12, 1, 1.25]],
    ),
    "u4, a u8 zero point": Chain(
        "u4", [[0, 15], [7, 8]], [[200], [7]], [[1], [2]], [[-200, -185], [0, 2]], zero_type="u8"
    ),
    # Every step is rounded to f16: 5 * 1638 / 2**14 is 2047.5 steps of 2**-12, which goes to the
    # even one.
    "u4, computed in f16": Chain(
        "u4",
        [[0, 13], [7, 8]],
        [[8], [7]],
        [[0.0999755859375], [1000]],
        [[-0.7998046875, 0.5], [0, 1000]],
        computed="f16",
    ),
    "i8, computed in f16": Chain(
        # 127 * 1638 / 2**14 = 12.69689..: steps of 2**-7 there, 1625.2 of them.
        "i8",
        [[127, -1], [3, -4]],
        None,
        [[0.0999755859375], [1]],
        [[12.6953125, -0.0999755859375], [3, -4]],
        computed="f16",
    ),
    # The first, the zero, the last and the fifth of the sixteen values.
    "nf4, a scale for each row": Chain(
        "nf4", [[0, 7], [15, 4]], None, [[2], [0.5]], [[-2, 0], [0.5, -0.14222069084644318]]
    ),
    "nf4, in groups of two": Chain(
        "nf4",
        [[[0, 7], [15, 15]], [[8, 0], [7, 7]]],
        None,
        [[[2], [4]], [[8], [1]]],
        [[-2, 0, 4, 4], [0.6366423964500427, -8, 0, 0]],
    ),
    "f8e4m3, one scale": Chain(
        "f8e4m3", [[0x38, 0x01], [0x7E, 0xB8]], None, 0.5, [[0.5, 2**-10], [224, -0.5]]
    ),
}


def weights_of(chain: Chain, builder: uncork.Builder) -> Source:
    """The layers of the chain, and a Reshape to two dimensions and a Convert to f32 where it needs
    them.
    """

    def converted(values: Any, element_type: str) -> Source:
        carrier = uncork.ElementType.parse(element_type).dtype
        (as_computed,) = builder.add(
            "Convert",
            1,
            builder.constant(np.array(values, carrier), element_type),
            destination_type=chain.computed,
        )
        return as_computed

    weights = converted(chain.stored, chain.element_type)
    if chain.zero is not None:
        (weights,) = builder.add(
            "Subtract", 1, weights, converted(chain.zero, chain.zero_type or chain.element_type)
        )
    if chain.scale is not None:
        scale = builder.constant(
            np.array(chain.scale, uncork.ElementType.parse(chain.computed).dtype)
        )
        (weights,) = builder.add("Multiply", 1, weights, scale)
    if np.ndim(chain.stored) == 3:
        (weights,) = builder.add(
            "Reshape", 1, weights, builder.constant(np.array([2, -1])), special_zero=False
        )
    if chain.computed != "f32":
        (weights,) = builder.add("Convert", 1, weights, destination_type="f32")
    return weights


@pytest.mark.parametrize("name", CHAINS)
def test_chain(name: str, tmp_path: Path) -> None:
    """The weights themselves, a product with them, and rows of them, from a file that was written
    and read.
    """
    chain = CHAINS[name]
    expected = np.array(chain.weights, np.float32)
    builder = uncork.Builder("compressed")
    x, ids = (
        builder.parameter("x", "f32", [None, expected.shape[1]]),
        builder.parameter("ids", "i64", [None]),
    )
    weights = weights_of(chain, builder)
    (product,) = builder.add("MatMul", 1, x, weights, transpose_b=True)
    (rows,) = builder.add("Gather", 8, weights, ids, builder.constant(np.int64(0)))
    (bags,) = builder.add(
        "EmbeddingBagOffsetsSum", 3, weights, ids, builder.constant(np.array([0, 1]))
    )
    for source, result in (
        (weights, "weights"),
        (product, "product"),
        (rows, "rows"),
        (bags, "bags"),
    ):
        builder.result(source, result)
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    one_hot = np.eye(
        expected.shape[1], dtype=np.float32
    )  # whose product is a column of the weights
    finite = np.isfinite(expected).all()
    for backend in BACKENDS:
        results = uncork.load(tmp_path / "model.xml", backend=backend)(one_hot, np.array([1, 0, 1]))
        np.testing.assert_array_equal(results["weights"], expected)
        np.testing.assert_array_equal(results["rows"], expected[[1, 0, 1]])
        np.testing.assert_array_equal(results["bags"], [expected[1], expected[0] + expected[1]])
        if finite:
            np.testing.assert_array_equal(results["product"], expected.T)


@pytest.mark.parametrize(
    ("element_type", "stored", "file"),
    [
        ("i8", [-128, 127, -1], b"\x80\x7f\xff"),
        ("i4", [-8, 7, -1, 3], b"\x78\x3f"),  # the first value in the low half of a byte
        ("i4", [-8, 7, -1], b"\x78\x0f"),
        ("u4", [0, 15, 7], b"\xf0\x07"),
        ("nf4", [0, 15, 7, 8], b"\xf0\x87"),
        ("f16", [1, -2], b"\x00\x3c\x00\xc0"),
    ],
)
def test_bytes_in_the_file(
    element_type: str, stored: list[int], file: bytes, tmp_path: Path
) -> None:
    builder = uncork.Builder("bytes")
    carrier = uncork.ElementType.parse(element_type).dtype
    (wide,) = builder.add(
        "Convert",
        1,
        builder.constant(np.array(stored, carrier), element_type),
        destination_type="f32",
    )
    builder.result(wide, "wide")
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    assert (tmp_path / "model.bin").read_bytes().startswith(file)
