"""Layouts said of ports, the batch they name, and the layers of a call without their times."""

import numpy as np
import openvino as ov
from openvino import layout_helpers
from openvino import opset13 as ops

image = ops.parameter([1, 3, 8, 8], np.float32, name="image")
model = ov.Model([ops.relu(image)], [image], "layouts")
assert str(layout_helpers.get_layout(model.input(0))) == "[...]"
layout_helpers.set_layout(model.input(0), ov.Layout("NCHW"))
layout_helpers.set_layout(model.output(0), ov.Layout("NC??"))
assert str(layout_helpers.get_layout(model.output(0))) == "[N,C,?,?]"
before = ov.get_batch(model)
ov.set_batch(model, 4)
compiled = ov.compile_model(model, "CPU")
request = compiled.create_infer_request()
request.infer([np.ones((4, 3, 8, 8), np.float32)])
told = request.profiling_info
assert told and all(one.status == ov.ProfilingInfo.Status.NOT_RUN for one in told)
strides = ov.Tensor(np.ones((2, 3), np.float32)).strides
result = [str(before), str(model.input(0).partial_shape), list(strides), told[0].real_time]
