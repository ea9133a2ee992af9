"""What a model takes and gives."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

ids = ops.parameter([-1], np.int64, name="ids")
scale = ops.parameter([], np.float32, name="scale")
scaled = ops.multiply(ops.convert(ids, "f32"), scale, name="scaled")
scaled.output(0).set_names({"scaled", "out"})
model = ov.Model([scaled], [ids, scale], "ports")

result = []
for port in (*model.inputs, *model.outputs):
    result.append((port.any_name, sorted(port.names), str(port.partial_shape)))
    result.append((port.get_any_name(), port.element_type.to_string(), port.get_index()))
assert model.input("ids").element_type == ov.Type.i64
assert model.output("out") == model.output(0) == model.outputs[0]
assert model.input(1).shape == [] and model.input("ids").partial_shape.is_dynamic
assert model.output().get_names() == {"scaled", "out"}
