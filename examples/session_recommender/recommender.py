"""The recommender, in PyTorch and as an OpenVINO graph: which item comes next in a session?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from uncork import Builder, ElementType, Model

WIDTH = 64  # of an item's row in the table
UNITS = 128  # of the GRU
NEVER = np.float32(-1e9)  # added to the score of the unknown item, which nobody can be recommended


class Recommender(nn.Module):
    """A GRU over the items of a session; its last state asks for a row, and an item scores by how
    well its row agrees.

    The table is not part of the network: it is given with every call, since training changes it
    from batch to batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(WIDTH, UNITS, batch_first=True)
        self.wanted = nn.Linear(UNITS, WIDTH)
        self.dropout = nn.Dropout(0.2)

    def forward(self, table: Tensor, items: Tensor, lengths: Tensor) -> Tensor:
        """Scores [B, items of the table] from the table [items, WIDTH], items [B, T] and lengths
        [B], of at least 1.
        """
        rows = self.dropout(table[items])
        packed = nn.utils.rnn.pack_padded_sequence(
            rows, lengths, batch_first=True, enforce_sorted=False
        )
        _, last = self.gru(packed)  # [1, B, UNITS]
        scores = self.dropout(self.wanted(last[0])) @ table.T / WIDTH**0.5
        return scores + never(len(table))


def never(items: int) -> Tensor:
    """[items]: what keeps item 0, which stands for all unknown ones, out of the recommendations."""
    added = torch.zeros(items)
    added[0] = float(NEVER)
    return added


def random_table(items: int, generator: torch.Generator) -> Tensor:
    """[items, WIDTH]: a random row for every item, zeros for the unknown one."""
    table = torch.randn(items, WIDTH, generator=generator)
    table[0] = 0
    return table


def z_r_h(stacked: NDArray[Any]) -> list[NDArray[Any]]:
    """The blocks of a GRU weight in the IR's gate order z, r, h; PyTorch stacks them as r, z, n."""
    reset, update, new = np.split(stacked, 3)
    return [update, reset, new]


def build(network: Recommender, table: NDArray[np.float32], info: Mapping[str, object]) -> Model:
    """The graph: `items` [B, T] and `lengths` [B] -> `scores` [B, items of the table]. `info`
    becomes its `rt_info`.
    """
    weights = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    builder = Builder("session_recommender")
    items = builder.parameter("items", "i64", [None, None])
    lengths = builder.parameter("lengths", "i64", [None])

    zero = builder.constant(np.int64(0), name="zero")
    rows_of_items = builder.constant(table, name="item_table")
    (rows,) = builder.add(
        "Gather", 8, rows_of_items, items, zero, name="item_rows"
    )  # [B, T, WIDTH]

    (batch,) = builder.add("ShapeOf", 3, lengths, name="batch", output_type=ElementType.i64)  # [1]
    directions_units = builder.constant(np.array([1, UNITS]), name="directions_units")
    (state_shape,) = builder.add("Concat", 1, batch, directions_units, name="state_shape", axis=0)
    (state,) = builder.add(
        "Broadcast",
        3,
        builder.constant(np.float32(0)),
        state_shape,
        name="zero_state",
        mode="numpy",
    )
    # PyTorch has two biases a gate. Those of z and r are only ever added, so the IR holds their
    # sums; that of h is applied to the state before the reset gate (`linear_before_reset`), so its
    # two halves stay apart.
    of_input, of_state = z_r_h(weights["gru.bias_ih_l0"]), z_r_h(weights["gru.bias_hh_l0"])
    bias = np.concatenate(
        [of_input[0] + of_state[0], of_input[1] + of_state[1], of_input[2], of_state[2]]
    )
    _, last = builder.add(
        "GRUSequence",
        5,
        rows,
        state,
        lengths,
        builder.constant(
            np.concatenate(z_r_h(weights["gru.weight_ih_l0"]))[np.newaxis], name="gru_W"
        ),
        builder.constant(
            np.concatenate(z_r_h(weights["gru.weight_hh_l0"]))[np.newaxis], name="gru_R"
        ),
        builder.constant(bias[np.newaxis], name="gru_bias"),
        name="gru",
        direction="forward",
        hidden_size=UNITS,
        linear_before_reset=True,
        activations=["sigmoid", "tanh"],
    )  # last: [B, 1, UNITS]
    (session,) = builder.add(
        "Squeeze", 1, last, builder.constant(np.array([1]), name="direction"), name="session"
    )

    # The division by the root of WIDTH is done here once, in the weights.
    matrix = builder.constant(
        weights["wanted.weight"] / np.float32(WIDTH**0.5), name="wanted_weight"
    )
    shift = builder.constant(
        weights["wanted.bias"][np.newaxis] / np.float32(WIDTH**0.5), name="wanted_bias"
    )
    (product,) = builder.add(
        "MatMul", 1, session, matrix, name="wanted_product", transpose_a=False, transpose_b=True
    )
    (wanted,) = builder.add("Add", 1, product, shift, name="wanted")  # [B, WIDTH]
    (agreement,) = builder.add(
        "MatMul", 1, wanted, rows_of_items, name="agreement", transpose_a=False, transpose_b=True
    )
    (scores,) = builder.add(
        "Add",
        1,
        agreement,
        builder.constant(never(len(table)).numpy()[np.newaxis], name="never"),
        name="scores_of_items",
    )
    builder.result(scores, "scores")
    for name, value in info.items():
        builder.info(name, value)
    return builder.model()
