"""What a samples file gives for each operation: worked examples, refusals, and an independent loop
with random cases.

Expected values come from the specification pages, from hand work or from the loop, which is written
element by element from the page's formula in plain Python: never from the operation under test nor
from the NumPy call that it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from uncork.ops import Operation
from uncork.types import ElementType, PartialShape, TensorSpec


def _carriers(
    arrays: Sequence[Any], types: Sequence[str | None]
) -> tuple[tuple[Any, ...], tuple[ElementType | None, ...]]:
    """Arrays in their carrier dtype, and their element types: from `types` where given, else from
    NumPy's dtype.
    """
    values, element_types = [], []
    for position, array in enumerate(arrays):
        name = types[position] if position < len(types) else None
        if array is None:
            values.append(None)
            element_types.append(None)
            continue
        array = np.asarray(array)
        element_type = ElementType.parse(name) if name else ElementType.of_dtype(array.dtype)
        assert element_type is not None, (
            f"say the element type of array {position}: {array.dtype} has none"
        )
        values.append(array.astype(element_type.dtype, copy=False))
        element_types.append(element_type)
    return tuple(values), tuple(element_types)


class Case:
    """Inputs and attributes of one call. `types` names element types that NumPy's dtypes do not say
    (bf16, u4, ...).
    """

    def __init__(
        self,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        types: Sequence[str | None] = (),
    ) -> None:
        self.inputs, self.types = _carriers(inputs, types)
        self.attributes = dict(attributes or {})

    def specs(self) -> list[TensorSpec | None]:
        return [
            None if a is None else TensorSpec(t, PartialShape(a.shape), a)
            for a, t in zip(self.inputs, self.types, strict=True)
        ]

    @property
    def zero(self) -> Any:
        """The carrier value of the number 0 in the type of the first input; "" of strings."""
        name = self.types[0].name if self.types[0] is not None else ""
        return {"string": "", "nf4": 7}.get(name, 0)  # code 7: QLoRA, appendix E

    def __repr__(self) -> str:
        return (
            f"Case({list(self.inputs)!r}, {self.attributes!r}, "
            f"types={[t and t.name for t in self.types]})"
        )


@dataclass(frozen=True)
class Sample:
    """One call whose answer is known. Give `output_types` where NumPy's dtypes do not say them.

    `openvino` tells why OpenVINO is not held against this sample: it refuses it, crashes, or
    differs from the page, as the page of operations lists; or "untested: .." and why it cannot be
    asked.
    """

    name: str
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    types: Sequence[str | None] = ()
    output_types: Sequence[str | None] = ()
    rtol: float = 1e-6
    atol: float = 1e-6
    openvino: str = ""

    @property
    def case(self) -> Case:
        return Case(self.inputs, self.attributes, self.types)

    @property
    def expected(self) -> tuple[tuple[Any, ...], tuple[ElementType | None, ...]]:
        return _carriers(self.outputs, self.output_types)


@dataclass(frozen=True)
class Refusal:
    """A call, or a model, that must be refused. `message` is a regular expression to find in the
    error's text.

    `strict` refusals are tolerated without strict=True. Attribute values that are refused go in
    `attributes` as well.
    """

    name: str
    inputs: Sequence[Any]
    message: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    types: Sequence[str | None] = ()
    strict: bool = False


@dataclass(frozen=True, repr=False)
class Samples:
    """Everything the test suite knows of one operation.

    `loop(case)` gives the outputs of a case by an independent element-by-element computation;
    `cases` is a Hypothesis strategy of small random cases (ranks, types, empty and ragged shapes).
    Both may be left out only for operations whose result is random or that move values in and out
    of a model.
    """

    operation: type[Operation]
    samples: Sequence[Sample]
    refusals: Sequence[Refusal] = ()
    cases: st.SearchStrategy[Case] | None = None
    loop: Callable[[Case], Sequence[Any]] | None = None
    rtol: float = 1e-5
    atol: float = 1e-6
    without_loop: str = ""

    def __repr__(self) -> str:
        return f"Samples({self.operation.label()})"
