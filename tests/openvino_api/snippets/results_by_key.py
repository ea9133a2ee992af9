"""Results by output, by name, by position."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([4], np.float32, name="x")
best = ops.topk(x, np.int64(2), 0, "max", "value")
best.output(0).set_names({"values"})
best.output(1).set_names({"places"})
model = ov.Model([best.output(0), best.output(1)], [x], "best")
compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
results = compiled({"x": np.array([5, 7, 6, 1], np.float32)})
assert results["values"].tolist() == [7, 6] and results["places"].tolist() == [1, 2]
assert results[compiled.output("places")] is results[1]
assert [port.any_name for port in results] == ["values", "places"]
assert "values" in results and len(results.to_dict()) == 2
values, places = results.values()
result = [values, places, results.to_tuple(), [sorted(n) for n in results.names()]]
try:
    results["nothing"]
except KeyError:
    result.append("no such name")
