"""Tensors of texts."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

texts = ops.parameter([-1], ov.Type.string, name="texts")
model = ov.Model([ops.gather(texts, np.array([1, 0]), np.int64(0))], [texts], "swap")
compiled = ov.compile_model(model, "CPU")
tensor = ov.Tensor(np.array(["a", "bcd"]))
tensor.str_data = np.array(["x", "yöz"])
result = [
    compiled([np.array(["one", "two"])])[0],
    compiled(np.array(["one", "two"]), decode_strings=False)[0],
    tensor.str_data,
    tensor.bytes_data,
    list(tensor.shape),
]
assert result[0].tolist() == ["two", "one"] and result[1].tolist() == [b"two", b"one"]
