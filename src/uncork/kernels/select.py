"""Which kernel runs an operation: for every kind of operation, a function that looks at static
types and shapes.

It gives the native calls that do the work, or the reason why none fits; the compiler then uses the
reference. Kernels are found by operation class, so the operations know nothing of them. A family is
imported when a model has an operation of it.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, Union

from uncork.concurrency import unforked
from uncork.errors import warn_once
from uncork.ir.hints import NO_HINTS, Hints
from uncork.kernels.extents import KernelDeclined
from uncork.kernels.kernel_plan import Alias, Selection
from uncork.kernels.runtime.kernel_cache import CannotCompile
from uncork.kernels.runtime.target import Target, host, llvmlite_version
from uncork.ops import Operation, versions_of
from uncork.storage import blank
from uncork.types import TensorSpec

#: The first version that has what `llvm` asks for. It stands in pyproject.toml, too.
OLDEST_LLVMLITE = (0, 44)
#: The families of kernels, by the types of operation that they choose for; "" is every type that
#: has no other. A family that is `folder` chooses in folder/select.py, one that is `folder.name` in
#: folder/select_name.py.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "attention": ("FusedAttention", "ScaledDotProductAttention"),
    "compressed": ("CompressedLinear", "FusedCompressedLinear"),
    "convolution": (
        *(
            "BlockedConvolution",
            "Convolution",
            "ConvolutionBackpropData",
            "FusedConvolution",
            "GroupConvolution",
        ),
        "GroupConvolutionBackpropData",
    ),
    "convolution.deformable": ("DeformableConvolution",),
    "convolution.pool": ("BlockedPooling",),
    "elementwise": (
        *(
            "Acos",
            "Acosh",
            "Asin",
            "Asinh",
            "Atan",
            "Atan2",
            "Atanh",
            "Cos",
            "Cosh",
            "FakeQuantize",
            "Sin",
            "Sinh",
            "Tan",
        ),
        *(
            "Abs",
            "Add",
            "BatchNormInference",
            "BitwiseAnd",
            "BitwiseLeftShift",
            "BitwiseNot",
            "BitwiseOr",
            "BitwiseRightShift",
            "BitwiseXor",
            "Broadcast",
            "Ceiling",
            "Clamp",
        ),
        *(
            "Convert",
            "ConvertLike",
            "Divide",
            "Elu",
            "Equal",
            "Erf",
            "ErfInv",
            "Exp",
            "Floor",
            "FloorMod",
            "Fused",
            "Gelu",
            "Greater",
            "GreaterEqual",
        ),
        *(
            "HSigmoid",
            "HSwish",
            "HardSigmoid",
            "IsFinite",
            "IsInf",
            "IsNaN",
            "Less",
            "LessEqual",
            "Log",
            "LogicalAnd",
            "LogicalNot",
        ),
        *(
            "LogicalOr",
            "LogicalXor",
            "Maximum",
            "Minimum",
            "Mish",
            "Mod",
            "Multiply",
            "Negative",
            "NotEqual",
            "PReLU",
            "Power",
            "ReLU",
        ),
        *(
            "Round",
            "Rounded",
            "Select",
            "Selu",
            "Sigmoid",
            "Sign",
            "SoftPlus",
            "SoftSign",
            "Sqrt",
            "SquaredDifference",
            "Subtract",
            "Swish",
        ),
        *("Tanh", "Xor"),
    ),
    "fourier": ("DFT", "IDFT", "IRDFT", "ISTFT", "RDFT", "STFT"),
    "gemm.einsum": ("Einsum",),
    "gemm.state_product": ("StateProduct",),
    "embedding.bags": (
        *(
            "EmbeddingBagOffsets",
            "EmbeddingBagOffsetsSum",
            "EmbeddingBagPacked",
            "EmbeddingBagPackedSum",
            "EmbeddingSegmentsSum",
        ),
        "NarrowedBag",
    ),
    "movement.gather": ("Gather",),
    "loops.normalise": ("GRN", "GroupNormalization", "LRN", "NormalizeL2"),
    "loops.patches": ("ExtractImagePatches",),
    "loops.pool": ("AdaptiveAvgPool", "AdaptiveMaxPool", "AvgPool", "MaxPool", "PooledValues"),
    "loops.regions": ("ROIAlign",),
    "loops.levels": ("ExperimentalDetectronROIFeatureExtractor",),
    "loops.bins": ("PSROIPooling", "ROIPooling"),
    "loops.colours": ("I420toBGR", "I420toRGB", "NV12toBGR", "NV12toRGB"),
    "loops.resize": ("Interpolate",),
    "loops.sample": ("GridSample",),
    "loops.scan": ("CumSum",),
    "loops.yolo": ("RegionYolo",),
    "recurrent.final_states": ("LastStates", "LookedUp", "StepLengths"),
    "gemm.matmul": ("FusedLinear", "MatMul"),
    "movement.copy_table": ("",),
    "search": ("Bucketize", "SearchSorted"),
    "selection": ("GatherElements", "LeadingBest", "TopK"),
    "selection.sequences": ("CTCGreedyDecoder", "CTCGreedyDecoderSeqLen", "GatherTree"),
    "embedding.quantized": ("CompressedLookup",),
    "quantized": ("QuantizedPool", "QuantizedProduct", "Reheld"),
    "recurrent": ("GRUSequence", "LSTMSequence", "RNNSequence"),
    "recurrent.cell": ("GRUCell", "LSTMCell", "RNNCell"),
    "reduction": (
        *(
            "LogSoftmax",
            "MVN",
            "ReduceL1",
            "ReduceL2",
            "ReduceLogicalAnd",
            "ReduceLogicalOr",
            "ReduceMax",
            "ReduceMean",
            "ReduceMin",
            "ReduceProd",
            "ReduceSum",
        ),
        "SoftMax",
    ),
    "generation": ("Eye", "OneHot", "Range"),
    "scatter": ("GatherND", "ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate"),
    "scatter.counts": ("ScatteredCounts",),
    "detection": ("FirstRows", "TakenBoxes"),
    "detection.classes": ("FirstDetections", "TakenOfClasses"),
    "detection.detectron": (
        "ExperimentalDetectronDetectionOutput",
        "ExperimentalDetectronPriorGridGenerator",
        "ExperimentalDetectronTopKROIs",
    ),
    "detection.output": ("DetectionOutput",),
    "detection.priors": ("PriorBox", "PriorBoxClustered"),
    "detection.regions": (
        "ExperimentalDetectronGenerateProposalsSingleImage",
        "FirstRegions",
        "Proposal",
        "TakenRegions",
    ),
    "finding": (
        "FilledCount",
        "FilledRows",
        "NonZeroCount",
        "NonZeroPlaces",
        "SortedPlaces",
        "UniqueElements",
    ),
    "movement.blocks": ("FromBlocks", "ToBlocks"),
    "movement.state": ("AppendState", "StateValue"),
    "movement.transpose": ("Transpose",),
    "movement.view": ("Reshape", "Squeeze", "Unsqueeze", "View"),
}
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
_FAMILY_OF = {
    type_name: family for family, type_names in FAMILIES.items() for type_name in type_names
}

Inputs = Sequence[Union[TensorSpec, None]]
Selector = Callable[[Operation, Inputs, Sequence[TensorSpec], Target], Selection]
HintedChooser = Callable[[Operation, Inputs, Sequence[TensorSpec], Target, Hints], Selection]
_selectors: dict[type[Operation], HintedChooser] = {}
_selectors_of_types: dict[str, HintedChooser] = {}
Function = TypeVar("Function", bound=Selector)
HintedFunction = TypeVar("HintedFunction", bound=HintedChooser)


def selects(*operations: type[Operation] | str) -> Callable[[Function], Function]:
    """Decorator: this function chooses kernels for these operations. Their types stand in
    `FAMILIES`, too.

    A type's name stands for all its versions, and does not import them.
    """

    def add(function: Function) -> Function:
        @functools.wraps(function)
        def unhinted(
            operation: Operation,
            inputs: Inputs,
            outputs: Sequence[TensorSpec],
            target: Target,
            hints: Hints,
        ) -> Selection:
            return function(operation, inputs, outputs, target)

        selects_with_hints(*operations)(unhinted)
        return function

    return add


def selects_with_hints(
    *operations: type[Operation] | str,
) -> Callable[[HintedFunction], HintedFunction]:
    """Decorator like `selects`, for a function that is also given the hints of the layer."""

    def add(function: HintedFunction) -> HintedFunction:
        for operation in operations:
            if isinstance(operation, str):
                _selectors_of_types[operation] = function
            else:
                _selectors[operation] = function
        return function

    return add


def select_kernel(
    operation: Operation,
    inputs: Inputs,
    outputs: Sequence[TensorSpec],
    target: Target,
    hints: Hints = NO_HINTS,
) -> Selection:
    """The kernels' calls for an operation on these specs, or the reason why there are none. Nothing
    is compiled.
    """
    if is_view(operation):
        # The reference refuses values that do not fit: without a look at them the shape alone does
        # not tell.
        known = all(
            spec is None or spec.value is not None or spec.has_all_elements for spec in inputs[1:]
        )
        return Alias(0) if known else "its other inputs are known at the call only"
    if operation.fills and (zero := blank(outputs[0].element_type)):
        return f"no kernel writes the number 0 of {outputs[0].element_type}, whose code is {zero}"
    _imported(operation.type_name)
    selector = _selectors.get(type(operation)) or _selectors_of_types.get(operation.type_name)
    if selector is None and operation.moves_values and operation.deterministic:
        _imported("")
        selector = _selectors.get(Operation)  # what serves every operation that only moves values
    if selector is None:
        return "no kernel"
    try:
        return selector(operation, inputs, outputs, target, hints)
    except KernelDeclined as declined:
        return str(declined)


@functools.lru_cache(maxsize=1)
def unavailable() -> str:
    """Why there are no kernels at all on this machine; empty when there are."""
    try:
        version = llvmlite_version()
        if version is None:
            return "llvmlite is not installed"
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers and tuple(map(int, numbers.groups())) < OLDEST_LLVMLITE:
            return f"llvmlite {version} is too old, {'.'.join(map(str, OLDEST_LLVMLITE))} is needed"
        host()
    except (ImportError, OSError, RuntimeError) as error:
        return f"llvmlite cannot be imported: {error}"
    return ""


def warn_if_unavailable() -> None:
    """Warn, once in a process, where there are no kernels: everything works, and takes many times
    longer.
    """
    if why := unavailable():
        oldest = ".".join(map(str, OLDEST_LLVMLITE))
        warn_once(
            "slow",
            f"{why}: models run by the NumPy references, which is slow; install "
            f"'llvmlite>={oldest}' for compiled kernels",
        )


def falls_back(error: CannotCompile) -> str:
    """Warn, once in a process, that a kernel cannot be compiled and references run in its place;
    returns why.
    """
    warn_once(
        "compile",
        f"{error}; its steps run by the NumPy references, which is slow: please report it",
    )
    return str(error)


def family_of(type_name: str) -> str | None:
    """The family that chooses for operations of this type; None when only that of all operations
    that move values does.
    """
    return _FAMILY_OF.get(type_name)


def module_of(family: str) -> str:
    """The module that chooses for a family."""
    folder, _, name = family.partition(".")
    return f"uncork.kernels.{folder}.select" + (f"_{name}" if name else "")


@functools.cache
def _imported(type_name: str) -> None:
    family = _FAMILY_OF.get(type_name)
    if family is not None:
        with unforked():
            importlib.import_module(module_of(family))


def operations_with_kernels() -> frozenset[type[Operation]]:
    """The operations that any family chooses for."""
    for type_name in _FAMILY_OF:
        _imported(type_name)
    return frozenset(_selectors).union(
        *(versions_of(type_name).values() for type_name in _selectors_of_types)
    )


def selects_view(*operations: type[Operation]) -> None:
    """Declare operations whose output is their first input in another shape."""
    _views.update(operations)


def is_view(operation: Operation | None) -> bool:
    """Whether the output is the first input in another shape."""
    if operation is None or family_of(operation.type_name) != "movement.view":
        return False
    _imported(operation.type_name)
    return type(operation) in _views


_views: set[type[Operation]] = set()
