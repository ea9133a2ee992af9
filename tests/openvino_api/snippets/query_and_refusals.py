"""Which layers a device runs, and what cannot be."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([1], np.float32, name="x")
model = ov.Model([ops.relu(x, name="relu")], [x], "asked")
core = ov.Core()
devices = core.query_model(model, "CPU")
result = [devices["relu"], devices["x"]]
for call in (
    lambda: core.compile_model(model, "NPU"),
    lambda: core.read_model("no/such/model.xml"),
    lambda: core.compile_model(model, "CPU")({"y": np.ones(1, np.float32)}),
    lambda: core.compile_model(model, "CPU")(np.ones(2, np.float32)),
    lambda: model.input("y"),
    lambda: model.output(3),
    lambda: ops.add(x, ops.constant(np.ones(3, np.int64))),
):
    try:
        call()
        result.append("taken")
    except (RuntimeError, IndexError):
        result.append("refused")
assert result[2:] == ["refused"] * 7
