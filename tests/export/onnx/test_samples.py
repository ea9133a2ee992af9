"""The worked examples of every operation, exported and run by onnxruntime: the answers are those of the specification."""

from __future__ import annotations

import numpy as np
import pytest

import uncork
from tests.test_every_op import ALL, agree
from uncork.errors import UnsupportedError, ValidationError
from uncork.export.onnx.registry import lowerings
from uncork.ops import Operation
from uncork.types import ElementType

from ._run import one_layer, run

onnx = pytest.importorskip("onnx")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

#: Examples in which onnxruntime gives another answer, refuses or ends the process, whatever the nodes: by what is special in them.
NAN = "onnxruntime's node does not pass a NaN on"
EMPTY = "onnxruntime's node does not take a tensor without elements"
ENDS = "onnxruntime ends the process"
DOUBLE = "onnxruntime has no such node of f64"
WIDE = "onnxruntime computes with 64-bit integers in floating point"
OTHERWISE = {
    ("AdaptiveMaxPool", "a NaN wins"): NAN,
    ("MaxPool", "a NaN wins"): NAN,
    ("ReduceMax", "NaN wins"): NAN,
    ("RNNCell", "NaN goes through"): NAN,
    ("SegmentMax", "NaN is the maximum"): NAN,
    ("TopK", "a NaN is the largest"): NAN,
    ("TopK", "a NaN is the last of the smallest"): NAN,
    ("AdaptiveMaxPool", "no images"): EMPTY,
    ("AvgPool", "a window with no cell at all gives 0"): "onnxruntime wants pads that are smaller than the kernel",
    ("AvgPool", "nothing to slide over with same_upper"): EMPTY,
    ("MaxPool", "nothing to slide over"): EMPTY,
    ("MaxPool", "the data's own -inf wins over padding"): "onnxruntime's MaxPool has the lowest finite number for -infinity",
    ("MaxPool", "windows that lie in padding"): "onnxruntime's MaxPool has the lowest finite number for -infinity",
    ("Col2Im", "no channels"): EMPTY,
    ("DFT", "an axis without cells filled up"): EMPTY,
    ("RDFT", "an axis without cells"): EMPTY,
    ("DFT", "f64"): "1e284 of 1e300 is nothing",
    ("Divide", "nothing is divided"): "onnxruntime refuses a constant divisor of 0 before there is anything to divide",
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
    ("Pad", "page: mixed, reflect"): "pads that are computed, and mirror beside others that take away",
    ("Slice", "backwards from before the start"): "a step that is computed: Python's rule differs from ONNX's there",
    ("GRUCell", "no rows"): ENDS,
    ("GRUSequence", "no rows"): ENDS,
    ("LSTMSequence", "no rows"): ENDS,
    ("Unique", "empty slices are equal"): ENDS,
    ("RNNCell", "the sigmoid of a large number is right at both ends"): DOUBLE,
    ("RNNSequence", "f64 is f64"): DOUBLE,
    ("Erf", "f64"): DOUBLE,
    ("Range", "64-bit integers are exact"): WIDE,
    ("Range", "u64 downwards"): WIDE,
    ("ReduceSum", "i64 in full width"): WIDE,
    ("ReduceProd", "wraps"): WIDE,
}
#: Operations of which no example can be exported: their numbers are random, or they speak of types that ONNX does not have.
NONE_EXPORTED = {"RandomUniform", "Multinomial"}


@pytest.mark.parametrize("operation", [o for o in ALL if o.type_name in lowerings()], ids=lambda o: o.label())
def test_examples(operation: type[Operation]) -> None:
    entry, exported, different = ALL[operation], 0, []
    for sample in entry.samples:
        if (operation.type_name, sample.name) in OTHERWISE:
            continue
        values, types = sample.expected
        if any(not t.is_native and t is not ElementType.string for t in types):
            continue
        for constants, dynamic in ((False, False), (True, False), (True, True)):
            try:
                made = one_layer(operation, sample.case, constants, dynamic)
                proto = None if made is None else uncork.to_onnx(made[0])
            except (UnsupportedError, ValidationError):
                continue
            if made is None or proto is None:
                continue
            exported += 1
            try:
                for position, (got, value, element_type) in enumerate(zip(run(proto, made[1]), values, types)):
                    what = f"output {position}"
                    if element_type is ElementType.string:
                        np.testing.assert_array_equal(got.astype(str), value.astype(str), what)
                    else:
                        agree(got, value, element_type, max(sample.rtol, 2e-4), max(sample.atol, 1e-5), what)
            except Exception as error:  # whatever onnxruntime raises: all examples are listed
                different.append(f"{sample.name} ({constants=}, {dynamic=}): {error}")
    assert not different, "\n".join(different)
    assert exported or operation.type_name in NONE_EXPORTED, "not one example was exported"
