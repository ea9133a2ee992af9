"""A layer put between others."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([3], np.float32, name="x")
middle = ops.abs(x, name="middle")
last = ops.exp(middle, name="last")
model = ov.Model([last], [x], "changed")
node = next(n for n in model.get_ordered_ops() if n.get_friendly_name() == "middle")
clamped = ops.clamp(node, 0.0, 1.0, name="clamped")
last.input(0).replace_source_output(clamped.output(0))
model.validate_nodes_and_infer_types()
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
result = [compiled(np.array([-5, 0, 0.5], np.float32))[0]]
np.testing.assert_allclose(result[0], np.exp([1, 0, 0.5]), rtol=1e-5)
result.append([n.get_friendly_name() for n in model.get_ordered_ops()][1:4])
