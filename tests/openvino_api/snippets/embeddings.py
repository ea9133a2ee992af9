"""Tables, bags and sequences: what recommenders are made of."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

rng = np.random.default_rng(4)
table = ops.constant(rng.normal(size=(10, 4)).astype(np.float32))
ids = ops.parameter([-1], np.int64, name="ids")
offsets = ops.parameter([-1], np.int64, name="offsets")
bags = ops.embedding_bag_offsets_sum(table, ids, offsets, name="bags")
rows = ops.unsqueeze(ops.gather(table, ids, np.int64(0)), np.array([0]))
w, r = (ops.constant(rng.normal(size=(1, 12, 4)).astype(np.float32)) for _ in range(2))
b = ops.constant(np.zeros((1, 12), np.float32))
state = ops.constant(np.zeros((1, 1, 4), np.float32))
length = ops.reshape(ops.shape_of(ids), np.array([1]), False)
sequence = ops.gru_sequence(rows, state, length, w, r, b, 4, "forward")
model = ov.Model([bags.output(0), sequence.output(1)], [ids, offsets], "tables")
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
results = compiled([np.array([1, 4, 2]), np.array([0, 2])])
result = [results[0], results[1]]
np.testing.assert_allclose(results[0][0], table.data[1] + table.data[4], rtol=1e-6)
