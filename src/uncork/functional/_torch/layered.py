"""Functions that are several layers: what each is written as, and the call of such a function.

    @named
    def linear(g: Graph, input: Source, weight: Fixed, bias: Source | None = None) -> Source:
        return ...

The arguments that are arrays are annotated `Source`: tensors of the graph `g`. `Fixed` are those
whose sizes belong to a plan, such as weights; `Ids` are integers of any width; `Classes` may be
such or of the type of the others. Everything else comes as the caller gave it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from uncork.errors import InputError, UncorkError, ValidationError
from uncork.functional._arguments import bound, inserted
from uncork.functional._call import Call, renamed
from uncork.functional._native import one_or_several
from uncork.ir.model import Source
from uncork.onnx.graph import Graph
from uncork.ops import Operation
from uncork.types import ML_DTYPES, Array, ElementType, TensorSpec

Ids: TypeAlias = Source
Fixed: TypeAlias = Source
Classes: TypeAlias = Source
Layers = Callable[..., Any]
Written = TypeVar("Written", bound=Layers)

#: What each function is written as, by its name.
LAYERS: dict[str, Layers] = {}
#: Arguments that change nothing here.
_IGNORED = frozenset({"_stacklevel", "momentum"})
#: Arguments of which only None is taken, or what is false of two, and what to do instead.
_REFUSED = {
    "inplace": "{given} is not supported: arrays are not changed: take the result",
    "size_average": "{given} is not supported: give reduction='mean', 'sum' or 'none'",
    "reduce": "{given} is not supported: give reduction='mean', 'sum' or 'none'",
    "out": "{given} is not supported: take the result",
    "dropout_p": "dropout_p draws random numbers: give 0.0",
}
#: Defaults of arguments that layers know nothing of, where it is not None.
_DEFAULTS = {"momentum": 0.1, "dropout_p": 0.0}


def named(layers: Written) -> Written:
    """Offer what is written as layers under its name."""
    LAYERS[layers.__name__] = layers
    return layers


def named_with(**before: str) -> Callable[[Written], Written]:
    """Offer what is written as layers with more arguments, each before another: such as change
    nothing or are refused, and the layers know nothing of them.
    """

    def offer(layers: Written) -> Written:
        for name, other in before.items():
            _insert(layers, name, "Any", _DEFAULTS.get(name), other)
        return named(layers)

    return offer


def ended(
    layers: Layers,
    end: Callable[[Graph, Source, Any], Source],
    argument: tuple[str, str, Any],
    before: str | None,
) -> Layers:
    """What is written as layers, ended by what an argument says of which these know nothing: its
    name, its annotation and its default.
    """
    name, annotation, default = argument

    @functools.wraps(layers)
    def whole(g: Graph, *args: Any, **options: Any) -> Source:
        given = options.pop(name, default)
        return end(g, layers(g, *args, **options), given)

    _insert(whole, name, annotation, default, before)
    return whole


def without(layers: Layers, name: str) -> Layers:
    """What is written as layers without an argument, which has its default."""
    signature = inspect.signature(layers)
    kept = [parameter for own, parameter in signature.parameters.items() if own != name]
    layers.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return layers


def _insert(layers: Layers, name: str, annotation: str, default: Any, before: str | None) -> None:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    added = inspect.Parameter(name, kind, default=default, annotation=annotation)
    layers.__signature__ = inserted(layers, added, before)  # type: ignore[attr-defined]


def named_for_axes(write: Callable[[int], Layers]) -> Callable[[int], Layers]:
    """Offer what is written for batches of images of 1, 2 and 3 axes: under its name and `1d`,
    `2d`, `3d`. Of one image the batches have an axis of 1.
    """
    for axes in (1, 2, 3):
        layers = _of_one_or_batches(write(axes), axes)
        layers.__name__ = layers.__qualname__ = f"{write.__name__}{axes}d"
        layers.__doc__ = layers.__doc__ or write.__doc__
        named(layers)
    return write


def _of_one_or_batches(layers: Layers, axes: int) -> Layers:
    @functools.wraps(layers)
    def of_any(g: Graph, input: Source, *rest: Any, **options: Any) -> Any:
        data, added = batched(g, input, axes)
        results = layers(g, data, *rest, **options)
        if not added:
            return results
        several = [results] if isinstance(results, Source) else results
        made = [g.squeeze(result, 0) for result in several]
        return made[0] if isinstance(results, Source) else made

    return of_any


def function_of(name: str) -> Callable[..., Any] | None:
    """The function on arrays of a name; None where nothing is written for it."""
    layers = LAYERS.get(name)
    if layers is None:
        return None
    signature = _signature(layers)
    kinds = {p.name: _kind(p) for p in inspect.signature(layers).parameters.values()}
    optional = {
        p.name for p in inspect.signature(layers).parameters.values() if "None" in str(p.annotation)
    }
    names = tuple(signature.parameters)

    def describe(*args: Any, **options: Any) -> Call:
        call = LayeredCall(name, layers)
        for own, value in bound(name, signature, args, options).items():
            if value is None and kinds[own] and own not in optional:
                raise call.error(f"input '{own}' is missing", input=own)
            call.take(own, kinds[own], value)
        return call

    def prepared(
        args: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        kept = tuple(
            value if i >= len(names) or kinds[names[i]] else _kept(names[i], value)
            for i, value in enumerate(args)
        )
        return kept, {
            own: value if kinds.get(own) else _kept(own, value) for own, value in options.items()
        }

    describe.__name__ = describe.__qualname__ = name
    describe.__module__ = "uncork.functional"
    describe.__doc__ = f"`torch.nn.functional.{name}`.\n\n{inspect.cleandoc(layers.__doc__ or '')}"
    describe.__signature__ = signature  # type: ignore[attr-defined]
    return one_or_several(describe, prepared)


def _signature(layers: Layers) -> inspect.Signature:
    """The signature that callers see: that of torch."""
    _, *parameters = inspect.signature(layers).parameters.values()
    return inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parameters])


def _kind(parameter: inspect.Parameter) -> str:
    """Which kind of array an argument is; "" for what is none."""
    word = str(parameter.annotation).partition(" ")[0]
    return word if word in ("Source", "Fixed", "Ids", "Classes") else ""


#: Tuples that came before: equal ones are the same object, by which a native call knows them.
_tuples: dict[str, tuple[Any, ...]] = {}
_MOST_TUPLES = 256


def _kept(name: str, value: Any) -> Any:
    """An argument that is no array in a form that stays: lists as tuples, types by their names."""
    if isinstance(value, (list, tuple)):
        if len(_tuples) >= _MOST_TUPLES:
            _tuples.clear()
        made = tuple(_kept(name, item) for item in value)
        return _tuples.setdefault(repr(made), made)
    if name == "dtype" and value is not None:
        return str(getattr(value, "__name__", value)).removeprefix("torch.")
    return value


class LayeredCall(Call):
    """A call of a function that is several layers."""

    def __init__(self, function: str, layers: Layers) -> None:
        super().__init__(function, "", 0, False)
        self._layers = layers
        self.arrays: list[str] = []

    def take(self, name: str, kind: str, value: Any) -> None:
        """Take an argument."""
        if not kind:
            is_default = value is None or (name in ("inplace", "dropout_p") and not value)
            if name in _REFUSED and not is_default:
                raise self.error(_REFUSED[name].format(given=f"{name}={value!r}"))
            if name not in _IGNORED and name not in _REFUSED:
                self.attributes[name] = value
            return
        first = next((own for own in self.arrays if self.specs[own] is not None), None)
        self.arrays.append(name)
        if kind == "Classes" and value is not None:
            kind = "Ids" if self._array(name, value).dtype.kind in "iu" else "Source"
        if value is None:
            self._add(name, ElementType.i64, None)
        elif kind == "Ids":
            self.index(name, value)
        elif first is None or self.integers.issuperset(self.arrays[:-1]):
            self.first(name, value)
        else:
            self.typed(name, value, first, None)
        if kind == "Fixed":
            self.fixed.add(name)

    def graph(self) -> Graph:
        """What a model of this call is built by."""
        return Graph(self.function)

    def layers(self, builder: Any, inputs: Sequence[Source | None]) -> Sequence[Source]:
        """The outputs of the layers."""
        arguments = dict(zip(self.arrays, inputs, strict=True))
        results = self._layers(builder, **arguments, **self.attributes)
        return [results] if isinstance(results, Source) else [*results]

    def evaluate(self) -> list[Array]:
        """The outputs of the references, layer by layer."""
        graph = _Computed(self)
        inputs: list[Source | None] = []
        for name, spec in self.specs.items():
            if spec is None:
                inputs.append(None)
                continue
            inputs.append(graph.constant(spec.known, spec.element_type, name))
            graph.arguments[inputs[-1]] = name
        try:
            outputs = [graph.spec(source) for source in self.layers(graph, inputs)]
        except InputError as error:
            raise self.error(error.message, **error.problems[0].known()) from None
        except UncorkError as error:
            error.where, error.problems = "", error.problems[:1]
            raise error.at(self.function) from None
        return [self._restored(output).copy() for output in outputs]


class _Computed(Graph):
    """A graph whose layers are computed as they are added."""

    def __init__(self, call: Call) -> None:
        super().__init__(call.function)
        #: What callers know tensors by.
        self.arguments: dict[Source | None, str] = {}

    def _inferred(
        self, operation: Operation, given: Sequence[TensorSpec]
    ) -> tuple[Operation, Sequence[TensorSpec]]:
        return operation, operation.evaluate(given)

    def _append(
        self, operation: Operation, name: str, inputs: Sequence[Source], tensor_names: Sequence[str]
    ) -> tuple[Source, ...]:
        try:
            return super()._append(operation, name, inputs, tensor_names)
        except (InputError, ValidationError) as error:
            names = {
                port.name: self.arguments[source]
                for port, source in zip(operation.inputs, inputs, strict=False)
                if source in self.arguments
            }
            known = error.problems[0].known()
            known.pop("layer", None)
            known["input"] = names.get(known.get("input", ""), "")
            raise InputError(renamed(error.message, names), **known) from None


# ---- what the functions have in common


def refuse(message: str) -> InputError:
    """The error of arguments that make no call."""
    return InputError(message)


def refuse_if(condition: object, message: str) -> None:
    """Raise that error where the condition holds."""
    if condition:
        raise refuse(message)


def sizes(name: str, value: Any, count: int, least: int = 0) -> list[int]:
    """A size for each of some axes, from one number or as many."""
    several = value if isinstance(value, tuple) else (value,)
    whole = all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in several)
    if not whole or len(several) not in (1, count) or any(v < least for v in several):
        expected = "a number" if count == 1 else f"a number or {count} of them"
        raise refuse(f"{name}: expected {expected}, at least {least}, got {value!r}")
    return [int(v) for v in several] * (count if len(several) == 1 else 1)


def choice(name: str, value: Any, *choices: str) -> str:
    """An argument that is one of some words."""
    if value not in choices:
        words = ", ".join(map(repr, choices))
        raise refuse(f"{name}: expected {words}, got {value!r}")
    return str(value)


def fixed(g: Graph, source: Source, axis: int) -> int:
    """A size that layers depend on: a plan is for it alone. Raises UncorkError while it is open."""
    size = g.sizes(source)[axis]
    if size is None:
        raise UncorkError(f"axis {axis} has an open size")
    return size


def rank_from(g: Graph, source: Source, least: int) -> int:
    """The rank of the input, of which at least so many dimensions are expected."""
    rank = g.rank(source)
    refuse_if(
        rank < least,
        f"input: expected at least {least} dimensions, got shape {g.spec(source).shape}",
    )
    return rank


def place(g: Graph, source: Source, dim: Any) -> int:
    """An axis counted from the first."""
    rank = g.rank(source)
    if not isinstance(dim, (int, np.integer)) or not -max(rank, 1) <= dim < max(rank, 1):
        raise refuse(f"dim: expected an axis from {-rank} to {rank - 1}, got {dim!r}")
    return int(dim) % max(rank, 1)


def one_each(g: Graph, name: str, values: Source | None, count: int | None, what: str) -> None:
    """Refuse what has not one number for each of so many channels."""
    if values is None:
        return
    shape = g.spec(values).shape
    if shape.rank != 1 or (count is not None and g.sizes(values)[0] not in (None, count)):
        expected = "one dimension" if count is None else f"{count} numbers, one for each {what}"
        raise refuse(f"{name}: expected {expected}, got shape {shape}")


def batched(g: Graph, source: Source, axes: int) -> tuple[Source, bool]:
    """Data with an axis of batches, and whether that axis was added."""
    rank = g.rank(source)
    refuse_if(
        rank not in (axes + 1, axes + 2),
        f"input: expected {axes + 2} dimensions, or {axes + 1} without batches, "
        f"got shape {g.spec(source).shape}",
    )
    return (g.unsqueeze(source, 0), True) if rank == axes + 1 else (source, False)


def element_type(dtype: Any) -> ElementType:
    """The element type that a `dtype` names."""
    known = {own.name: kind for own, kind in _TYPES.items()} | ML_DTYPES
    try:
        return known.get(str(dtype)) or _TYPES[np.dtype(dtype)]
    except (TypeError, KeyError):
        raise refuse(f"dtype: expected an element type such as float32, got {dtype!r}") from None


_TYPES = {kind.dtype: kind for kind in ElementType if kind.is_native and kind.dtype != object}
