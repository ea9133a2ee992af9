"""Models written, exactly or with constants of f16, and read again."""

import os

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([1, 64], np.float32, name="x")
w = ops.constant(np.random.default_rng(3).normal(size=(64, 64)).astype(np.float32), name="w")
model = ov.Model([ops.matmul(x, w, False, False)], [x], "product")
ov.serialize(model, "exact.xml", "weights.bin")
ov.save_model(model, "halves.xml")
ov.save_model(model, "whole.xml", compress_to_fp16=False)
sizes = [os.path.getsize(p) for p in ("weights.bin", "halves.bin", "whole.bin")]
core = ov.Core()
ones = np.ones((1, 64), np.float32)
result = []
for path, weights in (("exact.xml", "weights.bin"), ("halves.xml", None), ("whole.xml", None)):
    read = core.read_model(path, weights) if weights else core.read_model(path)
    result.append(core.compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(ones)[0])
np.testing.assert_allclose(result[0], w.data.sum(0, keepdims=True), rtol=1e-4, atol=1e-5)
assert abs(result[1] - result[0]).max() > 0  # the constants were rounded
assert sizes[0] >= 64 * 64 * 4 > sizes[1] >= 64 * 64 * 2
