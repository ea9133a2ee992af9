"""Element types by themselves."""

import numpy as np
import openvino as ov

kinds = [ov.Type.f32, ov.Type.f16, ov.Type.i64, ov.Type.u8, ov.Type.i4, ov.Type.boolean]
result = [(k.to_string(), str(k.to_dtype()), k.size, k.bitwidth, k.is_real()) for k in kinds]
result += [repr(ov.Type(np.int32)), ov.Type(np.float64) == ov.Type.f64, ov.Type.dynamic.is_static()]
result += [ov.Type.f32.merge(ov.Type.dynamic) == ov.Type.f32, ov.Type.i8.is_signed()]
assert result[0] == ("f32", "float32", 4, 32, True)
