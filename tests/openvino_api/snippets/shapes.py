"""Shapes and dimensions by themselves."""

import openvino as ov

shape = ov.PartialShape([1, -1, ov.Dimension(2, 8)])
shape[1] = 3
result = [
    str(shape), shape.is_dynamic, str(shape.rank), len(shape), str(shape[2]),
    shape.get_min_shape().to_string(), shape.get_max_shape().to_string(),
    ov.PartialShape("1,?,2..8") == ov.PartialShape([1, -1, (2, 8)]),
    shape.compatible(ov.PartialShape([1, 3, 5])), shape.refines(ov.PartialShape([-1, 3, -1])),
    shape.relaxes(ov.PartialShape([1, 3, 2])), shape.same_scheme(ov.PartialShape([1, 3, -1])),
    str(ov.PartialShape.dynamic()), str(ov.PartialShape.dynamic(2)),
    ov.PartialShape([2, 3]).to_shape() == [2, 3], ov.Shape([4, 5])[1], list(ov.Shape((6, 7))),
    ov.Dimension(3).get_length(), str(ov.Dimension()), ov.Dimension(2, 5).max_length,
    ov.Dimension(4) == 4, str(ov.Dimension("2..")), ov.Dimension(3).refines(ov.Dimension(1, 4)),
]  # fmt: skip
assert result[0] == "[1,3,2..8]" and result[5] == "[1,3,2]"
