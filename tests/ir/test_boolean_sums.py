"""Sums of booleans count, in u8, as OpenVINO's plugin computes them; where booleans are needed, a
count is true unless it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests._openvino import OpenVino
from tests.ir._files import Net, edge, layer, parameter, port, result

MASK = np.array([[1, 1, 0, 1], [0, 1, 1, 1]], bool)
COUNTS = np.array([[1, 2, 2, 3], [0, 1, 2, 3]])
BACKENDS = ("cpu", "reference")
ROWS = [-1, 4]


def model(
    folder: Path,
    behind: Sequence[str] = (),
    edges: Sequence[str] = (),
    last: str = "2:2",
    kind: str = "BOOL",
) -> Path:
    """x -> CumSum along axis 1 -> `behind` -> a result of one type; layer 1 is the axis, layers
    from 3 on are the caller's.
    """
    axis = layer(
        1, "Const", outputs=[port(0, [], "I64")], element_type="i64", shape="", offset=0, size=8
    )
    ports = [port(0, ROWS, "BOOL"), port(1, [], "I64")]
    total = layer(
        2,
        "CumSum",
        ports,
        [port(2, ROWS, "BOOL", names="sum")],
        version="opset3",
        exclusive="false",
        reverse="false",
    )
    layers = [parameter(0, ROWS, "BOOL"), axis, total, *behind, result(9, ROWS, kind)]
    all_edges = [edge("0:0", "2:0"), edge("1:0", "2:1"), *edges, edge(last, "9:0")]
    return Net(layers, all_edges).save(folder, np.array(1, np.int64).tobytes())


def one(
    kind: str, *more: str, out: str = "BOOL", version: str = "opset1", **data: Any
) -> list[str]:
    """Layer 3, which reads the counts and the sources of `more`."""
    inputs = [port(0, ROWS, "BOOL"), *(port(i, ROWS, "BOOL") for i in range(1, len(more) + 1))]
    return [layer(3, kind, inputs, [port(7, ROWS, out)], version=version, **data)]


def check(path: Path, expected: np.ndarray, openvino: OpenVino | None = None) -> None:
    for backend in BACKENDS:
        compiled = uncork.load(path, backend=backend)
        (got,) = compiled(MASK)
        assert got.dtype == expected.dtype == compiled.outputs[0].element_type.dtype
        np.testing.assert_array_equal(got, expected)
    if openvino is not None:
        np.testing.assert_array_equal(openvino.run(path, [MASK])[0], expected)


#: What reads the counts, the edges to it beside that of the counts, the type that the file calls
#: its result, and the result.
READERS: dict[str, tuple[list[str], list[str], str, np.ndarray]] = {
    "converted": (
        one("Convert", out="FP32", destination_type="f32"),
        [],
        "FP32",
        COUNTS.astype(np.float32),
    ),
    "compared with a mask": (one("Equal", "x"), [edge("0:0", "3:1")], "BOOL", COUNTS == MASK),
    "compared with themselves": (
        one("Equal", "x"),
        [edge("2:2", "3:1")],
        "BOOL",
        np.ones((2, 4), bool),
    ),
    "negated": (one("LogicalNot"), [], "BOOL", COUNTS == 0),
    "and a mask": (one("LogicalAnd", "x"), [edge("0:0", "3:1")], "BOOL", (COUNTS != 0) & MASK),
}


@pytest.mark.parametrize("reader", READERS)
def test_readers_of_counts(reader: str, tmp_path: Path) -> None:
    behind, edges, kind, expected = READERS[reader]
    check(model(tmp_path, behind, [edge("2:2", "3:0"), *edges], "3:7", kind), expected)


@pytest.mark.oracle
@pytest.mark.parametrize("reader", READERS)
def test_readers_of_counts_in_openvino(reader: str, openvino: OpenVino, tmp_path: Path) -> None:
    behind, edges, kind, expected = READERS[reader]
    path = model(tmp_path, behind, [edge("2:2", "3:0"), *edges], "3:7", kind)
    check(path, expected, openvino)
    # Written again the types are explicit, and both read the same.
    uncork.write_model(uncork.read_model(path), tmp_path / "again.xml")
    check(tmp_path / "again.xml", expected, openvino)


def test_a_result_is_boolean_and_keeps_its_name(tmp_path: Path) -> None:
    path = model(tmp_path)
    check(path, COUNTS != 0)
    assert uncork.load(path).outputs[0].names[0] == "sum"
    assert uncork.load(path)(MASK)["sum"].dtype == bool


def test_counts_pass_through_moves_and_are_summed_again(tmp_path: Path) -> None:
    """Reversed rows of the sums of sums: types that the file calls boolean are followed."""
    again = layer(
        3,
        "CumSum",
        [port(0, ROWS, "BOOL"), port(1, [], "I64")],
        [port(7, ROWS, "BOOL")],
        version="opset3",
    )
    moved = layer(
        4,
        "Reverse",
        [port(0, ROWS, "BOOL"), port(1, [1], "I64")],
        [port(7, ROWS, "BOOL")],
        mode="index",
    )
    axes = layer(
        5, "Const", outputs=[port(0, [1], "I64")], element_type="i64", shape="1", offset=0, size=8
    )
    wide = layer(
        6, "Convert", [port(0, ROWS, "BOOL")], [port(7, ROWS, "I64")], destination_type="i64"
    )
    edges = [
        edge("2:2", "3:0"),
        edge("1:0", "3:1"),
        edge("3:7", "4:0"),
        edge("5:0", "4:1"),
        edge("4:7", "6:0"),
    ]
    path = model(tmp_path, [again, moved, axes, wide], edges, "6:7", "I64")
    check(path, COUNTS.cumsum(axis=1)[:, ::-1])


def test_counts_wrap_at_256(tmp_path: Path) -> None:
    path = model(
        tmp_path,
        one("Convert", out="I32", destination_type="i32"),
        [edge("2:2", "3:0")],
        "3:7",
        "I32",
    )
    text = (
        path.read_text(encoding="utf-8")
        .replace("<dim>4</dim>", "<dim>-1</dim>")
        .replace('shape="?,4"', 'shape="?,?"')
    )
    path.write_text(text, encoding="utf-8")
    for backend in BACKENDS:
        (got,) = uncork.load(path, backend=backend)(np.ones((1, 300), bool))
        np.testing.assert_array_equal(got, np.arange(1, 301)[np.newaxis] % 256)


def test_a_contradiction_is_still_one(tmp_path: Path) -> None:
    """Only what the file calls boolean may be counts."""
    path = model(tmp_path, one("Relu", out="BOOL"), [edge("2:2", "3:0")], "3:7", "FP32")
    with pytest.raises(
        uncork.ValidationError,
        match=r"layer 'layer9' .*: input 0: the file says f32\[\?,4\] here and boolean\[\?,4\]",
    ):
        uncork.load(path)


def test_in_a_body(tmp_path: Path) -> None:
    """A body's own sums of booleans are followed as those of the model; here it takes the rows one
    by one.
    """
    row = [1, 4]
    body_layers = [
        parameter(0, row, "BOOL"),
        layer(
            1, "Const", outputs=[port(0, [], "I64")], element_type="i64", shape="", offset=0, size=8
        ),
        layer(
            2,
            "CumSum",
            [port(0, row, "BOOL"), port(1, [], "I64")],
            [port(2, row, "BOOL")],
            version="opset3",
        ),
        layer(3, "Convert", [port(0, row, "BOOL")], [port(1, row, "I64")], destination_type="i64"),
        result(4, row, "I64"),
    ]
    body = Net(
        body_layers,
        [edge("0:0", "2:0"), edge("1:0", "2:1"), edge("2:2", "3:0"), edge("3:1", "4:0")],
        tail="",
    ).body
    ends = (
        f'<{tag} external_port_id="{i}" internal_layer_id="{4 * i}" axis="0"/>'
        for i, tag in enumerate(("input", "output"))
    )
    maps = f"<port_map>{''.join(ends)}</port_map>"
    outer = layer(
        1,
        "TensorIterator",
        [port(0, ROWS, "BOOL")],
        [port(1, ROWS, "I64")],
        inner=f"{maps}<body>{body}</body>",
    )
    net = Net(
        [parameter(0, ROWS, "BOOL"), outer, result(2, ROWS, "I64")],
        [edge("0:0", "1:0"), edge("1:1", "2:0")],
    )
    check(net.save(tmp_path, np.array(1, np.int64).tobytes()), COUNTS)
