"""If, Loop and TensorIterator, put together."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

config = {"INFERENCE_PRECISION_HINT": "f32"}
ones = np.ones((1, 2), np.float32)


def body_of(function, name):
    """A body of one parameter."""
    given = ops.parameter([1, 2], np.float32, name=name)
    return given, ov.Model([ops.result(function(given))], [given], name)


x = ops.parameter([1, 2], np.float32, name="x")
wanted = ops.parameter([], bool, name="wanted")
choice = ops.if_op(wanted.output(0))
then_parameter, then_body = body_of(lambda p: ops.add(p, p), "then")
else_parameter, else_body = body_of(ops.negative, "else")
choice.set_then_body(then_body)
choice.set_else_body(else_body)
choice.set_input(x.output(0), then_parameter, else_parameter)
chosen = choice.set_output(then_body.get_results()[0], else_body.get_results()[0])
model = ov.Model([ops.result(chosen)], [x, wanted], "choice")
compiled = ov.compile_model(model, "CPU", config)
result = [compiled({"x": ones, "wanted": np.array(flag)})[0] for flag in (True, False)]
assert result[0].tolist() == [[2, 2]] and result[1].tolist() == [[-1, -1]]

start = ops.parameter([1, 2], np.float32, name="start")
carried = ops.parameter([1, 2], np.float32, name="carried")
doubled = ops.add(carried, carried)
goes_on = ops.constant(np.array(True))
turn = ov.Model([ops.result(goes_on), ops.result(doubled)], [carried], "turn")
loop = ops.loop(ops.constant(np.array(3)).output(0), ops.constant(np.array(True)).output(0))
loop.set_function(turn)
loop.set_special_body_ports([-1, 0])
loop.set_merged_input(carried, start.output(0), doubled.output(0))
last = loop.get_iter_value(doubled.output(0), -1)
every = loop.get_concatenated_slices(doubled.output(0), 0, 1, 1, -1, 0)
model = ov.Model([ops.result(last), ops.result(every)], [start], "powers")
results = ov.compile_model(model, "CPU", config)(ones)
result += [results[0], results[1], list(last.shape), list(every.shape)]
assert results[0].tolist() == [[8, 8]] and results[1].tolist() == [[2, 2], [4, 4], [8, 8]]

rows = ops.parameter([4, 2], np.float32, name="rows")
factor = ops.parameter([1, 2], np.float32, name="factor")
row, own = (ops.parameter([1, 2], np.float32, name=n) for n in ("row", "own"))
product = ops.multiply(row, own)
iterator = ops.tensor_iterator()
iterator.set_body(ov.Model([ops.result(product)], [row, own], "product"))
iterator.set_sliced_input(row, rows.output(0), 0, 1, 1, -1, 0)
iterator.set_invariant_input(own, factor.output(0))
joined = iterator.get_concatenated_slices(product.output(0), 0, 1, 1, -1, 0)
model = ov.Model([ops.result(joined)], [rows, factor], "rows")
ov.save_model(model, "rows.xml", compress_to_fp16=False)
compiled = ov.compile_model("rows.xml", "CPU", config)
result.append(compiled([np.arange(8, dtype=np.float32).reshape(4, 2), ones * 2])[0])
assert result[-1].tolist() == [[0, 2], [4, 6], [8, 10], [12, 14]]
