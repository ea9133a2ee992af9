"""The call of an operation on plain arrays: arguments to specs, errors in the caller's words."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import numpy as np

from uncork.compiler.arguments import ModelPort, accept, plain, present
from uncork.compiler.options import Precision
from uncork.errors import InputError, UncorkError, UnsupportedError, ValidationError
from uncork.ir.build import Builder
from uncork.ir.model import Source
from uncork.ops import find
from uncork.types import (
    ML_DTYPES,
    Array,
    ElementType,
    PartialShape,
    TensorSpec,
    describe_array,
    type_of_dtype,
)


class Call:
    """The arguments of one call, in the order of the operation's inputs, under the names that the
    caller knows.
    """

    def __init__(self, function: str, type_name: str, opset: int, strict: bool) -> None:
        self.function = function
        self.type_name = type_name
        self.opset = opset
        self.strict = strict
        self.specs: dict[str, TensorSpec | None] = {}
        #: The arguments as they were given; lists as arrays.
        self.given: dict[str, Any] = {}
        #: The arguments that are integers of any width, whatever type the first one has.
        self.integers: set[str] = set()
        #: Those of them that choose no rows, places or lengths: axes, and the like.
        self.settings: set[str] = set()
        self.attributes: dict[str, Any] = {}
        #: The arguments whose sizes belong to a plan.
        self.fixed: set[str] = set()
        self.dtype = np.dtype(np.float32)
        #: What factors of products may be rounded to.
        self.precision: Precision = "f32"

    def in_precision(self, precision: str) -> Call:
        """This call, whose products may be rounded as `uncork.load` has it."""
        expected = get_args(Precision)
        if precision not in expected:
            raise self.error(
                f"precision: expected one of {', '.join(expected)}, got {precision!r}",
                input="precision",
            )
        if precision != "f32":
            from uncork.compiler.compile import precision_here  # few calls want another

            try:
                self.precision = precision_here(cast("Precision", precision))
            except UnsupportedError as error:
                raise error.at(self.function) from None
        return self

    def graph(self) -> Builder:
        """What a model of this call is built by."""
        return Builder(self.function)

    def layers(self, builder: Any, inputs: Sequence[Source | None]) -> Sequence[Source]:
        """The outputs of the call's layers. Raises UncorkError where there can be none."""
        given = [*inputs]
        while given and given[-1] is None:
            given.pop()
        present = [source for source in given if source is not None]
        if len(present) < len(given):
            raise UncorkError("a layer has no gaps between its inputs")
        added: Sequence[Source] = builder.add(
            self.type_name, self.opset, *present, **self.attributes
        )
        return added

    def first(self, name: str, value: Any) -> None:
        """Take the argument that decides the element type."""
        array = self._array(name, value)
        element_type = type_of_dtype(array.dtype)
        if element_type is None or (
            array.dtype == object and not all(isinstance(item, str) for item in array.flat)
        ):
            got = type(value).__name__ if array.dtype == object else array.dtype
            raise self.error(
                f"input '{name}': expected an array of numbers or strings, got {got}", input=name
            )
        self.dtype = array.dtype
        self._add(name, element_type, array)

    def same_type(self, **values: Any) -> None:
        """Take arguments of the element type of the first, None for absent ones.

        Numbers without a type of their own take it.
        """
        first, spec = next(iter(self.specs.items()))
        assert spec is not None, "the first argument is never absent"
        for name, value in values.items():
            typed = hasattr(value, "dtype") or hasattr(value, "__array__")
            if typed:
                value = self._array(name, value)
                if type_of_dtype(value.dtype) is not spec.element_type:
                    raise self.error(
                        f"input '{name}': expected {spec.element_type} as '{first}' "
                        f"has, got {describe_array(value)}",
                        input=name,
                    )
            self._add(name, spec.element_type, value)

    def typed(self, name: str, value: Any, like: str | None, listed: ElementType | None) -> None:
        """Take an argument of a type of its own, None for an absent one. Numbers without a type
        have that of the argument `like`, or are `listed`, or what NumPy makes of them.
        """
        has_type = hasattr(value, "dtype") or hasattr(value, "__array__")
        spec = None if like is None else self.specs[like]
        if value is not None and not has_type and not any(self.specs.values()):
            listed = None  # the first argument: NumPy's type, as everywhere
        if value is None:
            self._add(name, ElementType.i64, None)
        elif has_type or (spec is None and listed is None):
            kept = self.dtype if any(self.specs.values()) else None
            self.first(name, value)
            if kept is not None:
                self.dtype = kept
        else:
            self._add(name, spec.element_type if spec is not None else listed, value)

    def counts(self, **values: Any) -> None:
        """Take ids, offsets, lengths and numbers as i64, exactly; None for absent ones."""
        self.integers.update(values)
        for name, value in values.items():
            self._add(name, ElementType.i64, None if value is None else self._integers(name, value))

    def index(self, name: str, value: Any) -> None:
        """Take indices of any integer type, in that type."""
        self.integers.add(name)
        array = self._integers(name, value)
        self._add(name, type_of_dtype(array.dtype) or ElementType.i64, array)

    def number(self, name: str, value: Any) -> int:
        """An integer that is an attribute of the operation."""
        try:
            return operator.index(value)
        except TypeError:
            raise self.error(
                f"input '{name}': expected an integer, got {value!r}", input=name
            ) from None

    def hidden_size(self, name: str) -> int:
        """The last dimension of a state."""
        spec = self.specs[name]
        if spec is None:
            raise self.error(f"input '{name}' is missing", input=name)
        shape = spec.shape.static
        if not shape or not shape[-1]:
            raise self.error(
                f"input '{name}': expected a last dimension of the hidden size, "
                f"at least 1, got shape {list(shape)}",
                input=name,
            )
        return shape[-1]

    def with_attributes(self, **attributes: Any) -> Call:
        """This call, with the attributes of its operation."""
        self.attributes = attributes
        return self

    def evaluate(self) -> list[Array]:
        """The outputs of the reference, in the dtype of the caller's first array."""
        operation = find(self.type_name, self.opset)
        if operation is None:
            raise AssertionError(f"{self.type_name}-{self.opset} is not registered")
        names = dict(zip((port.name for port in operation.inputs), self.specs, strict=False))
        try:
            called = operation(**self.attributes, strict=self.strict)
            outputs = called.evaluate(list(self.specs.values()))
        except (InputError, ValidationError) as error:
            known = error.problems[0].known()
            if "input" in known:
                known["input"] = names.get(known["input"], known["input"])
            raise self.error(renamed(error.message, names), **known) from None
        except UncorkError as error:
            raise error.at(self.function) from None
        return [self._restored(output) for output in outputs]

    def error(self, message: str, **known: Any) -> InputError:
        """An error of this function; `known` are fields of the problem."""
        return InputError(message, self.function, **known)

    def _array(self, name: str, value: Any) -> Array:
        try:
            return np.asarray(plain(value))
        except (ValueError, TypeError, RuntimeError, OverflowError) as error:
            raise self.error(
                f"input '{name}': expected an array, got {type(value).__name__}: {error}",
                input=name,
            ) from None

    def _integers(self, name: str, value: Any) -> Array:
        array = self._array(name, value)
        if array.size == 0 and isinstance(value, (list, tuple)):
            return array.astype(np.int64)  # an empty list has no type; NumPy calls it float
        if array.dtype.kind not in "iu":
            beyond = array.dtype == object and all(isinstance(item, int) for item in array.flat)
            got = "integers of more than 64 bits" if beyond else describe_array(array)
            hint = (
                ("; ids and counts are never rounded: convert them yourself")
                if array.dtype.kind == "f"
                else ""
            )
            raise self.error(f"input '{name}': expected integers, got {got}{hint}", input=name)
        return array

    def _add(self, name: str, element_type: ElementType | None, value: Any) -> None:
        self.given[name] = value
        if value is None or element_type is None:
            self.specs[name] = None
            return
        if isinstance(value, np.ndarray) and value.dtype.name in ML_DTYPES:
            array = np.ascontiguousarray(value).reshape(value.shape).view(element_type.dtype)
        else:
            try:
                array = accept(ModelPort((name,), element_type, PartialShape()), value)
            except InputError as error:
                raise self.error(str(error), **error.problems[0].known()) from None
        self.specs[name] = TensorSpec.of_array(element_type, array)

    def _restored(self, output: TensorSpec) -> Array:
        if ML_DTYPES.get(self.dtype.name) is output.element_type:
            return output.known.view(self.dtype)
        return present(output.element_type, output.known)


def renamed(message: str, names: Mapping[str, str]) -> str:
    """An operation's message with the arguments' names in place of its inputs', and without port
    numbers.
    """

    def replaced(found: re.Match[str]) -> str:
        quoted, bare = found.groups()
        if quoted is None:
            return names.get(bare, bare)
        return f"'{names[quoted]}'" if quoted in names else found[0]

    return re.sub(r"'(\w+)'(?: \(port \d+\))?|\b(\w+)(?=\[)", replaced, message)
