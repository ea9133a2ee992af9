"""Boxes of any number of cells: they are read a few at a time, and those far outside an image not
at all.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tests.ops.test_every_op import ALL, agree
from tests.samples._sample import Sample, Samples
from uncork.ops import find, roi_align

ALIGNS = [
    pytest.param(entry, sample, id=f"{entry.operation.label()}: {sample.name}")
    for entry in ALL.values()
    if issubclass(entry.operation, roi_align._Align)
    for sample in entry.samples
]


@pytest.mark.parametrize(("entry", "sample"), ALIGNS)
def test_few_at_a_time(entry: Samples, sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roi_align, "_AT_ONCE", 3)
    (result,) = entry.operation(**sample.attributes).evaluate(sample.case.specs())
    (wanted,), (element_type,) = sample.expected
    agree(result.value, wanted, element_type, sample.rtol, sample.atol)


@pytest.mark.parametrize(("mode", "wanted"), [("avg", 64 / 1e10), ("max", 1.0)])
def test_a_box_of_ten_billion_cells(mode: str, wanted: float) -> None:
    """Their middles are half a pixel behind whole numbers: 8 times 8 of them lie in the image."""
    align = find("ROIAlign", 9)(
        pooled_h=1, pooled_w=1, sampling_ratio=0, spatial_scale=1.0, mode=mode
    )
    image = np.ones((1, 1, 8, 8), np.float32)
    box = np.array([[0, 0, 100_000, 100_000]], np.float32)
    tracemalloc.start()
    result = align.reference(image, box, np.array([0]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(result, [[[[wanted]]]], rtol=1e-6)
    assert peak < 100e6
