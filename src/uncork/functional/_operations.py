"""The functions that are operations: each describes its call.

`uncork.functional` tells what holds for all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from uncork.functional._arguments import bound
from uncork.functional._call import Call
from uncork.functional._native import one, several

# ---- embedding bags


@one
def embedding_bag_offsets_sum(
    table: Any,
    indices: Any,
    offsets: Any,
    default_index: Any = None,
    per_sample_weights: Any = None,
    *,
    strict: bool = False,
) -> Call:
    """Sums of table rows by bag.

    Bag b owns the positions offsets[b] .. offsets[b + 1] - 1, the last one all that remain.

    `table [E, d...]`, `indices [N]`, `offsets [B]`, `per_sample_weights [N]` of the table's type;
    the result is `[B, d...]`. An empty bag is the row `default_index`, or zeros where that is None
    or -1.
    """
    return _bags(
        Call("embedding_bag_offsets_sum", "EmbeddingBagOffsetsSum", 3, strict),
        table,
        per_sample_weights,
        indices=indices,
        offsets=offsets,
        default_index=_default(default_index, per_sample_weights),
    )


@one
def embedding_bag_offsets(
    table: Any,
    indices: Any,
    offsets: Any,
    default_index: Any = None,
    per_sample_weights: Any = None,
    reduction: str = "sum",
    *,
    strict: bool = False,
) -> Call:
    """`embedding_bag_offsets_sum`, or with `reduction="mean"` the mean of each bag, which takes no
    weights.
    """
    return _bags(
        Call("embedding_bag_offsets", "EmbeddingBagOffsets", 15, strict),
        table,
        per_sample_weights,
        indices=indices,
        offsets=offsets,
        default_index=_default(default_index, per_sample_weights),
    ).with_attributes(reduction=reduction)


@one
def embedding_bag_packed_sum(
    table: Any, indices: Any, per_sample_weights: Any = None, *, strict: bool = False
) -> Call:
    """Sums of table rows by bag, all bags of one size: `table [E, d...]`, `indices [B, k]`, weights
    `[B, k]` -> `[B, d...]`.
    """
    call = Call("embedding_bag_packed_sum", "EmbeddingBagPackedSum", 3, strict)
    return _bags(call, table, per_sample_weights, indices=indices)


@one
def embedding_bag_packed(
    table: Any,
    indices: Any,
    per_sample_weights: Any = None,
    reduction: str = "sum",
    *,
    strict: bool = False,
) -> Call:
    """`embedding_bag_packed_sum`, or with `reduction="mean"` the mean of each bag, which takes no
    weights.
    """
    call = Call("embedding_bag_packed", "EmbeddingBagPacked", 15, strict)
    bags = _bags(call, table, per_sample_weights, indices=indices)
    return bags.with_attributes(reduction=reduction)


@one
def embedding_segments_sum(
    table: Any,
    indices: Any,
    segment_ids: Any,
    num_segments: Any,
    default_index: Any = None,
    per_sample_weights: Any = None,
    *,
    strict: bool = False,
) -> Call:
    """Sums of table rows by segment: position i belongs to segment `segment_ids[i]`, in any order.

    `table [E, d...]`, `indices [N]`, `segment_ids [N]`, `per_sample_weights [N]` of the table's
    type; the result is `[num_segments, d...]`. An empty segment is the row `default_index`, or
    zeros where that is None or -1.
    """
    return _bags(
        Call("embedding_segments_sum", "EmbeddingSegmentsSum", 3, strict),
        table,
        per_sample_weights,
        indices=indices,
        segment_ids=segment_ids,
        num_segments=num_segments,
        default_index=_default(default_index, per_sample_weights),
    )


def _bags(call: Call, table: Any, weights: Any, **counts: Any) -> Call:
    """The call with a table, ids and what parts them, and weights of the table's type."""
    call.first("table", table)
    call.counts(**counts)
    call.same_type(per_sample_weights=weights)
    return call


# ---- gathering


@one
def gather(
    data: Any, indices: Any, axis: Any, batch_dims: int = 0, *, strict: bool = False
) -> Call:
    """Slices of `data` along `axis`, picked by `indices` of any shape.

    The first `batch_dims` dimensions are shared by both.

    The result has shape `data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis + 1:]`. A
    negative index counts from the end; one that is outside even so gives zeros (empty strings).
    """
    call = Call("gather", "Gather", 8, strict)
    call.first("data", data)
    call.index("indices", indices)
    call.counts(axis=axis)
    return call.with_attributes(batch_dims=call.number("batch_dims", batch_dims))


@one
def gather_elements(data: Any, indices: Any, axis: int, *, strict: bool = False) -> Call:
    """One element of `data` for each of `indices`, which says its place along `axis`.

    A negative index counts from the end.
    """
    call = Call("gather_elements", "GatherElements", 6, strict)
    call.first("data", data)
    call.index("indices", indices)
    return call.with_attributes(axis=call.number("axis", axis))


@one
def gather_nd(data: Any, indices: Any, batch_dims: int = 0, *, strict: bool = False) -> Call:
    """Slices of `data` at the places that the last dimension of `indices` gives.

    Negative indices count from the end.
    """
    call = Call("gather_nd", "GatherND", 8, strict)
    call.first("data", data)
    call.index("indices", indices)
    return call.with_attributes(batch_dims=call.number("batch_dims", batch_dims))


# ---- recurrent layers

#: Of what is no array.
_ANNOTATIONS = {
    "direction": "str",
    "activations": "Sequence[str]",
    "clip": "float | None",
    "linear_before_reset": "bool",
    "strict": "bool",
    "precision": "str",
}
#: What attributes are made of arguments.
_AS: dict[str, Callable[[Any], Any]] = {
    "direction": lambda direction: direction,
    "activations": lambda names: (names,) if isinstance(names, str) else tuple(names),
    "clip": float,
    "linear_before_reset": bool,
}


def _recurrent(name: str, states: Sequence[str], activations: Sequence[str], text: str) -> Any:
    """The function of a recurrent layer: of sequences, which have lengths and directions and whose
    products may be rounded, or of one step, whose biases may be left out.
    """
    kind, _, form = name.partition("_")
    sequences = form == "sequence"
    opset = 5 if sequences else {"gru": 3, "lstm": 4, "rnn": 1}[kind]
    lengths = ("lengths",) if sequences else ()
    settings: dict[str, Any] = {
        **({"direction": "forward"} if sequences else {}),
        "activations": tuple(activations),
        "clip": None,
        **({"linear_before_reset": False} if kind == "gru" else {}),
    }
    named: dict[str, Any] = {"strict": False, **({"precision": "f32"} if sequences else {})}

    def describe(*args: Any, **options: Any) -> Call:
        given = bound(name, signature, args, options)
        call = Call(name, f"{kind.upper()}{form.capitalize()}", opset, given["strict"])
        call.in_precision(given.get("precision", "f32"))
        call.first("x", given["x"])
        call.same_type(**{own: given[own] for own in states})
        call.counts(**{own: given[own] for own in lengths})
        call.same_type(**{own: given[own] for own in "wrb"})
        taken = [own for own in settings if own != "clip" or given[own] is not None]
        chosen = {own: _AS[own](given[own]) for own in taken}
        return call.with_attributes(hidden_size=call.hidden_size(states[0]), **chosen)

    anyhow, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    inputs: dict[str, Any] = dict.fromkeys(
        ("x", *states, *lengths, "w", "r", "b"), inspect.Parameter.empty
    )
    if not sequences:
        inputs["b"] = None
    signature = inspect.Signature(
        [
            inspect.Parameter(own, how, default=default, annotation=_ANNOTATIONS.get(own, "Any"))
            for parameters, how in ((inputs | settings, anyhow), (named, keyword))
            for own, default in parameters.items()
        ]
    )
    describe.__name__ = describe.__qualname__ = name
    describe.__signature__ = signature  # type: ignore[attr-defined]
    describe.__doc__ = text
    return (one if not sequences and len(states) == 1 else several)(describe)


gru_sequence = _recurrent(
    "gru_sequence",
    ["h0"],
    ["sigmoid", "tanh"],
    """A GRU over sequences of their own lengths; gates z, r, h. Returns (Y, Ho).

    `x [B, T, I]`, `h0 [B, D, H]`, `lengths [B]`, `w [D, 3H, I]`, `r [D, 3H, H]`, `b [D, 3H]`, or
    `[D, 4H]` with `linear_before_reset`; D is 2 when `direction` is "bidirectional", else 1. `Y [B,
    D, T, H]` is 0 past a row's length and `Ho [B, D, H]` the state there.

    `precision="bf16"` rounds the factors of products to bf16, as `uncork.load` does; "fast" does so
    where the processor has instructions for that.
    """,
)
lstm_sequence = _recurrent(
    "lstm_sequence",
    ["h0", "c0"],
    ["sigmoid", "tanh", "tanh"],
    """An LSTM over sequences of their own lengths; gates f, i, c, o. Returns (Y, Ho, Co).

    Shapes as for `gru_sequence`, with 4H for 3H, `c0` as `h0`, and `b [D, 4H]`.
    """,
)
rnn_sequence = _recurrent(
    "rnn_sequence",
    ["h0"],
    ["tanh"],
    """A simple recurrent layer over sequences of their own lengths.

    Returns (Y, Ho). Shapes as for `gru_sequence`, with H for 3H.
    """,
)
gru_cell = _recurrent(
    "gru_cell",
    ["h"],
    ["sigmoid", "tanh"],
    """One step of a GRU: `x [B, I]`, `h [B, H]`, `w [3H, I]`, `r [3H, H]`, `b [3H]` or `[4H]`.

    Returns the new state.
    """,
)
lstm_cell = _recurrent(
    "lstm_cell",
    ["h", "c"],
    ["sigmoid", "tanh", "tanh"],
    """One step of an LSTM: `x [B, I]`, `h` and `c [B, H]`, `w [4H, I]`, `r [4H, H]`, `b [4H]`.

    Returns the new (h, c).
    """,
)
rnn_cell = _recurrent(
    "rnn_cell",
    ["h"],
    ["tanh"],
    """One step of a simple recurrent layer: `x [B, I]`, `h [B, H]`, `w [H, I]`, `r [H, H]`, `b
    [H]`. Returns the new state.
    """,
)


def _default(default_index: Any, weights: Any) -> Any:
    """The default row, -1 for none where another input comes after it."""
    return -1 if default_index is None and weights is not None else default_index
