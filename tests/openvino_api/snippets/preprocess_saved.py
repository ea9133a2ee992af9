"""Preprocessing is saved with the model."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.preprocess import PrePostProcessor

x = ops.parameter([1, 2], np.float32, name="x")
ppp = PrePostProcessor(ov.Model([ops.tanh(x)], [x], "tanh"))
ppp.input().tensor().set_element_type(ov.Type.u8)
ppp.input().preprocess().convert_element_type(ov.Type.f32).scale(255.0)
ov.save_model(ppp.build(), "with_steps.xml", compress_to_fp16=False)
compiled = ov.compile_model("with_steps.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
result = [compiled(np.array([[0, 255]], np.uint8))[0], compiled.input().element_type.to_string()]
np.testing.assert_allclose(result[0], [[0, np.tanh(1)]], rtol=1e-5)
