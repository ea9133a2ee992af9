"""Layers, what they read and who reads them."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([2, 3], np.float32, name="x")
w = ops.constant(np.arange(6, dtype=np.float32).reshape(3, 2), name="w")
product = ops.matmul(x, w, False, False, name="product")
model = ov.Model([ops.relu(product, name="positive")], [x], "nodes")

result = [
    [(n.get_type_name(), n.get_friendly_name()) for n in model.get_ordered_ops()[:-1]],
    sorted(n.get_type_name() for n in model.get_ops()),
    product.get_attributes(),
    w.get_attributes(),
    w.data,
    product.input_value(1).get_node().get_friendly_name(),
    product.input(0).get_source_output().get_node() is not None,
    [t.get_node().get_friendly_name() for t in product.output(0).get_target_inputs()],
    product.get_input_size(), product.get_output_size(), list(product.get_output_shape(0)),
    product.get_output_element_type(0).to_string(), list(product.shape), str(product.input(1)),
    len(product.inputs()), len(product.outputs()), len(product.input_values()),
    product.get_type_info().name, product.type_info.version_id,
    model.get_parameters()[0].get_friendly_name(), len(model.get_results()),
    model.get_results()[0].input_value(0).get_node().get_friendly_name(),
]  # fmt: skip
product.set_friendly_name("renamed")
result.append(product.friendly_name)
assert result[0] == [
    ("Parameter", "x"), ("Constant", "w"), ("MatMul", "product"), ("Relu", "positive")
]  # fmt: skip
assert result[2] == {"transpose_a": False, "transpose_b": False}
