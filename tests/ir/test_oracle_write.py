"""What uncork writes, in OpenVINO: the same inputs and outputs by the same names, and the same
answers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests._openvino import OpenVino
from tests.ir._files import Net, edge, layer, one_constant, parameter, port, relu, result
from tests.ir._models import BUILT, COMMITTED, INPUTS, WHOLE
from uncork.ir.read import read_structure
from uncork.storage import decode

pytestmark = pytest.mark.oracle


def as_openvino_reads(*paths: Path) -> list[Any]:
    pytest.importorskip("openvino")
    worker = Path(__file__).with_name("openvino_reader.py")
    done = subprocess.run(
        [sys.executable, str(worker), *map(str, paths)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("path", WHOLE + COMMITTED, ids=lambda p: p.parent.name)
def test_whole_models(tmp_path: Path, openvino: OpenVino, path: Path) -> None:
    model, _ = read_structure(path)
    written = tmp_path / "model.xml"
    uncork.write_model(model, written)
    before, after = as_openvino_reads(path, written)
    assert before == after
    for position, (names, _, _, _) in enumerate(after["inputs"]):
        assert set(names) <= set(model.names_of_input(position))
    for position, (names, _, _, _) in enumerate(after["outputs"]):
        assert set(names) <= set(model.names_of_output(position))
    samples = path.with_name("inputs.npz")
    if samples.exists():
        with np.load(samples) as stored:
            inputs = [stored[f"run0/{i}"] for i in range(len(model.parameters))]
        for a, b in zip(openvino.run(path, inputs), openvino.run(written, inputs), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [n for n in BUILT if n != "low_bits"])
def test_built_models(tmp_path: Path, openvino: OpenVino, name: str) -> None:
    model = BUILT[name]()
    path = tmp_path / "model.xml"
    uncork.write_model(model, path)
    compiled = uncork.load(path)
    inputs = INPUTS[name]
    expected = openvino.run(path, inputs, reshape=name == "sequence")
    for a, b in zip(compiled(*inputs), expected, strict=True):
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(a, b.astype(str))
    (read,) = as_openvino_reads(path)
    assert [set(names) for names, *_ in read["inputs"]] == [
        set(model.by_id[p].outputs[0].names) for p in model.parameters
    ]
    for position, (names, element_type, shape, _) in enumerate(read["outputs"]):
        assert set(names) <= set(compiled.outputs[position].names)
        assert element_type == str(compiled.outputs[position].element_type)
        assert shape == str(compiled.outputs[position].shape).replace("[0..", "[..")


def test_constants_of_every_element_type(tmp_path: Path, openvino: OpenVino) -> None:
    """OpenVINO finds in our bytes the values that we do; those that it cannot show, it converts."""
    for element_type in uncork.ElementType:
        if element_type is uncork.ElementType.string:
            value = np.array(["x", "", "日本"], object)
        else:
            value = np.array([1, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1], element_type.dtype)
        if element_type is uncork.ElementType.bf16:
            value *= np.uint16(0x3F80)  # not a subnormal
        builder = uncork.Builder()
        constant = builder.constant(value, element_type)
        shown = value
        if not element_type.is_native and element_type is not uncork.ElementType.string:
            wide = "f32" if element_type.is_float else "i32"
            (constant,) = builder.add(
                "Convert", 1, constant, destination_type=uncork.ElementType.parse(wide)
            )
            shown = decode(value, element_type)
        builder.result(constant)
        uncork.write_model(builder.model(), tmp_path / "model.xml")
        if element_type in (
            uncork.ElementType.u2,
            uncork.ElementType.u3,
            uncork.ElementType.u6,
            uncork.ElementType.f8e8m0,
        ):
            assert "error" not in as_openvino_reads(tmp_path / "model.xml")[0], (
                element_type
            )  # its CPU plugin has no such Convert
            continue
        (got,) = openvino.run(tmp_path / "model.xml", [])
        np.testing.assert_array_equal(np.asarray(got).astype(shown.dtype), shown, str(element_type))


def test_an_empty_constant(tmp_path: Path, openvino: OpenVino) -> None:
    builder = uncork.Builder()
    builder.result(builder.constant(np.zeros((0, 3), np.float32)))
    builder.result(builder.constant(np.array([], object)))
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    (read,) = as_openvino_reads(tmp_path / "model.xml")
    assert [shape for _, _, shape, _ in read["outputs"]] == ["[0,3]", "[0]"]
    path = one_constant("f32", "0, 3", 0, 1).save(tmp_path, b"\0")
    assert "error" not in as_openvino_reads(path)[0]


@pytest.mark.parametrize("version", [10, 11])
def test_names_are_those_of_openvino(tmp_path: Path, version: int) -> None:
    """With and without tensor names, several outputs, several results of a tensor, odd
    characters.
    """
    cut = layer(
        1,
        "Split",
        [port(0, [4]), port(1, [], "I64")],
        [port(2, [2], names="left"), port(3, [2])],
        name="cut",
        num_splits=2,
    )
    axis = layer(
        2,
        "Const",
        outputs=[port(0, [], "I64")],
        name="axis",
        element_type="i64",
        shape="",
        offset=0,
        size=8,
    )
    layers = [
        parameter(0, [4], name="in", names=r"t,a\,b,c\d,e\\,f"),
        parameter(9, [-1], name="spare"),
        cut,
        axis,
    ]
    layers += [
        relu(3, name="rl"),
        result(4, name="r4"),
        result(5, name="r5"),
        result(6, name="r6", more=r' output_names="o1,o\,2"'),
    ]
    edges = [
        edge("0:0", "1:0"),
        edge("2:0", "1:1"),
        edge("1:2", "3:0"),
        edge("3:1", "4:0"),
        edge("1:3", "5:0"),
        edge("3:1", "6:0"),
    ]
    path = Net(layers, edges, version=version).save(tmp_path, bytes(8))
    model, _ = read_structure(path)
    again = tmp_path / "again.xml"
    uncork.write_model(model, again)
    first, second = as_openvino_reads(path, again)
    assert "error" not in first
    assert first["inputs"] == second["inputs"]
    assert [sorted(n) for n, *_ in first["outputs"]] == [sorted(n) for n, *_ in second["outputs"]]
    for position, (names, *_) in enumerate(first["inputs"]):
        assert set(names) <= set(model.names_of_input(position))
    for position, (names, *_) in enumerate(first["outputs"]):
        assert set(names) <= set(model.names_of_output(position)), position


def test_the_names_that_openvino_writes(tmp_path: Path, openvino: OpenVino) -> None:
    code = """
import sys
import numpy as np
import openvino
from openvino import opset13 as op
x = op.parameter([2, 4], np.float32, name="p,\\\\x")
x.output(0).set_names({"a,b", "c\\\\d", "e\\\\,f", "tail\\\\", "q\\"<>&'"})
spare = op.parameter(openvino.PartialShape.dynamic(), np.int64, name="spare")
model = openvino.Model([op.result(op.relu(x, name="r"), name="out")], [x, spare], "m")
openvino.save_model(model, sys.argv[1], compress_to_fp16=False)
"""
    path = tmp_path / "theirs.xml"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=120)
    model = uncork.read_model(path)
    assert set(model.by_id[model.parameters[0]].outputs[0].names) == {
        "a,b",
        "c\\d",
        "e\\,f",
        "tail\\",
        "q\"<>&'",
    }
    assert model.names_of_input(1) == ("spare",)
    assert model.by_id[model.parameters[1]].outputs[0].spec.rank is None
    uncork.write_model(model, tmp_path / "ours.xml")
    theirs, ours = as_openvino_reads(path, tmp_path / "ours.xml")
    assert theirs == ours
