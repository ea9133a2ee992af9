"""Packed sequences of recurrent layers, as PyTorch exports them to ONNX: README tells how answers
differ.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import uncork

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytestmark = pytest.mark.oracle


class Packed(torch.nn.Module):
    """A bidirectional GRU over rows of their own lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = torch.nn.GRU(6, 5, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, h = self.gru(packed)
        return pad_packed_sequence(y, batch_first=True)[0], h


def test_states_of_rows_that_end_early(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Packed().eval()
    x, lengths = torch.randn(3, 7, 6), torch.tensor([7, 3, 5])
    wanted = [value.detach().numpy() for value in module(x, lengths)]
    path = tmp_path / "packed.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, which is its old one
        torch.onnx.export(
            module,
            (x, lengths),
            path,
            dynamo=False,
            opset_version=17,
            input_names=["x", "lengths"],
            dynamic_axes={"x": {0: "rows", 1: "steps"}, "lengths": {0: "rows"}},
        )
    given = [x.numpy(), lengths.numpy()]
    found = uncork.load(path)(*given)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, atol=2e-6)
    openvino = pytest.importorskip("openvino")
    exact = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    theirs = openvino.Core().compile_model(path, "CPU", exact)(given)
    off = max(np.abs(theirs[i] - want).max() for i, want in enumerate(wanted))
    assert off > 0.1, "OpenVINO answers as PyTorch does now: README says otherwise"
