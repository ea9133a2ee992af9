"""`Call`: a node of an ONNX graph as its lowering sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from uncork.errors import UnsupportedError, ValidationError
from uncork.ir.model import Source
from uncork.onnx.graph import Graph
from uncork.onnx.registry import Added, Lowering, Rows, Value
from uncork.onnx.types import element_type_of
from uncork.types import Array, ElementType

if TYPE_CHECKING:
    from uncork.onnx.lower import Scope

_MISSING = object()
T = TypeVar("T")


class Call:
    """A node: its inputs as tensors of the graph, its attributes with the defaults of its version.

    `version` is that of the operator, the newest that is not newer than the model's `opset`.
    """

    def __init__(
        self,
        graph: Graph,
        op_type: str,
        version: int,
        inputs: Sequence[Value],
        attributes: Mapping[str, Any],
        outputs: Sequence[str],
        scope: Scope,
        name: str,
    ) -> None:
        self.graph, self.op_type, self.version = graph, op_type, version
        self.values, self.attributes = inputs, attributes
        self.outputs, self.scope, self.name = outputs, scope, name

    # ---- inputs

    @property
    def count(self) -> int:
        """How many inputs there are, those left empty included."""
        return len(self.values)

    def __getitem__(self, position: int) -> Source:
        """An input that the operator needs. Raises ValidationError where it is missing."""
        value = self.values[position] if position < len(self.values) else None
        if isinstance(value, (list, Rows, Added)):
            raise ValidationError(f"input {position}: expected a tensor, got a sequence")
        if value is None:
            raise ValidationError(f"input {position} is missing")
        return value

    def has(self, position: int) -> bool:
        """Whether an optional input is there."""
        return position < len(self.values) and self.values[position] is not None

    def optional(self, position: int) -> Source | None:
        """An input that may be missing."""
        return self[position] if self.has(position) else None

    def sequence(self, position: int) -> list[Value]:
        """An input that is a sequence. Raises ValidationError."""
        value = self.values[position] if position < len(self.values) else None
        if isinstance(value, (Rows, Added)):
            raise self.refuse(
                "of a sequence that a loop fills, anything but SequenceInsert at its end in a turn,"
                " and ConcatFromSequence, SequenceAt or SequenceLength behind the loop",
                "give tensors of equal shapes",
            )
        if not isinstance(value, list):
            raise ValidationError(f"input {position}: expected a sequence")
        return value

    def inputs_of(self, lowering: Lowering) -> list[Source | None]:
        """The inputs that a lowering names behind the graph and the node: those without a default
        must be there. Raises ValidationError.
        """
        named = lowering.__code__.co_argcount - 2
        needed = named - len(lowering.__defaults__ or ())
        return [self[i] if i < needed else self.optional(i) for i in range(named)]

    @property
    def tensors(self) -> list[Source]:
        """All inputs, which are tensors."""
        return [self[i] for i in range(self.count)]

    def known(self, position: int, what: str) -> list[int]:
        """The whole numbers of an input that must be known."""
        return self.graph.integers(self[position], what)

    def wants(self, position: int) -> bool:
        """Whether an output is asked for."""
        return position < len(self.outputs) and bool(self.outputs[position])

    # ---- attributes

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, its default by the schema, or the default given here."""
        value = self.attributes.get(name, _MISSING)
        return default if value is _MISSING else value

    def need(self, name: str) -> Any:
        """An attribute without which there is no meaning."""
        ValidationError.when(name not in self.attributes, f"attribute '{name}' is missing")
        return self.attributes[name]

    def integer(self, name: str, default: int = 0) -> int:
        return self._single(name, default, "an integer", int)

    def number(self, name: str, default: float = 0.0) -> float:
        return float(self._single(name, default, "a number", int, float))

    def text(self, name: str, default: str = "") -> str:
        return self._single(name, default, "text", str)

    def integers(self, name: str, default: Iterable[int] = ()) -> list[int]:
        return self._several(name, default, "integers", int)

    def numbers(self, name: str, default: Iterable[float] = ()) -> list[float]:
        return [float(v) for v in self._several(name, default, "numbers", int, float)]

    def texts(self, name: str) -> list[str]:
        return self._several(name, (), "texts", str)

    def _single(self, name: str, default: T, expected: str, *kinds: type) -> T:
        value: T = self.get(name, default)
        if not isinstance(value, kinds):
            raise ValidationError(f"attribute '{name}': expected {expected}, got {value!r:.60}")
        return value

    def _several(self, name: str, default: Iterable[T], expected: str, *kinds: type) -> list[T]:
        values = self._single(name, list(default), expected, list)
        if not all(isinstance(value, kinds) for value in values):
            raise ValidationError(f"attribute '{name}': expected {expected}, got {values!r:.60}")
        return list(values)

    def element_type(self, name: str, default: ElementType) -> ElementType:
        """An attribute that is the number of an element type, or 0 for a default."""
        number = self.integer(name)
        return element_type_of(number) if number else default

    def one_of(self, name: str, default: str, *choices: str) -> str:
        """An attribute that is one of some words. Raises ValidationError."""
        value = self.text(name, default)
        ValidationError.when(
            value not in choices,
            f"attribute '{name}': expected one of {', '.join(choices)}, got '{value:.60}'",
        )
        return value

    def tensor(self, name: str) -> tuple[Array, ElementType]:
        """An attribute that is a tensor."""
        value = self.need(name)
        ValidationError.when(
            not hasattr(value, "data_type"), f"attribute '{name}': expected a tensor"
        )
        return self.scope.tensor(value)

    # ---- what lowerings ask often

    def axis(self, rank: int, name: str = "axis", default: int = 0) -> int:
        """An axis of a tensor of some rank, counted from the first."""
        return self.place(self.integer(name, default), rank)

    def place(self, axis: int, rank: int) -> int:
        """An axis counted from the first. Raises ValidationError where there is none."""
        ValidationError.when(
            not -rank <= axis < rank, f"axis {axis} is outside {-rank}..{rank - 1} for rank {rank}"
        )
        return axis + rank if axis < 0 else axis

    def axes(self, position: int, since: int, name: str = "axes") -> list[int] | None:
        """Axes that are an attribute, or from version `since` on an input; None where left out."""
        if self.version < since:
            return self.integers(name) if name in self.attributes else None
        return self.known(position, f"input {position} ({name})") if self.has(position) else None

    def refuse(self, what: str, instead: str) -> UnsupportedError:
        """The error that says what is not supported, and what to do."""
        return UnsupportedError(f"{what} is not supported: {instead}")

    def wanted(self, value: T | None, what: str, instead: str) -> T:
        """A value that must be known; else that error is raised."""
        if value is None:
            raise self.refuse(what, instead)
        return value

    def refuse_if(self, condition: object, what: str, instead: str) -> None:
        """Raise that error where the condition holds."""
        if condition:
            raise self.refuse(what, instead)
