"""Tensors: copied, shared, of a type and a shape."""

import numpy as np
import openvino as ov

array = np.arange(6, dtype=np.float32).reshape(2, 3)
copied, shared = ov.Tensor(array), ov.Tensor(array, shared_memory=True)
array[0, 0] = 9
assert copied.data[0, 0] == 0 and shared.data[0, 0] == 9
shared.data[1, 2] = -1
assert array[1, 2] == -1
made = ov.Tensor(ov.Type.i64, ov.Shape([2, 2]))
made.data[:] = 3
part = ov.Tensor(copied, [1, 0], [2, 3])
other = ov.Tensor(np.float32, [1])
shared.copy_to(other)
made.shape = [1, 2]
result = [
    copied.data, list(copied.shape), copied.size, copied.byte_size, list(copied.strides),
    copied.element_type.to_string(), copied.is_continuous(), made.data.shape, part.data,
    other.data, repr(copied), ov.Tensor([1, 2]).element_type.to_string(),
    ov.Tensor(np.zeros(3, np.uint8), [2, 3], ov.Type.u4).shape.to_string(),
]  # fmt: skip
assert part.data.tolist() == [[3, 4, 5]]
