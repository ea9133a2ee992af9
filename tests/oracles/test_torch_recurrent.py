"""The recurrent sequences against torch.nn, over packed sequences: another code base with other
gate orders.

torch cannot pack a sequence of length 0, so lengths start at 1 here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from uncork.ops import find
from uncork.types import Array, ElementType, PartialShape, TensorSpec

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

#: Where each of the IR's gates stands in torch: GRU has r, z, n there, LSTM i, f, g, o.
ORDER = {"GRU": [1, 0, 2], "LSTM": [1, 0, 2, 3], "RNN": [0]}


def reordered(family: str, weights: Any) -> Array:
    """A stack of one block for each gate, in the IR's order."""
    blocks = np.split(weights.detach().numpy(), len(ORDER[family]))
    return np.concatenate([blocks[i] for i in ORDER[family]])


def weights_of(family: str, module: Any, directions: int) -> list[Array]:
    """W, R and B of all directions."""
    w, r, b = [], [], []
    for suffix in ["", "_reverse"][:directions]:
        w.append(reordered(family, getattr(module, f"weight_ih_l0{suffix}")))
        r.append(reordered(family, getattr(module, f"weight_hh_l0{suffix}")))
        input_bias, recurrent_bias = (
            reordered(family, getattr(module, f"bias_{k}_l0{suffix}")) for k in ("ih", "hh")
        )
        if (
            family == "GRU"
        ):  # torch resets after the product, so the biases of the last gate stay apart
            hidden = len(input_bias) // 3
            both = input_bias[: 2 * hidden] + recurrent_bias[: 2 * hidden]
            b.append(np.concatenate([both, input_bias[2 * hidden :], recurrent_bias[2 * hidden :]]))
        else:
            b.append(input_bias + recurrent_bias)
    return [np.stack(w), np.stack(r), np.stack(b)]


def specs(*arrays: Array) -> list[TensorSpec]:
    result = []
    for array in arrays:
        element_type = ElementType.of_dtype(array.dtype)
        assert element_type is not None
        result.append(TensorSpec(element_type, PartialShape(array.shape), array))
    return result


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(
    ("family", "more"), [("GRU", {}), ("LSTM", {}), ("RNN", {}), ("RNN", {"nonlinearity": "relu"})]
)
def test_sequences_agree_with_torch(
    family: str, more: dict[str, str], bidirectional: bool, dtype: str
) -> None:
    generator = np.random.default_rng(7)
    batch, steps, size, hidden = 5, 7, 3, 4
    directions = 2 if bidirectional else 1
    lengths = np.array([7, 1, 4, 6, 2])
    torch.manual_seed(7)
    module = getattr(torch.nn, family)(
        size,
        hidden,
        batch_first=True,
        bidirectional=bidirectional,
        dtype=getattr(torch, dtype),
        **more,
    )
    x = generator.standard_normal((batch, steps, size)).astype(dtype)
    states = [
        generator.standard_normal((batch, directions, hidden)).astype(dtype)
        for _ in range(2 if family == "LSTM" else 1)
    ]
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        torch.from_numpy(x), torch.from_numpy(lengths), batch_first=True, enforce_sorted=False
    )
    initial = [torch.from_numpy(s.swapaxes(0, 1).copy()) for s in states]
    with torch.no_grad():
        output, last = module(packed, tuple(initial) if family == "LSTM" else initial[0])
    padded, _ = torch.nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=steps)
    y = padded.numpy().reshape(batch, steps, directions, hidden).swapaxes(1, 2)

    attributes: dict[str, Any] = {
        "hidden_size": hidden,
        "direction": "bidirectional" if bidirectional else "forward",
    }
    if family == "GRU":
        attributes["linear_before_reset"] = True
    if more:
        attributes["activations"] = ("relu",)
    operation = find(f"{family}Sequence", 5)
    assert operation is not None
    results = operation(**attributes).evaluate(
        specs(x, *states, lengths, *weights_of(family, module, directions))
    )
    tolerance = 2e-6 if dtype == "float32" else 1e-13
    for result, expected in zip(
        results,
        [y, *[s.numpy().swapaxes(0, 1) for s in (last if family == "LSTM" else [last])]],
        strict=True,
    ):
        np.testing.assert_allclose(result.value, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("family", "since"), [("GRU", 3), ("LSTM", 4), ("RNN", 1)])
def test_cells_agree_with_torch(family: str, since: int) -> None:
    generator = np.random.default_rng(11)
    batch, size, hidden = 5, 3, 4
    torch.manual_seed(11)
    module = getattr(torch.nn, family)(size, hidden, batch_first=True)
    cell = getattr(torch.nn, f"{family}Cell")(size, hidden)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(cell, name).data = getattr(module, f"{name}_l0").data
    x = generator.standard_normal((batch, size)).astype("f4")
    states = [
        generator.standard_normal((batch, hidden)).astype("f4")
        for _ in range(2 if family == "LSTM" else 1)
    ]
    given = [torch.from_numpy(s) for s in states]
    with torch.no_grad():
        after = cell(torch.from_numpy(x), tuple(given) if family == "LSTM" else given[0])
    operation = find(f"{family}Cell", since)
    assert operation is not None
    attributes: dict[str, Any] = {"linear_before_reset": True} if family == "GRU" else {}
    weights = [a[0] for a in weights_of(family, module, 1)]
    results = operation(hidden_size=hidden, **attributes).evaluate(specs(x, *states, *weights))
    for result, expected in zip(results, after if family == "LSTM" else [after], strict=True):
        np.testing.assert_allclose(result.value, expected.numpy(), rtol=2e-6, atol=2e-6)
