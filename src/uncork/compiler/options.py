"""Options: names, types and defaults, once for all functions that take them. Here are those of a
compilation, of which `compile_model` says what each means.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, get_args, overload

from msgspec import Struct

from uncork.errors import ValidationError, did_you_mean

if TYPE_CHECKING:
    from uncork.compiler.tables import GivenTable

Backend = Literal["cpu", "reference"]
Precision = Literal["f32", "bf16", "bf16x3", "fast"]
Decompression = Literal["as-written", "f32"]
Activations = Literal["f32", "i16", "i8"]
KvCachePrecision = Literal["as-written", "f32", "f16", "bf16", "u8"]
Kernels = Literal["if-available", "required"]
Ids = Literal["64-bit", "as-written"]

Function = TypeVar("Function", bound=Callable[..., Any])
Rows = TypeVar("Rows", bound=str)
#: Options of a few words, and those that are whole numbers, with the least and what it counts.
_WORDS = {
    "backend": Backend,
    "precision": Precision,
    "decompression": Decompression,
    "activations": Activations,
    "kv_cache_precision": KvCachePrecision,
    "kernels": Kernels,
    "ids": Ids,
}
_NUMBERS = {
    "threads": (1, "a number of at least 1"),
    "memory_limit": (0, "a number of bytes"),
    "loop_limit": (0, "a number of at least 0"),
}


def words_of(name: str) -> tuple[str, ...]:
    """The words that an option of a compilation may be."""
    return get_args(_WORDS[name])


class OptionRecord(Struct, frozen=True, kw_only=True):
    """Options by name, with their types and defaults: functions take them as keywords (`taking`),
    and have them as a record (`asked`).
    """

    def check(self) -> None:
        """Raise an error for a value that an option does not take."""

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The default of each option, by its name."""
        return dict(zip(cls.__struct_fields__, cls.__struct_defaults__, strict=True))

    def given(self) -> dict[str, Any]:
        """The options that are not their defaults."""
        values = {name: (getattr(self, name), v) for name, v in self.defaults().items()}
        return {name: v for name, (v, default) in values.items() if v != default and v != {}}


Record = TypeVar("Record", bound=OptionRecord)


def rows_of_fast(activations: Rows) -> Rows | Literal["i8"]:
    """What precision "fast" lets rows be rounded to: what was asked for, or the most."""
    return "i8" if activations == "f32" else activations


class Options(OptionRecord, frozen=True, kw_only=True):
    """The options of a compilation, with their defaults."""

    backend: Backend = "cpu"
    strict: bool = False
    threads: int | None = None
    precision: Precision = "f32"
    decompression: Decompression = "as-written"
    activations: Activations = "f32"
    kv_cache_precision: KvCachePrecision = "as-written"
    loop_limit: int | None = None
    tables: Mapping[str, GivenTable] | None = None
    ids: Ids = "64-bit"
    mmap: bool = True
    exact_convolutions: bool = False
    exact_fake_quantize: bool = False
    memory_limit: int | None = None
    target: str | None = None
    kernels: Kernels = "if-available"

    def check(self) -> None:
        """Raise ValidationError for a value that an option does not take."""
        for name in _WORDS:
            *most, last = map(repr, words_of(name))
            if getattr(self, name) not in words_of(name):
                expected = f"{', '.join(most)} or {last}"
                raise ValidationError(f"{name}: expected {expected}, got {getattr(self, name)!r}")
        for name, (least, expected) in _NUMBERS.items():
            value = getattr(self, name)
            is_number = isinstance(value, int) and not isinstance(value, bool) and value >= least
            ValidationError.when(
                value is not None and not is_number, f"{name}: expected {expected}, got {value!r}"
            )


class StoredWeightOptions(TypedDict, total=False):
    """What products by stored weights may round."""

    decompression: Decompression
    activations: Activations


class RoundingOptions(StoredWeightOptions, total=False):
    """What products may round."""

    precision: Precision


class BackendOptions(RoundingOptions, total=False):
    """How a model runs that something else is made of: scores, a comparison."""

    backend: Backend


class PlanOptions(RoundingOptions, total=False):
    """The options that a plan has in it, wherever it runs."""

    strict: bool
    threads: int | None
    kv_cache_precision: KvCachePrecision
    loop_limit: int | None
    tables: Mapping[str, GivenTable] | None
    ids: Ids
    exact_convolutions: bool
    exact_fake_quantize: bool


class CompileOptions(PlanOptions, total=False):
    """All options of a compilation."""

    backend: Backend
    mmap: bool
    memory_limit: int | None
    target: str | None
    kernels: Kernels


def taking(options: type[Any], *records: type[OptionRecord]) -> Callable[[Function], Function]:
    """A decorator that shows, in place of `**options`, these options in a function's signature, as
    the records have them: without any, as a compilation does.
    """

    def shown(function: Function) -> Function:
        own = inspect.signature(function)
        parameters = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters += [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=_annotation(record, name),
            )
            for record in records or (Options,)
            for name, default in record.defaults().items()
            if name in options.__annotations__
        ]
        function.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return shown


def _annotation(record: type[OptionRecord], name: str) -> Any:
    """The type of an option as its record has it, or the record that this one is made of."""
    owners = map(inspect.get_annotations, record.__mro__)
    return next(own[name] for own in owners if name in own)


@overload
def asked(function: Callable[..., Any], options: Mapping[str, Any]) -> Options: ...


@overload
def asked(
    function: Callable[..., Any], options: Mapping[str, Any], record: type[Record]
) -> Record: ...


def asked(
    function: Callable[..., Any],
    options: Mapping[str, Any],
    record: type[OptionRecord] = Options,
) -> OptionRecord:
    """Those of the options that a function was given that a record has, checked. Raises TypeError
    for a name that the function does not have.
    """
    known = [*inspect.signature(function).parameters]
    for name in options:
        if name not in known:
            raise TypeError(
                f"{function.__name__}() got an unexpected keyword argument '{name}'"
                f"{did_you_mean(name, known)}"
            )
    made = record(**{k: v for k, v in options.items() if k in record.__struct_fields__})
    made.check()
    return made
