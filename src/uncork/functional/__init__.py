"""The operations on plain arrays, as in `torch.nn.functional`.

>>> import numpy as np
>>> from uncork import functional as F
>>> table = np.array([[1, 2], [10, 20], [100, 200]], np.float32)
>>> F.embedding_bag_offsets_sum(table, [0, 1, 2], [0, 2])
array([[ 11.,  22.],
       [100., 200.]], dtype=float32)

The element type is that of the first array, and so is the result's; an `ml_dtypes` array (bfloat16,
float8) gives one of its own type. Python lists have NumPy's default types, but weights, states and
biases given as lists take the type of the first array. Ids, offsets, lengths and counts may be
lists or arrays of any integer type: they are brought to 64 bits exactly, and floats are refused.
What is accepted and what it means is what `uncork.load` does with the same operation in a model.

A call that is made again with arrays of the same types and sizes is compiled, where there is a
kernel; from then on a call costs less than a microsecond beside its work.

Every function that is an operation takes `strict=True`, which refuses tolerated oddities (unsorted
segment ids, a first offset above 0, indices that Gather fills with zeros). What does not fit raises
InputError, which names the argument.

There is a function for every operation, named as OpenVINO's Python names it (`reduce_sum`,
`matmul`, `topk`): inputs by position, attributes by keyword. An array keeps its own type; numbers
and lists take that of the argument that they go with.

The names of `torch.nn.functional` take what torch's take: `F.conv2d(x, weight, stride=2)`,
`F.linear`, `F.layer_norm`, `F.interpolate`, `F.cross_entropy`; `docs/functional.md` has them all.
Where an operation has the name, too, arguments that only the operation has call it:
`F.softmax(x, axis=1)`. `gru` is `torch.gru`.
"""

from typing import Any

from uncork.functional._operations import (
    embedding_bag_offsets,
    embedding_bag_offsets_sum,
    embedding_bag_packed,
    embedding_bag_packed_sum,
    embedding_segments_sum,
    gather,
    gather_elements,
    gather_nd,
    gru_cell,
    gru_sequence,
    lstm_cell,
    lstm_sequence,
    rnn_cell,
    rnn_sequence,
)
from uncork.functional._torch.arrays import embedding, embedding_bag, gru

__all__ = [
    "embedding",
    "embedding_bag",
    "embedding_bag_offsets",
    "embedding_bag_offsets_sum",
    "embedding_bag_packed",
    "embedding_bag_packed_sum",
    "embedding_segments_sum",
    "gather",
    "gather_elements",
    "gather_nd",
    "gru",
    "gru_cell",
    "gru_sequence",
    "lstm_cell",
    "lstm_sequence",
    "rnn_cell",
    "rnn_sequence",
]


def __getattr__(name: str) -> Any:
    from uncork.functional._names import function_of

    made = globals()[name] = function_of(name)
    return made


def __dir__() -> list[str]:
    """The names of all functions."""
    from uncork.functional._names import names

    return sorted({*__all__, *names()})
