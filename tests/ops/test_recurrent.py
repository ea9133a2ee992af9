"""What the samples cannot say of the recurrent operations: how files spell attributes, and what a
call costs.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.samples._recurrent import running_sum
from tests.samples._sample import Case
from uncork.errors import UnsupportedError, ValidationError
from uncork.ops import Operation, find
from uncork.ops._common.recurrent import Recurrent, sigmoid
from uncork.types import Array, ElementType, PartialShape, TensorSpec

SEQUENCES = ["GRU", "LSTM", "RNN"]
#: f, then the others
DEFAULTS = {"GRU": "sigmoid, tanh", "LSTM": "sigmoid, tanh, tanh", "RNN": "tanh"}


def sequence(family: str) -> type[Operation]:
    operation = find(f"{family}Sequence", 5)
    assert operation is not None
    return operation


@pytest.mark.parametrize("family", SEQUENCES)
@pytest.mark.parametrize("text", [{}, {"activations": ""}, {"activations": DEFAULTS["LSTM"]}])
def test_absent_or_empty_activations_are_written_as_the_defaults(
    family: str, text: dict[str, str]
) -> None:
    if text.get("activations"):
        text = {"activations": DEFAULTS[family]}
    operation = sequence(family).from_text({"hidden_size": "4", **text})
    assert operation.to_text()["activations"] == DEFAULTS[family]


@pytest.mark.parametrize("family", SEQUENCES)
def test_file_spellings(family: str) -> None:
    texts = {
        "hidden_size": "4",
        "direction": " REVERSE ",
        "clip": "inf",
        "activations": "Sigmoid,TANH , ReLU",
        "activations_alpha": "",
    }
    operation = sequence(family).from_text(texts)
    assert operation.to_text()["direction"] == "reverse"
    assert operation.to_text()["clip"] == "inf"
    assert sequence(family).from_text({"hidden_size": "4"}).to_text()["direction"] == "forward"


@pytest.mark.parametrize("family", SEQUENCES)
def test_a_file_with_wrong_attributes_is_told_all_at_once(family: str) -> None:
    with pytest.raises(
        ValidationError,
        match=r"(?s)hidden_size' is missing.*clip': expected a number.*direction': expected one of",
    ) as raised:
        sequence(family).from_text({"clip": "much", "direction": "sideways"})
    assert raised.value.message.count(";") == 2


def test_unknown_activations_are_unsupported_at_load() -> None:
    with pytest.raises(
        UnsupportedError, match="'elu' is not supported; supported are relu, sigmoid, tanh"
    ):
        sequence("GRU").from_text({"hidden_size": "4", "activations": "sigmoid,elu"})


@pytest.mark.parametrize("family", SEQUENCES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_cost_follows_the_lengths(
    family: str, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [5, 0, 1, 2]
    directions = 2 if direction == "bidirectional" else 1
    operation = sequence(family)(hidden_size=1, direction=direction)
    assert isinstance(operation, Recurrent)
    rows: list[int] = []
    step = type(operation).step

    def counted(self: Recurrent, x: Array, *rest: Array) -> tuple[Array, ...]:
        rows.append(len(x))
        return step(self, x, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(type(operation), "step", counted)
    inputs = running_sum(family, np.ones((4, 9)), np.zeros((4, directions)), lengths, direction)
    operation.evaluate(Case(inputs).specs())
    assert sum(rows) == directions * sum(lengths)


@pytest.mark.parametrize("family", SEQUENCES)
def test_wrong_constant_lengths_are_found_at_load(family: str) -> None:
    specs = Case(running_sum(family, [[1, 2, 3]], [0], [4])).specs()
    place = 3 if family == "LSTM" else 2
    unknown = [
        s if i == place else TensorSpec(s.element_type, s.shape)
        for i, s in enumerate(specs)
        if s is not None
    ]
    with pytest.raises(Exception, match=r"sequence_lengths\[0\] is 4, expected 0 to 3"):
        sequence(family)(hidden_size=1).describe(unknown)


@pytest.mark.parametrize("family", SEQUENCES)
def test_sizes_are_put_together_from_all_inputs(family: str) -> None:
    """X may leave the batch open where another input knows it; the hidden size is the
    attribute's.
    """
    unknown = TensorSpec(ElementType.f32, PartialShape())
    x = TensorSpec(ElementType.f32, PartialShape([None, 7, None]))
    lengths = TensorSpec(ElementType.i64, PartialShape([5]))
    states = [unknown] * (2 if family == "LSTM" else 1)
    outputs = sequence(family)(hidden_size=4, direction="bidirectional").describe(
        [x, *states, lengths, unknown, unknown, unknown]
    )
    assert outputs[0].shape == [5, 2, 7, 4]
    assert all(state.shape == [5, 2, 4] for state in outputs[1:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sigmoid_neither_overflows_nor_loses_its_tails(dtype: type) -> None:
    values = np.array([-80, -1, 0, 1, 80, -1e30, 1e30, -np.inf, np.inf], dtype)
    with np.errstate(all="raise", under="ignore"):
        result = sigmoid(values)
    assert result.dtype == dtype
    expected = np.array(
        [1.8048513878454153e-35, 0.2689414213699951, 0.5, 0.7310585786300049, 1, 0, 1, 0, 1]
    )
    np.testing.assert_allclose(result, expected, rtol=4 * float(np.finfo(dtype).eps), atol=0)
