"""The word-language model as an OpenVINO graph, built from trained weights with uncork's
`Builder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncork import Builder, ElementType, Model

Weights = Mapping[str, NDArray[np.float32]]


def z_r_h(stacked: NDArray[Any]) -> list[NDArray[Any]]:
    """The blocks of a GRU weight in the IR's gate order z, r, h; PyTorch stacks them as r, z, n."""
    reset, update, new = np.split(stacked, 3)
    return [update, reset, new]


def gru_weights(
    weights: Weights,
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """W [2, 3H, I], R [2, 3H, H] and Bias [2, 4H] of a bidirectional PyTorch GRU.

    PyTorch has two biases a gate. Those of z and r are only ever added, so the IR holds their sums;
    that of h is applied to the state before the reset gate (`linear_before_reset`), so its two
    halves stay apart: Bias = [z, r, h input, h state].
    """
    inputs, states, biases = [], [], []
    for direction in ("", "_reverse"):
        inputs.append(np.concatenate(z_r_h(weights[f"gru.weight_ih_l0{direction}"])))
        states.append(np.concatenate(z_r_h(weights[f"gru.weight_hh_l0{direction}"])))
        of_input = z_r_h(weights[f"gru.bias_ih_l0{direction}"])
        of_state = z_r_h(weights[f"gru.bias_hh_l0{direction}"])
        biases.append(
            np.concatenate(
                [of_input[0] + of_state[0], of_input[1] + of_state[1], of_input[2], of_state[2]]
            )
        )
    return np.stack(inputs), np.stack(states), np.stack(biases)


def build(weights: Weights, info: Mapping[str, object]) -> Model:
    """The model: six inputs (see `features.py`) -> `probabilities` [B, languages]. `info` becomes
    its `rt_info`.
    """
    builder = Builder("word_language")
    chars = builder.parameter("chars", "i64", [None, None])
    lengths = builder.parameter("lengths", "i64", [None])
    ngrams = builder.parameter("ngrams", "i64", [None])
    offsets = builder.parameter("offsets", "i64", [None])
    pieces = builder.parameter("pieces", "i64", [None])
    word_of_piece = builder.parameter("word_of_piece", "i64", [None])

    zero = builder.constant(np.int64(0), name="zero")
    (batch,) = builder.add("ShapeOf", 3, lengths, name="batch", output_type=ElementType.i64)  # [1]
    (words,) = builder.add(
        "Gather", 8, batch, zero, zero, name="words"
    )  # the same number as a scalar

    # The letters, read from both ends.
    input_weights, state_weights, biases = gru_weights(weights)
    size = state_weights.shape[2]
    table = builder.constant(weights["chars.weight"], name="chars_table")
    (letters,) = builder.add("Gather", 8, table, chars, zero, name="letters")  # [B, T, I]
    directions_size = builder.constant(np.array([2, size]), name="directions_size")
    (state_shape,) = builder.add("Concat", 1, batch, directions_size, name="state_shape", axis=0)
    (state,) = builder.add(
        "Broadcast",
        3,
        builder.constant(np.float32(0)),
        state_shape,
        name="zero_state",
        mode="numpy",
    )
    _, last = builder.add(
        "GRUSequence",
        5,
        letters,
        state,
        lengths,
        builder.constant(input_weights, name="gru_W"),
        builder.constant(state_weights, name="gru_R"),
        builder.constant(biases, name="gru_bias"),
        name="gru",
        direction="bidirectional",
        hidden_size=size,
        linear_before_reset=True,
        activations=["sigmoid", "tanh"],
    )  # last: [B, 2, H]
    flat = builder.constant(np.array([0, 2 * size]), name="flat")
    (read,) = builder.add("Reshape", 1, last, flat, name="read", special_zero=True)

    # The trigrams; a word of one or two letters has an empty bag.
    table = builder.constant(weights["ngrams.weight"], name="ngrams_table")
    (bag,) = builder.add("EmbeddingBagOffsetsSum", 3, table, ngrams, offsets, name="bag")

    # The marked bigrams and 4-grams.
    table = builder.constant(weights["pieces.weight"], name="pieces_table")
    (spelling,) = builder.add(
        "EmbeddingSegmentsSum", 3, table, pieces, word_of_piece, words, name="spelling"
    )

    (seen,) = builder.add("Concat", 1, read, bag, spelling, name="seen", axis=1)
    for layer in ("hidden", "scores"):
        matrix = builder.constant(weights[f"{layer}.weight"], name=f"{layer}_weight")
        bias = builder.constant(weights[f"{layer}.bias"][np.newaxis], name=f"{layer}_bias")
        (product,) = builder.add(
            "MatMul", 1, seen, matrix, name=f"{layer}_product", transpose_a=False, transpose_b=True
        )
        (seen,) = builder.add("Add", 1, product, bias, name=layer)
        if layer == "hidden":
            (seen,) = builder.add("ReLU", 1, seen, name="relu")
    (probabilities,) = builder.add("SoftMax", 8, seen, name="softmax", axis=1)
    builder.result(probabilities, "probabilities")
    for name, value in info.items():
        builder.info(name, value)
    return builder.model()
