"""Compiled models that go to a file and come back, as OpenVINO's programs cache them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
import uncork.openvino as ov
from uncork.openvino import opset13 as ops


def model() -> ov.Model:
    x = ops.parameter([2, 3], np.float32, name="x")
    y = ops.relu(ops.add(x, ops.constant(np.float32([1, -2, 3]))))
    return ov.Model([y], [x], "small")


def test_a_compiled_model_comes_back(tmp_path: Path) -> None:
    core = ov.Core()
    compiled = core.compile_model(model(), "CPU")
    data = compiled.export_model()
    x = np.float32([[-1, 1, 0], [4, 4, -4]])
    wanted = np.maximum(x + np.float32([1, -2, 3]), 0)
    stream = io.BytesIO()
    compiled.export_model(stream)
    path = tmp_path / "small.uncork"
    path.write_bytes(data)
    for given in (data, io.BytesIO(stream.getvalue()), path, str(path)):
        again = core.import_model(given, "CPU")
        np.testing.assert_array_equal(again([x])[0], wanted)
        assert again.input(0).any_name == compiled.input(0).any_name
    np.testing.assert_array_equal(core.compile_model(path, "CPU")([x])[0], wanted)
    request = core.import_model(data).create_infer_request()
    np.testing.assert_array_equal(request.infer([x])[0], wanted)
    np.testing.assert_array_equal(uncork.load(path)(x)[0], wanted)


def test_what_is_no_compiled_model() -> None:
    core = ov.Core()
    with pytest.raises(RuntimeError, match="is no compiled model"):
        core.import_model(b"nothing", "CPU")
    with pytest.raises(TypeError, match="expected a path, bytes"):
        core.import_model(7, "CPU")
