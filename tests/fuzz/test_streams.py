"""Random graphs with a time axis, with a fixed seed: each streams right, or a layer refuses it."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.streams import LAYERS, fuzz, grown

pytest.importorskip("llvmlite")


def test_random_graphs_stream_right_or_are_refused() -> None:
    found = fuzz("2026", 120)
    right = sum(count for what, count in found.items() if what.startswith("right"))
    refused = {what: count for what, count in found.items() if what.startswith("refused")}
    assert right > 60
    assert found["right, time ahead"] > 5
    assert found["right, time early"] > 5
    assert found["right, latest"] > 3
    assert len(refused) > 5


def test_random_graphs_have_every_kind_of_layer_that_keeps_or_mixes_frames() -> None:
    types: Counter[str] = Counter()
    for number in range(200):
        types.update(node.type_name for node in grown(f"2026:{number}").nodes)
    kinds = (
        *("Pad", "Slice", "StridedSlice", "Convolution", "GroupConvolution", "MaxPool", "AvgPool"),
        *("ConvolutionBackpropData", "CumSum", "GRUSequence", "LSTMSequence", "RNNSequence"),
        *("SoftMax", "MVN", "Reshape", "Concat", "Range", "Broadcast", "Gather", "Divide"),
    )
    assert {kind: types[kind] for kind in kinds if types[kind] < 5} == {}
    assert len(LAYERS) > 20
