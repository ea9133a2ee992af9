"""The list of passes: which run, on what models, in what order.

There are three moments. `AS_READ` changes what a model computes with (precision, ids, tables), so
it holds for references too. `ON_LOAD` runs before sizes are known, `WITH_SIZES` when each size is a
number or an expression; both only change how kernels compute the same, and references run without
them. A pass is a function of the name of its module. `run` is the only place that calls passes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from msgspec import Struct

from uncork.ir.model import Model
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import ONLY_SINGLES, types_of
from uncork.types import ElementType


class Options(Struct, frozen=True):
    """What a model is compiled for. Without a `target` no kernels are selected."""

    target: Target | None
    precision: str = "f32"
    ids: str = "64-bit"
    #: Only references run, because the caller asked for them.
    reference: bool = False


class Pass(Struct, frozen=True):
    """A rewrite in the list: its module, the types of operations and of elements that it needs one
    of each, and its option.

    Without `types` and `elements` it looks at every model. `option` names a field of `Options` that
    the function takes after the model. `when` tells from the options whether it is wanted.
    """

    name: str
    does: str
    types: frozenset[str] = frozenset()
    elements: frozenset[ElementType] = frozenset()
    option: str = ""
    when: Callable[[Options], bool] = lambda options: True
    module: str = ""

    def function(self) -> Callable[..., Model]:
        """The rewrite. Its module is imported now, since most models need few of them."""
        module = importlib.import_module(f"uncork.passes.{self.module or self.name}")
        return cast("Callable[..., Model]", getattr(module, self.name))


class Applied(Struct, frozen=True):
    """What one pass did to a model: the layers before and after, and the names of those it made."""

    name: str
    does: str
    before: int
    after: int
    made: tuple[str, ...]


_HALVES = frozenset({ElementType.f16, ElementType.bf16})
#: What weights and tables are stored in, smaller than they are computed with.
_SMALL = _HALVES | {
    ElementType.parse(name)
    for name in (
        *("i8", "u8", "i4", "u4", "u1", "u2", "u3", "u6"),
        *("nf4", "f4e2m1", "f8e4m3", "f8e5m2", "f8e8m0", "i16", "u16"),
    )
}
AS_READ: tuple[Pass, ...] = (
    # For references too: a layer whose values nobody reads must not be able to refuse a call.
    Pass("drop_unread_layers", "layers that no result needs do not run"),
    Pass(
        "set_precision",
        "layers may multiply in bf16",
        option="precision",
        when=lambda options: options.precision != "f32",
    ),
    # For references too: what is rounded is what the model means then.
    Pass(
        "coded_variables",
        "keys and values are kept in fewer bits",
        frozenset({"ReadValue"}),
    ),
    Pass(
        "packed_tables",
        "tables of 4 bits are held as bytes of two values",
        frozenset({"Convert"}),
        frozenset({ElementType.i4, ElementType.u4}),
        when=lambda options: not options.reference,
        module="quantized_tables",
    ),
    Pass(
        "whole_ids",
        "ids from inputs are looked up before a Convert cuts them",
        frozenset({"Convert", "ConvertLike", "If", "Loop", "TensorIterator"}),
        when=lambda options: options.ids == "64-bit",
    ),
    # After `whole_ids`, which leads ids around conversions of both kinds. For references too: what
    # only makes such a tensor does not run.
    Pass(
        "simplify_convert_like",
        "conversions do not wait for a tensor whose type they take",
        frozenset({"ConvertLike", "If", "Loop", "TensorIterator"}),
    ),
    Pass(
        "compressed_tables",
        "look-ups decode the rows that they need",
        frozenset({"Convert", "Gather"}),
        _SMALL,
        when=lambda options: not options.reference,
        option="target",
        module="quantized_tables",
    ),
)

ON_LOAD: tuple[Pass, ...] = (
    # Before all that knows bags.
    Pass("loops_to_bags", "loops that sum rows of a table are bags", frozenset({"Loop"})),
    Pass(
        "loops_to_running",
        "loops that carry a product or a sum so far are one step",
        frozenset({"TensorIterator"}),
    ),
    Pass(
        "join_what_grows",
        "what turns of a loop add to a value is joined behind the loop",
        frozenset({"Loop", "TensorIterator"}),
    ),
    Pass(
        "absorb_index_converts",
        "bags read ids of both integer types",
        frozenset({"EmbeddingBagOffsets", "EmbeddingBagOffsetsSum"}),
    ),
    # Before all that knows layers of f32.
    Pass(
        "widen_halves",
        "layers of f16 and bf16 whose kernels read f32 are computed there, and rounded",
        frozenset(name for family in ONLY_SINGLES for name in types_of(family)),
        _HALVES,
    ),
    # Before `compressed_products`, which know MatMul.
    Pass(
        "products_of_stored",
        "other products by weights that are stored in few bits become a MatMul",
        frozenset({"Convolution", "Einsum", "MatMul"}),
        _SMALL,
        option="target",
    ),
    # Before `fold_constants`, which would make the matrices.
    Pass(
        "compressed_products",
        "products read weights as they are stored",
        frozenset({"Convert", "Gather"}),
        _SMALL,
        option="target",
    ),
    # Before `quantized_weights`, which is for layers of what is rounded to levels.
    Pass(
        "codes_and_back",
        "what is made codes and numbers again is rounded to levels",
        frozenset({"Round"}),
        frozenset({ElementType.i8, ElementType.u8}),
    ),
    # Before `fold_constants`, which would forget what weights were made of; after
    # `compressed_products`, which keeps them.
    Pass(
        "quantized_weights",
        "weights of quantized layers remember their small numbers",
        frozenset({"FakeQuantize"}),
    ),
    # Before `fold_constants`, which would make them.
    Pass(
        "stored_filters",
        "convolutions remember how their filters are stored",
        types_of("convolution"),
        _SMALL,
    ),
    Pass("fold_constants", "layers of constants become constants"),
    # After `fold_constants`, which makes filters, and the numbers of activations.
    Pass(
        "merge_branches",
        "a sum of convolutions of one tensor becomes one convolution",
        frozenset({"Convolution", "GroupConvolution"}),
    ),
    Pass(
        "fuse_activations",
        "the parts of an activation become one layer",
        frozenset({"Erf", "Sigmoid", "Tanh"}),
    ),
    Pass("merge_transposes", "transposes of transposes are one, or none", frozenset({"Transpose"})),
    # Before `count_first`, which makes two layers of a Unique.
    Pass(
        "undo_unique",
        "rows of different ids, taken for each place, are taken of each id",
        frozenset({"Unique"}),
    ),
    Pass("scatter_counts", "counts are made where they are scattered to", frozenset({"Unique"})),
    Pass(
        "count_first",
        "layers that find a size count before they write",
        frozenset(
            {
                *("GenerateProposals", "MatrixNms", "MulticlassNms", "NonMaxSuppression"),
                *("NonZero", "SegmentMax", "SparseFillEmptyRows", "Unique"),
            }
        ),
    ),
    Pass(
        "drop_unread_indices",
        "poolings do not make places that nobody reads",
        frozenset({"AdaptiveMaxPool", "MaxPool"}),
    ),
    Pass("shorten_topk", "sorted rows end with the last element that is read", frozenset({"TopK"})),
)

_RECURRENT = types_of("recurrent")
WITH_SIZES: tuple[Pass, ...] = (
    # Before `einsum_to_matmul`, which knows two operands.
    Pass(
        "einsum_in_pairs",
        "Einsum of more tensors becomes Einsums of two",
        frozenset({"Einsum"}),
    ),
    # Before `fuse_attention`, which knows attention by its products.
    Pass(
        "einsum_to_matmul",
        "Einsum of two tensors becomes a MatMul or a Multiply, that of one a Transpose",
        frozenset({"Einsum"}),
        option="target",
    ),
    # Before whatever makes one step of several layers, of which nothing else may read.
    Pass(
        "sizes_of_inputs",
        "sizes that inputs have are asked of these",
        frozenset({"ShapeOf"}),
    ),
    Pass(
        "scatter_rows",
        "elements that are scattered by one index a row are rows that are scattered",
        frozenset({"ScatterElementsUpdate"}),
    ),
    # Before `fuse_epilogue`, to which what comes behind such a product is not its end.
    Pass(
        "experts_first",
        "a batch of open size is rows of several stored matrices",
        frozenset({"CompressedLinear"}),
    ),
    Pass(
        "sink_selection",
        "sequences stop at the one step that is read",
        _RECURRENT,
    ),
    # Before `fuse_epilogue`, which makes one step of a product and what follows.
    Pass(
        "select_before_products",
        "rows of which few are read are taken before they are multiplied",
        frozenset({"Gather", "Slice", "StridedSlice"}),
    ),
    Pass(
        "precompute_input_projection",
        "sequences over rows of a table look their products up",
        _RECURRENT | types_of("recurrent.final_states"),
    ),
    Pass(
        "eliminate_noop_moves",
        "moves that leave every element in place become views, or nothing",
        frozenset({"Concat", "Pad", "Reshape", "Slice", "StridedSlice", "Tile", "Transpose"}),
    ),
    # Behind `eliminate_noop_moves`, to which a Pad by nothing is a view; before whatever makes one
    # step of convolutions and what is beside them.
    Pass(
        "absorb_pads",
        "windows begin and end in the cells that a Pad adds",
        frozenset({"Pad"}),
    ),
    # Before `fuse_attention`, which reads the parts where they lie.
    Pass(
        "split_products",
        "equal parts of a product are products of their own",
        frozenset({"Split"}),
    ),
    # Before `fuse_attention`, to which a rounding between a product and what it reads is a layer.
    Pass(
        "round_first",
        "tensors are rounded to levels before they are moved or joined",
        frozenset({"FakeQuantize"}),
    ),
    # Before `fuse_epilogue`, which would take scale and mask of the scores for the end of a
    # product.
    Pass(
        "fuse_attention",
        "attention becomes one step",
        frozenset({"ScaledDotProductAttention", "SoftMax"}),
        option="target",
    ),
    # Behind `fuse_attention`, which may find a kernel by what moves the tensors.
    Pass(
        "take_apart",
        "attention without a kernel becomes the products that it means",
        frozenset({"ScaledDotProductAttention"}),
        option="target",
    ),
    # Before `fuse_epilogue`, too: a rounding to levels ends a product.
    Pass(
        "quantize_layers",
        "layers between roundings to levels compute with codes",
        frozenset({"FakeQuantize"}),
    ),
    Pass(
        "made_weights",
        "weights that no quantized layer reads are numbers",
        frozenset({"QuantizedConstant"}),
        module="quantized_weights",
    ),
    Pass(
        "read_state_in_products",
        "products read variables where they lie",
        frozenset({"StateValue"}),
        option="target",
    ),
    # Behind `fuse_attention`, which takes transposes for its own.
    Pass(
        "fold_transposes",
        "products read a matrix by columns where it was transposed for them",
        frozenset({"Transpose"}),
    ),
    # Before `lift_elementwise`, which brings activations to them.
    Pass(
        "group_norms",
        "the parts of a group normalisation become one layer",
        frozenset({"MVN"}),
    ),
    Pass(
        "channel_norms",
        "the parts of a normalisation over channels become one layer",
        frozenset({"MVN", "ReduceMean"}),
    ),
    # Before `fuse_epilogue`, which takes what it has brought to a product.
    Pass(
        "lift_elementwise",
        "operations element by element come before moves of a product's result",
        frozenset({"Reshape", "Squeeze", "Transpose", "Unsqueeze", "View"}),
    ),
    Pass(
        "fuse_epilogue",
        "products and convolutions end with what follows element by element",
        frozenset(
            {
                *("ChannelNormalization", "CompressedLinear", "GroupNormalization", "MatMul"),
                *types_of("convolution"),
            }
        ),
    ),
    Pass(
        "block_channels",
        "convolutions pass blocks of channels on",
        types_of("convolution"),
        option="target",
    ),
    # Before `hold_halves`, to which it is a move like others.
    Pass(
        "block_borders",
        "channels that come last are moved into blocks, and back, without planes between",
        frozenset({"FromBlocks", "ToBlocks"}),
    ),
    Pass(
        "made_filters",
        "filters that no kernel reads as they are stored are numbers",
        frozenset({"StoredConstant"}),
        module="stored_filters",
    ),
    # Before `fuse_elementwise`, which takes the conversions into the chains.
    Pass(
        "hold_halves",
        "products and attention that may be rounded to bf16 read tensors of bf16",
        frozenset({"FusedLinear", "MatMul"}),
        option="target",
    ),
    Pass("fuse_elementwise", "chains of operations element by element become one", option="target"),
    # After `fuse_elementwise`: what is stretched for a chain is read by its last layer.
    Pass(
        "absorb_broadcasts",
        "layers element by element stretch their operands themselves",
        frozenset({"Broadcast", "Tile"}),
        option="target",
    ),
    # Behind all to which a move is a layer of its own.
    Pass(
        "join_moves",
        "moves of what other moves made are one",
        frozenset({"Concat", "Slice", "Split", "StridedSlice", "Transpose", "VariadicSplit"}),
        option="target",
    ),
    # Last: to all others a move is a layer of its own.
    Pass(
        "absorb_moves",
        "layers element by element read what is moved from where it lies",
        frozenset({"Moved", "Slice", "Split", "StridedSlice", "Transpose", "VariadicSplit"}),
        option="target",
    ),
)


def apply_passes(
    passes: Sequence[Pass], model: Model, options: Options, record: list[Applied] | None = None
) -> Model:
    """The model after these passes. `record` is given what each pass did that changed anything."""
    for entry in passes:
        if not entry.when(options) or not _may_change(model, entry):
            continue
        given = [getattr(options, entry.option)] if entry.option else []
        after = entry.function()(model, *given)
        if record is not None and after is not model:
            record += _applied(entry, model, after)
        model = after
    return model


def with_ids(model: Model, ids: str) -> Model:
    """The model with the pass of `AS_READ` that belongs to what it means in any system: how ids are
    looked up.
    """
    passes = [entry for entry in AS_READ if entry.name == "whole_ids"]
    return apply_passes(passes, model, Options(None, ids=ids, reference=True))


def _may_change(model: Model, entry: Pass) -> bool:
    """Whether a model has operations and elements of the types that a pass needs."""
    types, elements = entry.types, entry.elements
    return (not types or any(node.type_name in types for node in model.nodes)) and (
        not elements
        or any(port.spec.element_type in elements for node in model.nodes for port in node.outputs)
    )


def _applied(entry: Pass, before: Model, after: Model) -> Iterator[Applied]:
    """What the pass did; nothing where all layers are as they were."""
    old = {node.id: node for node in before.nodes}
    made = tuple(
        n.name for n in after.nodes if n.id not in old or n.type_name != old[n.id].type_name
    )
    if made or len(after.nodes) != len(before.nodes):
        yield Applied(entry.name, entry.does, len(before.nodes), len(after.nodes), made)
