"""Worked examples that onnxruntime answers otherwise, whatever the nodes; docs/export.md lists
them.
"""

from __future__ import annotations

#: Examples in which onnxruntime gives another answer, refuses or ends the process, whatever the
#: nodes: by what is special in them.
NAN = "onnxruntime's node does not pass a NaN on"
EMPTY = "onnxruntime's node does not take a tensor without elements"
ENDS = "onnxruntime ends the process"
WIDE = "onnxruntime computes with 64-bit integers in floating point"
OTHERWISE = {
    ("AdaptiveMaxPool", "a NaN wins"): NAN,
    ("MaxPool", "a NaN wins"): NAN,
    ("ReduceMax", "NaN wins"): NAN,
    ("RNNCell", "NaN goes through"): NAN,
    ("SegmentMax", "NaN is the maximum"): NAN,
    ("TopK", "a NaN is the largest"): NAN,
    ("TopK", "a NaN is the last of the smallest"): NAN,
    (
        "Unique",
        "NaN equals nothing, 0.0 and -0.0 are equal",
    ): "onnxruntime's Unique takes all NaN for one",
    ("GridSample", "a coordinate that is no number"): NAN,
    ("GridSample", "a coordinate that is no number, nearest"): NAN,
    ("GridSample", "a coordinate that is no number, bicubic"): NAN,
    ("GridSample", "no cells to read"): EMPTY,
    ("DeformableConvolution", "no channels"): EMPTY,
    ("DetectionOutput", "no priors"): EMPTY,
    ("AdaptiveMaxPool", "no images"): EMPTY,
    (
        "AvgPool",
        "a window with no cell at all gives 0",
    ): "onnxruntime wants pads that are smaller than the kernel",
    ("AvgPool", "nothing to slide over with same_upper"): EMPTY,
    ("MaxPool", "nothing to slide over"): EMPTY,
    (
        "MaxPool",
        "the data's own -inf wins over padding",
    ): "onnxruntime's MaxPool has the lowest finite number for -infinity",
    (
        "MaxPool",
        "windows that lie in padding",
    ): "onnxruntime's MaxPool has the lowest finite number for -infinity",
    ("Col2Im", "no channels"): EMPTY,
    ("DFT", "an axis without cells filled up"): EMPTY,
    ("RDFT", "an axis without cells"): EMPTY,
    ("DFT", "f64"): "1e284 of 1e300 is nothing",
    (
        "Divide",
        "nothing is divided",
    ): "onnxruntime refuses a constant divisor of 0 before there is anything to divide",
    ("GroupNormalization", "empty"): EMPTY,
    ("Reshape", "an empty batch keeps its width"): EMPTY,
    ("ReduceMax", "over nothing"): EMPTY,
    ("ReduceMax", "over nothing, integers"): EMPTY,
    ("ReduceMin", "over nothing"): EMPTY,
    ("ReduceMin", "over nothing, integers"): EMPTY,
    ("ReduceMean", "empty integers"): EMPTY,
    ("ReduceLogicalAnd", "over nothing"): EMPTY,
    ("ReduceLogicalOr", "over nothing"): EMPTY,
    ("Split", "empty parts"): EMPTY,
    ("Pad", "nothing left"): EMPTY,
    (
        "Pad",
        "page: mixed, reflect",
    ): "pads that are computed, and mirror beside others that take away",
    (
        "Slice",
        "backwards from before the start",
    ): "a step that is computed: Python's rule differs from ONNX's there",
    ("GRUCell", "no rows"): ENDS,
    ("GRUSequence", "no rows"): ENDS,
    ("LSTMSequence", "no rows"): ENDS,
    ("Unique", "empty slices are equal"): ENDS,
    ("Range", "64-bit integers are exact"): WIDE,
    ("Range", "u64 downwards"): WIDE,
    ("ReduceSum", "i64 in full width"): WIDE,
    ("ReduceProd", "wraps"): WIDE,
}
