"""What a file says beside its layers."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([1], np.float32, name="x")
model = ov.Model([ops.relu(x)], [x], "informed")
model.set_rt_info("cat dog", ["model_info", "labels"])
model.set_rt_info(0.5, ["model_info", "confidence_threshold"])
model.set_rt_info("test", "purpose")
ov.save_model(model, "informed.xml")
again = ov.Core().read_model("informed.xml")
result = [
    again.get_rt_info(["model_info", "labels"]).value,
    again.get_rt_info(["model_info", "labels"]).astype(str).split(),
    float(again.get_rt_info(["model_info", "confidence_threshold"]).astype(float)),
    again.has_rt_info(["model_info", "labels"]), again.has_rt_info(["model_info", "colours"]),
    again.has_rt_info("purpose"), again.get_rt_info("purpose").astype(str),
    "model_info" in [key for key, _ in again.rt_info.items()],
]  # fmt: skip
assert result[1] == ["cat", "dog"] and result[2] == 0.5
