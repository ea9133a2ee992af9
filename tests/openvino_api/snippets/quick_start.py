"""Read, compile, call."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

data = ops.parameter([-1, 4], np.float32, name="data")
probabilities = ops.softmax(data, 1, name="probabilities")
ov.save_model(ov.Model([probabilities], [data], "classes"), "model.xml")

core = ov.Core()
model = core.read_model("model.xml")
compiled_model = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
input_data = np.array([[1.0, 2.0, 3.0, 4.0]], np.float32)
results = compiled_model([input_data])
output = results[compiled_model.output(0)]
assert output.argmax() == 3
np.testing.assert_allclose(output.sum(), 1, rtol=1e-6)
result = [output, results[0], len(results), model.get_friendly_name()]
