"""A shape that is an attribute may be given as people have it: as an object, a text or sizes."""

from __future__ import annotations

from typing import Any

import pytest

import uncork
from uncork.ops import find


@pytest.mark.parametrize(
    "given",
    [uncork.PartialShape([1, None, (2, 8)]), "1,?,2..8", [1, None, (2, 8)], (1, -1, (2, 8))],
)
def test_spellings(given: Any) -> None:
    made = find("Parameter", 1)(shape=given, element_type="f32")
    assert str(made.shape) == str(uncork.PartialShape([1, None, (2, 8)]))


def test_a_shape_of_unknown_rank_stays_so() -> None:
    made = find("Parameter", 1)(shape=uncork.PartialShape(), element_type="f32")
    assert made.shape.rank is None


@pytest.mark.parametrize("given", [3, "1,x", [1, "x"]])
def test_what_is_no_shape(given: Any) -> None:
    with pytest.raises(
        uncork.ValidationError, match=r"attribute 'shape': expected a shape such as '1,\?,2', got"
    ):
        find("Parameter", 1)(shape=given, element_type="f32")
