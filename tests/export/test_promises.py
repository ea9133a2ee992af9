"""What exports keep of what `load` promises: how ids are looked up, and what inputs and outputs are
called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.errors import ValidationError
from uncork.ir.model import Model

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
from tests.export.onnx._run import run  # noqa: E402 (needs the packages)

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

TABLE = np.arange(10, dtype=np.float32).reshape(5, 2)


def look_up(element_type: str = "i64") -> Model:
    """Rows of a table, by ids that a Convert to i32 cuts, as converters from PyTorch write."""
    builder = uncork.Builder("ids")
    ids = builder.parameter("ids", element_type, [None])
    (short,) = builder.add("Convert", 1, ids, destination_type="i32")
    axis = builder.constant(np.array(0))
    (rows,) = builder.add("Gather", 8, builder.constant(TABLE), short, axis)
    builder.result(rows, "rows")
    return builder.model()


def answers(model: Model, *inputs: Any, **options: Any) -> list[np.ndarray]:
    """The first output of both exports."""
    proto = uncork.to_onnx(model, **options)
    module = uncork.to_torch(model, **options)
    with torch.no_grad():
        given = module(*map(torch.from_numpy, inputs))
    first = given[0] if isinstance(given, tuple) else given
    return [run(proto, list(inputs))[0], first.numpy()]


@pytest.mark.parametrize("far", [2**32 + 1, -(2**32) + 1, 2**31])
def test_ids_are_looked_up_as_they_were_given(far: int) -> None:
    """No row has such a number, and Gather reads zeros there."""
    for found in answers(look_up(), np.array([far, 2])):
        np.testing.assert_array_equal(found, [[0, 0], TABLE[2]])


@pytest.mark.parametrize("far", [2**64 - 1, 2**63, 2**32 + 1])
def test_unsigned_ids_beyond_the_signed_ones_stay_outside(far: int) -> None:
    """2**64 - 1 is not -1, which would be the last row."""
    for found in answers(look_up("u64"), np.array([far, 2], np.uint64)):
        np.testing.assert_array_equal(found, [[0, 0], TABLE[2]])


def test_as_written_the_conversions_of_the_model_cut_ids() -> None:
    for found in answers(look_up(), np.array([2**32 + 1, 2]), ids="as-written"):
        np.testing.assert_array_equal(found, TABLE[[1, 2]])


def test_another_word_for_ids_is_refused(tmp_path: Path) -> None:
    for export in (
        lambda: uncork.to_onnx(look_up(), ids="32-bit"),
        lambda: uncork.to_torch(look_up(), ids="32-bit"),
        lambda: uncork.write_onnx(look_up(), tmp_path / "m.onnx", ids="32-bit"),
        lambda: uncork.write_torch(look_up(), tmp_path / "m", ids="32-bit"),
    ):
        with pytest.raises(ValidationError, match="expected '64-bit' or 'as-written', got '32-bit"):
            export()
    assert not list(tmp_path.iterdir())


def test_files_look_ids_up_as_asked(tmp_path: Path) -> None:
    far = np.array([2**32 + 1])
    uncork.write_onnx(look_up(), tmp_path / "whole.onnx")
    uncork.write_onnx(look_up(), tmp_path / "cut.onnx", ids="as-written")
    for name, row in (("whole", [0, 0]), ("cut", TABLE[1])):
        (found,) = run(onnx.load(tmp_path / f"{name}.onnx"), [far])
        np.testing.assert_array_equal(found, [row])
    uncork.write_torch(look_up(), tmp_path / "whole")
    uncork.write_torch(look_up(), tmp_path / "cut", ids="as-written")
    assert "int32" not in (tmp_path / "whole" / "model.py").read_text()
    assert "int32" in (tmp_path / "cut" / "model.py").read_text()


def test_lengths_beyond_32_bits_are_no_short_ones() -> None:
    """ONNX has lengths in i32: 2**32 + 1 would be 1. The IR refuses it, and so does onnxruntime."""
    builder = uncork.Builder("gru")
    x, state = builder.parameter("x", "f32", [1, 3, 2]), builder.parameter("h", "f32", [1, 1, 2])
    lengths = builder.parameter("lengths", "i64", [1])
    weights = [builder.constant(np.ones(s, np.float32)) for s in ((1, 6, 2), (1, 6, 2), (1, 6))]
    options = {"hidden_size": 2, "direction": "forward"}
    y, _ = builder.add("GRUSequence", 5, x, state, lengths, *weights, **options)
    builder.result(y, "y")
    proto = uncork.to_onnx(builder.model())
    given = np.ones((1, 3, 2), np.float32), np.zeros((1, 1, 2), np.float32)
    whole = run(proto, [*given, np.array([3])])[0]
    np.testing.assert_allclose(
        whole, uncork.compile_model(builder.model())(*given, np.array([3]))[0], 1e-5
    )
    with pytest.raises(Exception, match="sequence_len"):
        run(proto, [*given, np.array([2**32 + 1])])


def renamed(folder: Path) -> Path:
    """A model whose input and output have a converter's numbers before their names."""
    builder = uncork.Builder("named")
    x = builder.parameter("cats", "f32", [None, 2])
    builder.result(builder.add("ReLU", 1, x)[0], "scores")
    path = folder / "model.xml"
    uncork.write_model(builder.model(), path)
    text = path.read_text()
    for name, names in (("cats", "14,23,cats"), ("scores", "99,scores")):
        assert f'names="{name}"' in text
        text = text.replace(f'names="{name}"', f'names="{names}"')
    path.write_text(text)
    return path


def test_inputs_and_outputs_have_the_names_that_load_shows(tmp_path: Path) -> None:
    path = renamed(tmp_path)
    compiled = uncork.load(path)
    assert (compiled.inputs[0].name, compiled.outputs[0].name) == ("cats", "scores")
    graph = uncork.to_onnx(path).graph
    assert ([i.name for i in graph.input], [o.name for o in graph.output]) == (["cats"], ["scores"])
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "cats_0"
    assert "def forward(self, cats: Tensor)" in uncork.to_torch(path).source
