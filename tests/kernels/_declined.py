"""The samples that no kernel computes, and why: the reference computes them.

A sample that is not here is computed by a kernel, or is its input in another shape. The test of the
samples fails when either changes: take a line out when a kernel comes, and say why when one goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: What the test says of values that were given to a kernel, which gave up.
REFUSED = "the kernel refuses the values"

#: Operations: the reason, by which names of samples stand.
_DECLINED: Mapping[tuple[str, ...], Mapping[str, Sequence[str]]] = {
    (
        "AvgPool-1",
        "AvgPool-14",
        "AvgPool-16",
    ): {
        "no kernel for i32": ["integers: the nearest, halves to even"],
        "no kernel for u8": ["u8 is summed wide"],
        "no kernel for i64": ["i64 is exact"],
    },
    ("AdaptiveAvgPool-8", "AdaptiveMaxPool-8"): {
        # The reference refuses windows over nothing: kernels know only images with cells.
        "no cells to look at": ["no windows"],
    },
    ("DFT-7",): {
        "no kernel without axes": ["no axes"],
        "no kernel for empty tensors": ["an axis without cells"],
    },
    ("RDFT-9",): {
        "no kernel for empty tensors": ["no rows"],
        "no kernel for axes of 0": ["an axis without cells"],
    },
    ("IRDFT-9",): {"no kernel for empty tensors": ["one number is none"]},
    ("STFT-15",): {"no kernel for empty tensors": ["no signals"]},
    ("ISTFT-16",): {"no kernel for empty tensors": ["no length"]},
    ("FakeQuantize-1",): {
        "no kernel for pdpd broadcasting": ["pdpd from the channels on"],
    },
    ("Sin-1",): {
        "no kernel for i32": ["integers"],
    },
    ("DetectionOutput-1", "DetectionOutput-8"): {
        "no kernel for boxes of each class or classes of each box": [
            "boxes of each class",
            "as in MXNet: the best class of each box, numbered from 0",
            "as in MXNet: the best two of all, from the threshold up",
        ],
        "no kernel for two stages": [
            "priors moved first, and boxes that are no objects",
            "five inputs in pixels",
        ],
    },
    ("DetectionOutput-1",): {
        "no kernel for numbers of boxes that only the call knows": ["no priors"],
    },
    ("PriorBox-1", "PriorBox-8"): {
        "no kernel for boxes that are counted in another way than made": [
            "fixed ratios: the last box is cut off",
            "more boxes counted than made: zeros",
        ],
    },
    ("PSROIPooling-1",): {
        "no kernel for bilinear": [
            "bilinear: the middle",
            "bilinear: from corner to corner",
            "bilinear: the mean of the parts",
            "bilinear: outside adds 0",
            "the page's example, smaller",
        ],
    },
    ("GridSample-9",): {
        "no kernel for i64 at places of f32": [
            "i64 by the nearest is exact",
            "a NaN coordinate in integers",
        ],
        "no kernel for u8 at places of f32": ["u8: halves to even"],
        "no cells to look at": ["no cells to read"],
    },
    ("Interpolate-1",): {
        "no kernel for pads": ["one number pads every axis"],
    },
    ("Interpolate-4",): {
        "no kernel for pads": [
            "padding comes first",
            "pads of axes that stay, and shorter than the rank",
        ],
        "no kernel for u8": ["u8 by linear_onnx is computed in f32"],
    },
    ("Interpolate-11",): {
        "no kernel for pads": [
            "padding comes first",
            "pads of axes that stay, and shorter than the rank",
        ],
        "no kernel for u8": ["u8 by linear_onnx is computed in f32", "bilinear_pillow of u8"],
    },
    ("Add-1",): {
        "no kernel for pdpd broadcasting": [
            "pdpd: b stretches to a",
            "pdpd: from axis 0 on",
            "pdpd: axis 0 of rank 3",
            "pdpd: a 1 that sticks out",
            "pdpd: scalar",
        ],
    },
    ("DeformableConvolution-1", "DeformableConvolution-8"): {
        "no kernel for i64": ["integers have whole offsets"],
        "no kernel for empty tensors": ["no images", "no channels"],
    },
    ("ErfInv-17",): {"no kernel for f64": ["f64, at the very end"]},
    ("Power-1",): {
        "no kernel for such powers of i64": ["integers", "negative exponents of integers"],
        "no kernel for such powers of u64": ["integers wrap, exactly"],
    },
    (
        "Broadcast-3",
        "Broadcast-1",
    ): {
        "no kernel for explicit axes": [
            "page example 2: explicit",
            "page example 3: explicit, two axes",
            "explicit: a scalar",
            "explicit: 1 stretches",
        ],
        "no kernel for strings": ["strings"],
    },
    ("Equal-1",): {
        "no kernel for strings": ["strings"],
        "no kernel for nf4": ["nf4 by value"],
    },
    ("Less-1",): {
        "no kernel for strings": ["strings by code points"],
    },
    (
        "Concat-1",
        "GatherElements-6",
        "GatherND-8",
        "GatherND-5",
        "Identity-16",
        "OneHot-1",
        "OneHot-16",
        "Reverse-1",
        "ReverseSequence-1",
        "Roll-7",
        "ScatterElementsUpdate-3",
        "ScatterElementsUpdate-12",
        "ScatterNDUpdate-4",
        "ScatterNDUpdate-15",
        "ScatterUpdate-3",
        "ShuffleChannels-1",
        "Split-1",
        "VariadicSplit-1",
        "Tile-1",
        "Transpose-1",
    ): {
        "no kernel for strings": ["strings"],
    },
    (
        "Convert-1",
        "ConvertLike-1",
    ): {
        "no kernel from f32 to u64": ["beyond u64", "just below 2**64"],
        "no kernel from boolean to u1": ["boolean to u1"],
        "no kernel from i32 to u4": ["to u4"],
        "no kernel from i32 to i4": ["to i4"],
        "no kernel from i32 to u1": ["to u1"],
        "no kernel from i32 to u6": ["to u2, u4, u6 by hand: u6"],
        "no kernel from f32 to f8e4m3": ["f32 to f8e4m3"],
        "no kernel from f32 to f8e5m2": ["f32 to f8e5m2"],
        "no kernel from f8e5m2 to f16": ["f8e5m2 to f16"],
        "no kernel from nf4 to f32": ["nf4 to f32"],
    },
    ("Convolution-1",): {
        "no kernel for i8": ["i8 wraps"],
        "no kernel for i64": ["i64 beyond f64"],
        "no kernel for empty tensors": [
            "no images",
            "no channels",
            "nothing to slide over with same_upper",
        ],
    },
    ("ConvolutionBackpropData-1",): {
        "no kernel for empty tensors": ["output_shape of nothing", "no images", "no channels"],
        "no kernel for u8": ["u8 wraps"],
    },
    ("Einsum-7",): {
        "no kernel for other than two operands, one of them a constant": [
            "page example 3: traces",
            "page example 4: diagonals",
            "page example 5: transposed",
            "page example 6: an ellipsis",
            "page example 8: implicit, capitals first",
            "implicit: the ellipsis first",
            "an ellipsis that is left out is summed",
        ],
        "no kernel for diagonals, dimensions that stretch and sums of one operand": [
            "page example 7: two operands stretch",
            "page: implicit, repeated labels are summed",
            "a label of size 1 stretches",
        ],
        "no kernel for empty tensors": ["nothing"],
        "no kernel for u8": ["u8 wraps"],
    },
    ("Col2Im-15",): {"no kernel for i8": ["i8 wraps"]},
    ("EmbeddingSegmentsSum-3",): {
        "rows without elements": ["rows of no elements", "many segments of no elements"],
    },
    ("Gather-8",): {
        "no kernel writes the number 0 of nf4, whose code is 7": ["zeros of nf4 are no codes of 0"],
        "no kernel for strings": ["strings out of range are empty"],
    },
    (
        "GRUSequence-5",
        "LSTMSequence-1",
        "LSTMSequence-5",
        "RNNSequence-5",
    ): {
        "no kernel for f16": ["f16 carries the state in f32 and rounds once"],
        "no kernel for bf16": ["bf16 carries the state in f32 and rounds once"],
    },
    ("LSTMCell-1",): {"no kernel for coupled gates": ["input_forget couples the gates"]},
    ("LSTMSequence-1",): {"no kernel for coupled gates": ["input_forget"]},
    ("MatMul-1",): {
        "no kernel for empty matrices": ["an empty sum is 0"],
        "no kernel for i8": ["i8 wraps"],
        "no kernel for i64": ["i64 in full width"],
        "no kernel for f16": ["f16 adds in f32"],
    },
    ("Pad-12",): {
        "no kernel writes the number 0 of nf4, whose code is 7": ["nf4 by default"],
        "the reference moves values of these types only": [
            "page: negative pads, edge",
            "page: negative pads, reflect",
            "page: negative pads, symmetric",
            "page: mixed, edge",
            "page: mixed, reflect",
            "page: mixed, symmetric",
        ],
        "no kernel for strings": ["strings", "strings by default"],
    },
    ("Pad-1",): {
        "no kernel writes the number 0 of nf4, whose code is 7": ["nf4 by default"],
        "no kernel for strings": ["strings", "strings by default"],
    },
    ("ReduceMean-1",): {
        "no kernel for i8": ["integers are cut towards zero, the sum is exact"],
        "no kernel for i64": ["i64 in full width"],
        "no kernel for i32": ["empty integers"],
    },
    ("ReduceL1-4",): {
        "no kernel for no axes": ["no axes"],
    },
    ("ReduceL2-4",): {
        "no kernel for no axes": ["no axes"],
        "no kernel for i8": ["integers, rounded to the nearest", "integers that wrap"],
    },
    ("Select-1",): {
        "no kernel for pdpd broadcasting": ["pdpd stretches to then", "pdpd from an axis"],
        "no kernel for strings": ["strings"],
    },
    ("ShapeOf-1",): {
        "the result has elements that come from no input": ["four dimensions", "4-bit values"],
        "no kernel for strings": ["strings"],
    },
    ("ShapeOf-3",): {
        "the result has elements that come from no input": [
            "four dimensions",
            "4-bit values",
            "i32",
        ],
        "no kernel for strings": ["strings"],
    },
    ("Slice-8",): {
        "no kernel for strings": ["strings"],
    },
    ("SliceScatter-15",): {
        "the reference moves values of these types only": [
            "page example 3: two axes",
            "backwards",
            "an empty slice",
        ],
        "no kernel for strings": ["strings"],
    },
    ("SpaceToBatch-2",): {
        "the result has elements that come from no input": ["pads", "page example: shape"],
        "no kernel for strings": ["strings"],
    },
    ("SparseFillEmptyRows-16",): {
        "the result has elements that come from no input": [
            "page example 1",
            "the page's layer",
            "entries out of order, and two at one place",
            "no entries",
        ],
        "no kernel for strings": ["strings"],
    },
    ("StridedSlice-1",): {
        "no kernel for strings": ["strings"],
    },
    (
        "TopK-1",
        "TopK-3",
        "TopK-11",
    ): {
        REFUSED: ["a NaN is the largest", "a NaN is the last of the smallest"],
    },
    ("Bucketize-3",): {
        "no kernel to compare i64 with f64": ["i64 with floats, exactly"],
        "no kernel to compare i64 with u64": ["i64 with u64"],
    },
    ("Range-4",): {
        "no kernel for ranges of f16": ["f16 inputs"],
        "no kernel for ranges of bf16": ["bf16"],
    },
    ("ScatterElementsUpdate-12",): {
        "no kernel for means of 64-bit integers": ["the mean's sum does not wrap"],
    },
    ("Log-1",): {"no kernel for i32": ["integers"]},
    ("Erf-1",): {
        "no kernel for f64": ["f64"],
        "no kernel for i32": ["integers"],
    },
    ("Sqrt-1",): {
        "no kernel for i32": ["page example 2: integers"],
        "no kernel for u64": ["64 bits, just below and above r + 1/2"],
    },
    ("Tanh-1",): {
        "no kernel for i32": ["integers"],
    },
    ("ScaledDotProductAttention-13",): {
        "no kernel for empty or very long heads": ["no keys"],
    },
}

#: (operation, sample): why no kernel computes it.
DECLINED = {
    (operation, name): reason
    for operations, reasons in _DECLINED.items()
    for operation in operations
    for reason, names in reasons.items()
    for name in names
}
