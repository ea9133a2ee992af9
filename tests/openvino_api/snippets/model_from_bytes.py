"""A model from the contents of its files."""

import io

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([2], np.float32, name="x")
shift = ops.constant(np.array([10, 20], np.float32))
ov.save_model(ov.Model([ops.add(x, shift)], [x], "shift"), "shift.xml", compress_to_fp16=False)
with open("shift.xml", "rb") as file:
    xml = file.read()
with open("shift.bin", "rb") as file:
    weights = file.read()
core = ov.Core()
result = []
for model in (
    core.read_model(xml, weights),
    core.read_model(model=io.BytesIO(xml), weights=io.BytesIO(weights)),
    core.read_model(xml.decode(), ov.Tensor(np.frombuffer(weights, np.uint8))),
):
    result.append(core.compile_model(model, "CPU")(np.array([1, 2], np.float32))[0])
assert all(values.tolist() == [11, 22] for values in result)
