"""What a model gives, as another type and layout."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.preprocess import PrePostProcessor

x = ops.parameter([1, 3, 2, 2], np.float32, name="x")
y = ops.multiply(x, np.float32(2))
y.output(0).set_names({"y"})
model = ov.Model([y], [x], "double")
ppp = PrePostProcessor(model)
ppp.output("y").model().set_layout(ov.Layout("NCHW"))
ppp.output("y").tensor().set_element_type(ov.Type.i32).set_layout(ov.Layout("NHWC"))
ppp.output().postprocess().convert_element_type()
model = ppp.build()
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
numbers = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2)
result = [compiled(numbers)["y"], str(model.output().partial_shape)]
assert result[0].dtype == np.int32
assert (result[0] == (2 * numbers).transpose(0, 2, 3, 1)).all()
