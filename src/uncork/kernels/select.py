"""Which kernel runs an operation: for every kind of operation, a function that looks at static
types and shapes.

It gives the native calls that do the work, or the reason why none fits; the compiler then uses the
reference. Kernels are found by operation class, so the operations know nothing of them. A family is
imported when a model has an operation of it.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Union

from uncork.concurrency import unforked
from uncork.errors import warn_once
from uncork.ir.hints import NO_HINTS, Hints
from uncork.kernels.extents import KernelDeclined, NothingToCompute
from uncork.kernels.kernel_plan import Alias, KernelPlan, Selection
from uncork.kernels.layer import MOST_TABLE_BYTES, Layer
from uncork.kernels.runtime.bundle import usable_target
from uncork.kernels.runtime.kernel_cache import CannotCompile, KernelMissing
from uncork.kernels.runtime.target import Target, no_compiler
from uncork.ops import Operation
from uncork.storage import blank
from uncork.types import TensorSpec

#: What selects kernels: `family:function` for the types of operations. A family that is `folder`
#: stands in folder/select.py, one that is `folder.name` in folder/select_name.py.
SELECTORS: Mapping[str, str] = {
    "attention:select_attention": "FusedAttention ScaledDotProductAttention",
    "attention:select_held": "HeldAttention",
    "compressed:select_compressed": "CompressedLinear FusedCompressedLinear",
    "convolution:select_blocked": "BlockedConvolution",
    "convolution:select_convolution": (
        "Convolution ConvolutionBackpropData FusedConvolution GroupConvolution"
        " GroupConvolutionBackpropData"
    ),
    "convolution.deformable:select_deformable": "DeformableConvolution",
    "convolution.pool:select_pool": "BlockedPooling",
    "detection:select_boxes": "TakenBoxes",
    "detection:select_first": "FirstRows",
    "detection.classes:select_classes": "TakenOfClasses",
    "detection.detectron:select_best": "ExperimentalDetectronTopKROIs",
    "detection.detectron:select_detections": "ExperimentalDetectronDetectionOutput",
    "detection.detectron:select_grid": "ExperimentalDetectronPriorGridGenerator",
    "detection.output:select_detections": "DetectionOutput",
    "detection.priors:select_priors": "PriorBox PriorBoxClustered",
    "detection.regions:select_of_image": "ExperimentalDetectronGenerateProposalsSingleImage",
    "detection.regions:select_proposal": "Proposal",
    "detection.regions:select_regions": "TakenRegions",
    "elementwise:select_elementwise": (
        "Abs Acos Acosh Add Asin Asinh Atan Atan2 Atanh BatchNormInference BitwiseAnd"
        " BitwiseLeftShift BitwiseNot BitwiseOr BitwiseRightShift BitwiseXor Broadcast Ceiling"
        " Clamp Convert ConvertLike Cos Cosh Divide Elu Equal Erf ErfInv Exp FakeQuantize Floor"
        " FloorMod Gelu Greater GreaterEqual HSigmoid HSwish HardSigmoid IsFinite IsInf IsNaN"
        " KeptChannels Less LessEqual Log LogicalAnd LogicalNot LogicalOr LogicalXor Maximum"
        " Minimum Mish Mod Multiply Negative NotEqual PReLU Power ReLU Round Rounded Select"
        " Selu Sigmoid Sign Sin"
        " Sinh SoftPlus SoftSign Sqrt SquaredDifference Subtract Swish Tan Tanh Xor"
    ),
    "elementwise:select_fused": "Fused",
    "embedding.bags:select_bag": "EmbeddingBagOffsets EmbeddingBagOffsetsSum NarrowedBag",
    "embedding.bags:select_packed": "EmbeddingBagPacked EmbeddingBagPackedSum",
    "embedding.bags:select_segments": "EmbeddingSegmentsSum",
    "embedding.quantized:select_lookup": "CompressedLookup",
    "finding:select_count": "NonZeroCount",
    "finding:select_filled_count": "FilledCount",
    "finding:select_filled_rows": "FilledRows",
    "finding:select_non_zero": "NonZeroPlaces",
    "finding:select_segment_count": "SegmentCount",
    "finding:select_sort": "SortedPlaces",
    "finding:select_unique": "UniqueElements",
    "fourier:select_frames": "STFT",
    "fourier:select_signal": "ISTFT",
    "fourier:select_transform": "DFT IDFT IRDFT RDFT",
    "gemm.einsum:select_einsum": "Einsum",
    "gemm.matmul:select_held": "HeldProduct",
    "gemm.matmul:select_linear": "FusedLinear MatMul",
    "gemm.state_product:select_state_product": "StateProduct",
    "generation:select_eye": "Eye",
    "generation:select_one_hot": "OneHot",
    "generation:select_range": "Range",
    "loops.bins:select_pooling": "ROIPooling",
    "loops.bins:select_position_sensitive": "PSROIPooling",
    "loops.colours:select_colours": "I420toBGR I420toRGB NV12toBGR NV12toRGB",
    "loops.folded:select_folded": "Col2Im",
    "loops.levels:select_features": "ExperimentalDetectronROIFeatureExtractor",
    "loops.normalise:select_normalising": (
        "BlockedNormalization ChannelNormalization FusedNormalization GRN GroupNormalization LRN"
        " NormalizeL2"
    ),
    "loops.pad:select_padding": "Pad",
    "loops.patches:select_patches": "ExtractImagePatches",
    "loops.pool:select_adaptive_largest": "AdaptiveMaxPool",
    "loops.pool:select_adaptive_mean": "AdaptiveAvgPool",
    "loops.pool:select_avg_pool": "AvgPool",
    "loops.pool:select_max_pool": "MaxPool",
    "loops.pool:select_values": "PooledValues",
    "loops.regions:select_align": "ROIAlign",
    "loops.resize:select_resizing": "Interpolate",
    "loops.sample:select_sampling": "GridSample",
    "loops.scan:select_running_product": "RunningProduct",
    "loops.scan:select_running_sum": "CumSum",
    "loops.yolo:select_probabilities": "RegionYolo",
    "movement.blocks:select_blocks": "FromBlocks ToBlocks",
    "movement.gather:select_gather": "Gather",
    "movement.moved:select_moved": "Moved",
    "movement.state:select_append": "AppendState",
    "movement.state:select_value": "StateValue",
    "movement.transpose:select_transpose": "Transpose",
    "quantized.elements:select_elements": "QuantizedElements",
    "quantized.elements:select_mean": "QuantizedMean",
    "quantized:select_pool": "QuantizedPool",
    "quantized:select_product": "QuantizedProduct",
    "quantized:select_reheld": "Reheld",
    "quantized.rows:select_decoded": "DecodedRows",
    "quantized.rows:select_encoded": "EncodedRows",
    "recurrent:select_sequence": "GRUSequence LSTMSequence RNNSequence",
    "recurrent.cell:select_cell": "GRUCell LSTMCell RNNCell",
    "recurrent.final_states:select_lengths": "StepLengths",
    "recurrent.final_states:select_looked_up": "LookedUp",
    "recurrent.final_states:select_states": "LastStates",
    "loops.rows:select_reduction": (
        "ReduceL1 ReduceL2 ReduceLogicalAnd ReduceLogicalOr ReduceMax ReduceMean ReduceMin"
        " ReduceProd ReduceSum"
    ),
    "loops.rows:select_softmax": "LogSoftmax SoftMax",
    "loops.rows:select_standardising": "MVN",
    "scatter:select_elements": "ScatterElementsUpdate",
    "scatter:select_gather_elements": "GatherElements",
    "scatter:select_gather_nd": "GatherND",
    "scatter:select_rows": "ScatteredRows",
    "scatter:select_slices": "ScatterUpdate",
    "scatter:select_store": "StoreRows",
    "scatter:select_tuples": "ScatterNDUpdate",
    "scatter.counts:select_counts": "ScatteredCounts",
    "scatter.segments:select_segment_max": "SegmentMax",
    "search:select_buckets": "Bucketize",
    "search:select_search": "SearchSorted",
    "selection:select_best": "LeadingBest TopK",
    "selection.sequences:select_decoded": "CTCGreedyDecoder",
    "selection.sequences:select_decoded_by_lengths": "CTCGreedyDecoderSeqLen",
    "selection.sequences:select_tree": "GatherTree",
}
#: What selects kernels for any other operation that only moves values.
MOVES = "movement.copy_table:select_move"
#: Operations whose output is their first input in another shape: nothing runs.
VIEWS = frozenset(["Reshape", "Squeeze", "Unsqueeze", "View"])
#: Those of them that axes choose.
_BY_AXES = frozenset(["Squeeze", "Unsqueeze"])
#: The families of layers of floats whose kernels compute with f32 numbers that lie so.
ONLY_SINGLES = (
    "convolution",
    "convolution.deformable",
    "fourier",
    "gemm.einsum",
    "gemm.matmul",
    "recurrent",
    "recurrent.cell",
)
_SELECTOR_OF = {
    type_name: selector
    for selector, type_names in SELECTORS.items()
    for type_name in type_names.split()
}

Inputs = Sequence[Union[TensorSpec, None]]
Selector = Callable[[Layer], Selection]


def select_kernel(
    operation: Operation,
    inputs: Inputs,
    outputs: Sequence[TensorSpec],
    target: Target,
    hints: Hints = NO_HINTS,
    table_bytes: int = MOST_TABLE_BYTES,
) -> Selection:
    """The kernels' calls for an operation on these specs, or the reason why there are none. Nothing
    is compiled; tables are made of at most so many bytes.
    """
    if is_view(operation):
        # The reference refuses values that do not fit: without a look at them the shape alone does
        # not tell. Of sizes that a call tells a plan checks what `infer` demands, of axes nothing.
        sizes = operation.type_name not in _BY_AXES
        known = all(
            spec is None or spec.value is not None or (sizes and spec.has_all_elements)
            for spec in inputs[1:]
        )
        return Alias(0) if known else "its other inputs are known at the call only"
    if operation.fills and (zero := blank(outputs[0].element_type)):
        return f"no kernel writes the number 0 of {outputs[0].element_type}, whose code is {zero}"
    name = _SELECTOR_OF.get(operation.type_name)
    if name is None and operation.moves_values and operation.deterministic:
        name = MOVES
    if name is None:
        return "no kernel"
    try:
        return _selector(name)(Layer(operation, inputs, outputs, target, hints, table_bytes))
    except KernelDeclined as declined:
        return str(declined)
    except NothingToCompute as nothing:
        return KernelPlan(str(nothing), [])


def unavailable() -> str:
    """Why there are no kernels at all on this machine; empty when there are."""
    return no_compiler() if usable_target() is None else ""


def warn_if_unavailable() -> None:
    """Warn, once in a process, where there are no kernels: everything works, and takes many times
    longer.
    """
    if why := unavailable():
        warn_once(
            "slow",
            f"{why}: models run by the NumPy references, which is slow; "
            "pip install 'uncork[compile]' has their kernels compiled",
        )


def falls_back(error: CannotCompile) -> str:
    """Warn, once in a process, that a kernel cannot be had and references run in its place; returns
    why.
    """
    if isinstance(error, KernelMissing):
        warn_once("missing", f"{error}; meanwhile references run its layer, which is slow")
    else:
        warn_once(
            "compile",
            f"{error}; its steps run by the NumPy references, which is slow: please report it",
        )
    return str(error)


def families() -> frozenset[str]:
    """All families of kernels."""
    return frozenset(map(_family, (*SELECTORS, MOVES)))


def types_of(family: str) -> frozenset[str]:
    """The types of operations that a family selects for."""
    return frozenset(
        type_name for type_name, selector in _SELECTOR_OF.items() if _family(selector) == family
    )


def family_of(type_name: str) -> str | None:
    """The family that selects for operations of this type; None when only that of all operations
    that move values does.
    """
    selector = _SELECTOR_OF.get(type_name)
    return None if selector is None else _family(selector)


def module_of(family: str) -> str:
    """The module that selects for a family."""
    folder, _, name = family.partition(".")
    return f"uncork.kernels.{folder}.select" + (f"_{name}" if name else "")


def is_view(operation: Operation | None) -> bool:
    """Whether the output is the first input in another shape."""
    return operation is not None and operation.type_name in VIEWS


def _family(selector: str) -> str:
    return selector.partition(":")[0]


@functools.cache
def _selector(name: str) -> Selector:
    """The function of a row of the table; its family is imported when it is first asked for."""
    family, _, function = name.partition(":")
    with unforked():
        module = importlib.import_module(module_of(family))
    selector: Selector = getattr(module, function)
    return selector
