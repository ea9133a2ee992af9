"""Numbers that an integer type lacks: what systems make of them differs, and none is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork
from uncork.compare import compare
from uncork.compare.report import conclusion, counts

INF = float("inf")


def converted(folder: Path, element_type: str) -> Path:
    builder = uncork.Builder("converted")
    x = builder.parameter("x", "f32", [None])
    y = builder.add("Convert", 1, x, name="whole", destination_type=element_type)[0]
    builder.result(y, "y")
    uncork.write_model(builder.model(), folder / "model.xml")
    return folder / "model.xml"


@pytest.mark.parametrize(
    ("element_type", "x", "theirs", "verdict"),
    [
        ("i64", [1.5, -INF, 3], [1, 0, 3], "undefined"),
        ("i32", [1.5, INF, np.nan], [1, 7, 8], "undefined"),
        ("i32", [1.5, 2.0**31, 3], [1, 2**31 - 1, 3], "undefined"),
        ("u8", [1.5, 256, -1], [1, 255, 17], "undefined"),
        ("u8", [1.5, 255.5, -0.5], [1, 255, 0], "same"),
        ("i64", [1.5, -INF, 3], [2, 0, 3], "differs"),
        ("i32", [1.5, -(2.0**31), 3], [1, 0, 3], "differs"),
        ("u8", [1.5, 255.5, 3], [1, 0, 3], "differs"),
    ],
)
def test_a_number_that_a_type_lacks(
    tmp_path: Path, element_type: str, x: list[float], theirs: list[int], verdict: str
) -> None:
    saved = {"whole": np.array(theirs, element_type.replace("i", "int").replace("u", "uint"))}
    model = converted(tmp_path, element_type)
    found = compare(model, "saved.npz", [np.float32(x)], saved=saved)
    assert [layer.verdict for layer in found.layers] == [verdict]
    assert counts(found)[verdict] == 1
    assert found.is_same == (verdict != "differs")
    if verdict == "undefined":
        assert "values are of numbers that the type lacks" in found.layers[0].reason
        assert conclusion(found).endswith("numbers that a type lacks, of which none is right")
