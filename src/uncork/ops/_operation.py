"""`Operation`: the base class by which an operation of the IR is declared, checked, described and
defined.

A subclass states its ports and attributes as class fields and has two methods:

- `infer(self, *specs)` takes one `TensorSpec` per input (None for an absent optional one), refuses
  what cannot be with `self.require(...)`, and returns the shape of each output. It runs at load,
  with whatever is known then, and again before every execution of the reference, with everything
  known: a rule is written once and holds at both times.
- `reference(self, *arrays)` is plain NumPy from the formula of the specification page, for reading.
  It may trust `infer`.

What all operations share is done here: types of ports, arity, f16 and bf16 computed in f32 and
rounded once, the limits of memory, and the propagation of small constant values that shapes are
computed from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

import numpy as np

from uncork.blas import limited
from uncork.errors import InputError, UncorkError, ValidationError
from uncork.ops._elements import FOLD_LIMIT as FOLD_LIMIT
from uncork.ops._elements import Elements, by_moving, by_place, carried
from uncork.ops._memory import check_memory as check_memory
from uncork.ops._ports import (
    ANY,
    ARITHMETIC,
    REAL,
    REQUIRED,
    Attribute,
    Field,
    Input,
    Output,
    describe_types,
)
from uncork.storage import blank, decode, encode
from uncork.types import MAX_RANK, Array, Element, ElementType, PartialShape, TensorSpec

Self = TypeVar("Self", bound="Operation")
Value = TypeVar("Value")


class Operation:
    """One operation at one version, with its attribute values: `Gather8(batch_dims=1)`.

    It does not change. `operation.replace(batch_dims=0)` is the same one with another value.
    """

    #: The type in files; where a class is not for files, which have no opset 0, its name.
    type_name: ClassVar[str]
    opset: ClassVar[int] = 0
    inputs: ClassVar[tuple[Input, ...]] = ()
    outputs: ClassVar[tuple[Output, ...]] = ()
    attributes: ClassVar[dict[str, Attribute[Any]]] = {}
    #: Each output element depends on the input elements of the same (broadcast) place only.
    elementwise: ClassVar[bool] = False
    #: Values pass as they are stored, in the carrier type of any element type: nothing is computed
    #: with them. Follows from the inputs, if any.
    moves_values: ClassVar[bool] = False
    #: The reference writes the number 0 where it has no data: its last argument is that, as a
    #: carrier value.
    fills: ClassVar[bool] = False
    #: The reference multiplies matrices by NumPy, which has threads of its own.
    multiplies: ClassVar[bool] = False
    #: The same inputs give the same outputs.
    deterministic: ClassVar[bool] = True
    #: The fields beside the attributes, by name.
    fields: ClassVar[dict[str, Field[Any]]] = {}
    #: Values of the fields that have one by default.
    defaults: ClassVar[dict[str, Any]] = {}
    #: Tolerated oddities of the data are errors (decisions.md, rule 4).
    strict = Field(False)
    #: Oddities of constants are errors then, too. Where not, the model's author meant them.
    strict_on_constants: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        named: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            named.update(vars(base))
        if not cls.opset and "type_name" not in vars(cls):
            cls.type_name = cls.__name__
        cls.inputs = tuple(f for f in named.values() if isinstance(f, Input))
        if "moves_values" not in vars(cls):
            cls.moves_values = any(port.moved for port in cls.inputs)
        cls.outputs = tuple(f for f in named.values() if isinstance(f, Output))
        cls.attributes = {n: f for n, f in named.items() if isinstance(f, Attribute)}
        cls.fields = {
            n: f for n, f in named.items() if isinstance(f, Field) and n not in cls.attributes
        }
        cls.defaults = {n: f.default for n, f in cls.fields.items() if f.default is not REQUIRED}

    def __init__(self, *fields: Any, **values: Any) -> None:
        """`fields` are values of those beside the attributes, in the order of the class."""
        if fields:
            names = [name for name in self.fields if name != "strict"]
            if len(fields) > len(names):
                raise TypeError(
                    f"{type(self).__name__} takes {len(names)} fields, got {len(fields)}"
                )
            values = {**dict(zip(names, fields, strict=False)), **values}
        given = self._accepted(values)
        kept = vars(self)
        kept.update(self.defaults)
        kept.update({n: a.read(None) for n, a in self.attributes.items() if n not in given})
        kept.update(given)
        self._complete()

    @classmethod
    def from_text(cls, texts: Mapping[str, str]) -> Operation:
        """The operation of a file's <data> element.

        Attributes that the operation does not have are ignored.
        """
        problems: list[str] = []
        values: dict[str, Any] = {}
        for name, attribute in cls.attributes.items():
            try:
                values[name] = attribute.read(texts.get(name))
            except ValidationError as error:
                problems.append(error.message)
        if problems:
            raise ValidationError("; ".join(problems))
        return cls._made({**cls.defaults, **values})

    def to_text(self) -> dict[str, str]:
        """The attributes as the file spells them."""
        return {
            name: attribute.kind.format(getattr(self, name))
            for name, attribute in self.attributes.items()
        }

    def replace(self: Self, **changes: Any) -> Self:
        """The same operation, but with these attributes and fields.

        Raises ValidationError for values that it does not take.
        """
        values = {n: v for n, v in vars(self).items() if n in self.attributes or n in self.fields}
        return self._made({**values, **self._accepted(changes)})

    @classmethod
    def _made(cls: type[Self], values: Mapping[str, Any]) -> Self:
        """The operation of these values, which are accepted."""
        made = object.__new__(cls)
        vars(made).update(values)
        made._complete()
        return made

    @classmethod
    def _accepted(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that Python code gives, checked, as the operation keeps them."""
        if not values:
            return {}
        declared: dict[str, Field[Any]] = {**cls.attributes, **cls.fields}
        cls.refuse_unknown(values, declared)
        return {name: declared[name].given(value) for name, value in values.items()}

    @classmethod
    def refuse_unknown(cls, names: Collection[str], known: Collection[str]) -> None:
        """Refuse names of which one is not `known`."""
        unknown = sorted(set(names) - set(known))
        if unknown:
            raise ValidationError(
                f"{cls.label()} has no attribute '{unknown[0]}'; "
                f"it has {sorted(cls.attributes) or 'none'}"
            )

    def _complete(self) -> None:
        """Check the values of a new operation and write in full what follows from others."""
        self.check_attributes()
        vars(self).update(self.implied_attributes())

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"{type(self).__name__} does not change: use operation.replace({name}=...)"
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} does not change: it keeps '{name}'")

    @classmethod
    def label(cls) -> str:
        """`Gather-8`, as the specification names operations."""
        return f"{cls.type_name}-{cls.opset}"

    # ---- what a subclass defines

    def check_attributes(self) -> None:
        """Rules between attributes; raise by `self.require`."""

    def implied_attributes(self) -> Mapping[str, Any]:
        """Attributes that a file may leave out and that follow from others."""
        return {}

    infer: ClassVar[Callable[..., PartialShape | TensorSpec | Sequence[PartialShape | TensorSpec]]]
    reference: ClassVar[Callable[..., Array | Sequence[Array]]]

    def specialised(self, specs: Sequence[TensorSpec | None]) -> Operation:
        """The operation, specialised for a layer whose inputs are known so far at load.

        That is the operation itself, unless what is known decides its meaning.
        """
        return self

    def known_values(self, *specs: TensorSpec | None) -> TensorSpec | None:
        """For operations whose value follows from shapes alone (ShapeOf): the output with `value`
        or `elements` set.
        """
        return None

    def carry(
        self,
        bound: Sequence[TensorSpec | None],
        parts: Sequence[Elements | None],
        output: TensorSpec,
    ) -> Elements | None:
        """The elements of the output, as far as they are known, from those of the inputs; None when
        nothing is.
        """
        if self.elementwise:
            return by_place(self, bound, parts, output)
        return by_moving(self, bound, parts) if any(port.moved for port in self.inputs) else None

    def of_sizes(self, *elements: Any, **options: Any) -> Element:
        """An element of the output of an element-wise operation, where those of the inputs are
        expressions: `of_sizes(source, x)`, after the element type of the first input.
        """
        return None

    # ---- for use in a subclass

    def require(self, condition: bool, template: str, *details: object, **known: Any) -> None:
        """Refuse a model, or a call whose shapes do not fit, with a message that says expected and
        got.

        `known` are fields of the problem.
        """
        if not condition:
            raise ValidationError(template.format(*details), **known)

    def wanted(self, value: Value | None, template: str, *details: object, **known: Any) -> Value:
        """What must be there: refused as by `require` where it is None."""
        if value is None:
            raise ValidationError(template.format(*details), **known)
        return value

    def refuse(self, template: str, *details: object, **known: Any) -> NoReturn:
        """Refuse values of a call (an index, an offset, a length). `known` are fields of the
        problem.
        """
        raise InputError(template.format(*details), **known)

    # ---- what the rest of the project calls

    def supposes(self, specs: Sequence[TensorSpec | None]) -> bool:
        """Whether the shapes that `describe` gives for these inputs suppose something that a call
        need not keep, such as that an open dimension is 1. (Of sizes that are symbols it makes a
        guard.)
        """
        return False

    def describe(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        """Specs of the outputs from those of the inputs, with small values computed where they are
        known.

        Raises ValidationError when the inputs cannot be right.
        """
        bound = self._bind(specs)
        outputs = self._infer(bound)
        if len(outputs) == 1:
            known = self.known_values(*bound) or self._propagated(bound, outputs[0])
            if known is not None:
                return (known,)
        elif self._foldable(bound, outputs):
            return self._folded(bound) or outputs
        return outputs

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        """Run the reference on specs that carry values; the result carries values too.

        Raises InputError when shapes or values of this call do not fit, also where `infer` could
        not know at load.
        """
        bound = self._bind(specs)
        try:
            outputs = self._infer(bound)
        except ValidationError as error:
            raise InputError(error.message, error.where, error.problems) from None
        check_memory(outputs)
        moves = self.moves_values
        arrays = [None if s is None else s.value if moves else _widened(s) for s in bound]
        arrays += [blank(outputs[0].element_type)] if self.fills else []
        with np.errstate(all="ignore"):
            try:
                if self.multiplies:
                    with limited():
                        results = self.reference(*arrays)
                else:
                    results = self.reference(*arrays)
            except (MemoryError, ValueError) as error:
                # NumPy refuses an array beyond its index type, also an empty one, with a ValueError
                # of these words.
                if isinstance(error, ValueError) and not str(error).startswith(
                    ("array is too big", "Maximum allowed dimension")
                ):
                    raise
                raise InputError(f"not enough memory: {error}") from None
            several = list(results) if isinstance(results, (tuple, list)) else [results]
            if len(several) != len(outputs):
                raise AssertionError(
                    f"{self.label()}: the reference gave {len(several)} outputs, "
                    f"infer {len(outputs)}"
                )
            return tuple(
                self._finished(spec, result, moves)
                for spec, result in zip(outputs, several, strict=True)
            )

    # ---- shared machinery

    def _bind(self, specs: Sequence[TensorSpec | None]) -> list[TensorSpec | None]:
        """One spec per input port (a variadic port takes the rest), element types checked."""
        ports = self.inputs
        variadic = bool(ports) and ports[-1].variadic
        if len(specs) > len(ports) and not variadic:
            raise ValidationError(
                f"expected at most {len(ports)} inputs "
                f"({', '.join(p.name for p in ports) or 'none'}), "
                f"got {len(specs)}"
            )
        bound: list[TensorSpec | None] = list(specs) + [None] * (len(ports) - len(specs))
        variables: dict[str, tuple[str, ElementType]] = {}
        for position, spec in enumerate(bound):
            port = ports[min(position, len(ports) - 1)]
            if spec is None:
                if port.optional or (
                    variadic and position >= len(specs) and len(specs) >= len(ports)
                ):
                    continue
                raise ValidationError(
                    f"input '{port.name}' (port {position}) is missing", input=port.name
                )
            where = f"input '{port.name}' (port {position})"
            if spec.element_type not in port.types:
                expected_types = describe_types(port.types)
                raise ValidationError(
                    f"{where}: expected {expected_types}, got {spec.element_type}", input=port.name
                )
            if port.type_variable:
                first, expected = variables.setdefault(
                    port.type_variable, (port.name, spec.element_type)
                )
                if expected is not spec.element_type:
                    message = (
                        f"{where}: expected {expected} as '{first}' has, got {spec.element_type}"
                    )
                    raise ValidationError(message, input=port.name)
        return bound

    def _infer(self, bound: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        self._check_ranks([spec.shape for spec in bound if spec is not None])
        inferred = self.infer(*bound)
        if isinstance(inferred, (PartialShape, TensorSpec)):
            inferred = (inferred,)
        outputs: list[TensorSpec] = []
        for position, item in enumerate(inferred):
            if isinstance(item, PartialShape):
                declared = self.outputs[min(position, len(self.outputs) - 1)].type_of
                if declared is None:
                    raise AssertionError(
                        f"{self.label()}: infer must return a TensorSpec for an "
                        "output without a declared type"
                    )
                item = TensorSpec(
                    declared
                    if isinstance(declared, ElementType)
                    else self._type_of(declared, bound),
                    item,
                )
            outputs.append(item)
        self._check_ranks([spec.shape for spec in outputs])
        return tuple(outputs)

    def _check_ranks(self, shapes: Sequence[PartialShape]) -> None:
        for shape in shapes:
            if shape.rank is not None and shape.rank > MAX_RANK:
                raise ValidationError(f"expected at most {MAX_RANK} dimensions, got {shape.rank}")

    def _type_of(self, variable: str, bound: Sequence[TensorSpec | None]) -> ElementType:
        """The element type that a type variable stands for: that of the first input with it."""
        last = len(self.inputs) - 1
        return next(
            spec.element_type
            for i, spec in enumerate(bound)
            if spec and self.inputs[min(i, last)].type_variable == variable
        )

    def _foldable(self, bound: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> bool:
        return (
            self.deterministic
            and bool(bound)
            and all(
                s is None or (s.value is not None and s.value.size <= FOLD_LIMIT) for s in bound
            )
            and all(o.shape.is_static and int(o.shape.size) <= FOLD_LIMIT for o in outputs)
        )

    def _folded(self, bound: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...] | None:
        try:
            return self.evaluate(bound)
        except UncorkError:
            # the values are refused when, and if, the layer runs: that error has the better words
            return None

    def _propagated(
        self, bound: Sequence[TensorSpec | None], output: TensorSpec
    ) -> TensorSpec | None:
        """The output with its value, or the known part of it."""
        if self._foldable(bound, [output]):
            folded = self._folded(bound)
            return folded[0] if folded else None
        return carried(self, bound, output)

    def _finished(self, spec: TensorSpec, result: Any, moves: bool) -> TensorSpec:
        array = np.asarray(result)
        if not spec.shape.contains(array.shape):
            raise AssertionError(
                f"{self.label()}: the reference gave shape {list(array.shape)}, infer {spec.shape}"
            )
        if moves or spec.element_type in (ElementType.string, ElementType.boolean):
            array = array.astype(spec.element_type.dtype, copy=False)
        else:
            array = encode(array, spec.element_type)
        return TensorSpec(
            spec.element_type,
            spec.shape if spec.shape.is_static else PartialShape(array.shape),
            array,
        )


def _widened(spec: TensorSpec) -> Array | None:
    """The value of a spec in a type that NumPy computes with, f16 as f32 too: sums of
    half-precision values are accumulated wider and rounded once (decisions.md, rule 1).
    """
    if spec.value is None:
        return None
    return (
        spec.value.astype(np.float32)
        if spec.element_type is ElementType.f16
        else decode(spec.value, spec.element_type)
    )


# ---- what most operations take first, and what they give


class Moving(Operation):
    """An operation whose output has the elements of `data`, whatever these are, elsewhere."""

    data = Input(ANY, "T", moved=True)
    output = Output("T")


class Passing(Operation):
    """An operation that gives its only input as it is."""

    output = Output("T")

    def infer(self, data: TensorSpec) -> Any:
        return data.shape

    def reference(self, data: Array) -> Array:
        return data


class OfReals(Operation):
    """An operation on floating-point numbers."""

    data = Input(REAL, "T")
    output = Output("T")


class OfNumbers(Operation):
    """An operation on numbers of any type that computes."""

    data = Input(ARITHMETIC, "T")
    output = Output("T")


# ---- the registry

Class = TypeVar("Class", bound=type[Operation])
#: Every operation that was declared so far: type, then version.
declared: dict[str, dict[int, type[Operation]]] = {}


def register(type_name: str, opset: int) -> Callable[[Class], Class]:
    """Class decorator: this class is `type_name` from `opset` on, until a later version of it is
    registered.
    """

    def add(cls: Class) -> Class:
        versions = declared.setdefault(type_name, {})
        if opset in versions:
            raise AssertionError(f"{type_name}-{opset} is registered twice")
        cls.type_name, cls.opset = type_name, opset
        versions[opset] = cls
        return cls

    return add
