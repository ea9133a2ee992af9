"""A model compiled straight from its file, on "AUTO"."""

import numpy as np
import openvino as ov
import openvino.opset8 as ops

x = ops.parameter([2], ov.Type.f32, name="x")
ov.serialize(ov.Model([ops.multiply(x, x)], [x], "square"), "square.xml")

config = {"INFERENCE_PRECISION_HINT": "f32"}
compiled = ov.compile_model("square.xml", "AUTO", config)
result = [compiled(np.array([3, 4], np.float32))[0]]
assert result[0].tolist() == [9, 16]
