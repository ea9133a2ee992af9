"""Functions that are compiled at their first call, once for all sizes.

A public function describes its call (`Call`); `one` and `several` make it run. A call becomes a
model of one layer with a plan for every size, and the calls after it are one native entry that
looks at the arrays itself. Whatever it does not know goes to the reference, which also words all
errors.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

import numpy as np

from uncork.compiler.execute import Executor, kernel_target
from uncork.compiler.native_call import NativeCall
from uncork.compiler.plan_set import CallDeclined
from uncork.concurrency import WorkLock, unforked
from uncork.errors import UncorkError
from uncork.functional._arguments import Arguments, seen, stays
from uncork.functional._call import Call
from uncork.functional._signature import written_out
from uncork.ir.bodies import configure
from uncork.ir.build import Builder
from uncork.ir.model import Source
from uncork.kernels.runtime.layout import ALONE, OTHER_ARGUMENTS
from uncork.kernels.runtime.segment_plan import ArrayGuard, CannotBeKnown, IdentityGuard
from uncork.kernels.select import warn_if_unavailable
from uncork.passes.set_precision import set_precision
from uncork.types import Array, ElementType, PartialShape

Function = TypeVar("Function", bound=Callable[..., Any])
Parameters = ParamSpec("Parameters")
#: Kinds of calls that are remembered of each function; a program that makes ever new kinds begins
#: again.
_KEPT = 256
#: Calls with the same integers after which they are taken to stay: twice as many each time, up to
#: so many.
_PATIENCE, _MOST_PATIENCE = 8, 512
_NEVER = 1 << 62


def one(describe: Callable[Parameters, Call]) -> Callable[Parameters, Array]:
    """The public function of a call with one result, which it returns. `describe` describes the
    call.
    """
    calls = _Calls(describe, ALONE)
    made = written_out(describe, calls, "found", lambda *given: calls(*given)[0])
    return _returning(made, "Array")


def several(describe: Callable[Parameters, Call]) -> Callable[Parameters, tuple[Array, ...]]:
    """The public function of a call with several results, which it returns in a tuple."""
    calls = _Calls(describe)
    made = written_out(describe, calls, "_tuple(found)", lambda *given: tuple(calls(*given)))
    return _returning(made, "tuple[Array, ...]")


def one_or_several(
    describe: Callable[..., Call], prepared: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]
) -> Callable[..., Any]:
    """The public function of a call whose arguments say how many results it has: several are a
    tuple. `prepared` brings arguments to a form in which they can be known again.
    """
    calls = _Calls(describe)

    def otherwise(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        args, options = prepared(args, options)
        found = calls.last(*args, *options.values())
        if type(found) is int:
            found = calls(args, options)
        return found[0] if len(found) == 1 else tuple(found)

    returned = "found[0] if _len(found) == 1 else _tuple(found)"
    return written_out(describe, calls, returned, otherwise)


def _returning(function: Function, result: str) -> Function:
    """The function with the signature that callers see."""
    function.__signature__ = inspect.signature(function).replace(return_annotation=result)  # type: ignore[attr-defined]
    return function


def _nothing(*arguments: Any) -> int:
    """The native entry before anything is compiled: it declines every call."""
    return OTHER_ARGUMENTS


class _Calls:
    """All calls of one function.

    A kind of call is its arguments that are no arrays, and which are arrays of which types. An
    input that comes as a number is open, like a size: one plan takes every number, if it can.
    """

    def __init__(self, describe: Callable[..., Call], way: int = 0) -> None:
        """`way` is how `last` returns, if not in a list: see `NativeCall`."""
        self._describe, self._way = describe, way
        self._names = tuple(inspect.signature(describe).parameters)
        #: Arguments that are integers of any width, and so may come as numbers and lists; None
        #: before a call was described.
        self._integers: frozenset[str] | None = None
        #: Those of them whose values a plan needs, by kind, where no plan takes all.
        self._shaping: dict[tuple[Any, ...], frozenset[str]] = {}
        #: Kinds of calls with such values that have come once, which is not worth a plan.
        self._came: dict[tuple[Any, ...], None] = {}
        #: Arguments that are no inputs.
        self._attributes: frozenset[str] = frozenset()
        #: The last call as one native entry, which takes all arguments in order, defaults too: a
        #: list of results, or the only one, or a number when this call is another.
        self.last: Callable[..., Any] = _nothing
        #: How often the same integers come before an entry knows them.
        self._patience = _PATIENCE
        #: By kind, then by attributes, some of which follow from shapes, and by what of the shapes
        #: is fixed. None: references do it.
        self._executors: dict[tuple[Any, ...], dict[tuple[Any, ...], Executor | None]] = {}
        #: By kind, then by the call among whose arguments it is.
        self._entries: dict[tuple[Any, ...], dict[NativeCall, NativeCall]] = {}
        self._lock = WorkLock()

    def __call__(self, args: tuple[Any, ...], options: dict[str, Any]) -> Sequence[Array]:
        if len(args) > len(self._names):
            self._describe(*args, **options)  # which says so
        given = Arguments(
            tuple(map(seen, args)), {name: seen(value) for name, value in options.items()}
        )
        if not all(map(operator.is_, given.all, (*args, *options.values()))):  # seen as arrays
            result = self.last(*given.all)
            if type(result) is not int:
                return _listed(result)
        if any(isinstance(value, (list, tuple)) for value in given.all):
            if self._integers is None:
                self._learn(self._describe(*given.args, **given.options))
            given = given.with_listed_integers(self._names, self._integers or (), self._attributes)
        return self._made(given)

    def _made(self, given: Arguments) -> Sequence[Array]:
        """The results of a call whose lists are arrays."""
        if not all(type(value) is np.ndarray or stays(value) for value in given.all):
            # nothing is remembered of what may be another when it comes again
            return self._describe(*given.args, **given.options).evaluate()
        results = self._by_entry(given)
        opened = None
        if results is None:
            opened = given.with_open_numbers(self._names, self._integers or ())
            results = None if opened is None else self._by_entry(opened)
        if results is None and (closed := self._closed(given)) is not None:
            results = self._by_entry(closed, enters=False)
        return self._first(given, opened) if results is None else results

    def _by_entry(self, given: Arguments, enters: bool = True) -> Sequence[Array] | None:
        """The results by a native call that served earlier calls of this kind; None where none
        does.
        """
        known = self._entries.get(given.kind, {})
        for native in list(known):  # a destructor may add to it meanwhile
            entry = known[native]
            # The entry itself, first: with the working memory that this call needs it is the next
            # one, without all of this.
            results = _results(entry, given.all)
            if results is None:
                results = _results(native, given.arrays)
            if results is not None:
                if enters:
                    self._enter(native, entry, given)
                return results
        return None

    def _first(self, given: Arguments, opened: Arguments | None) -> Sequence[Array]:
        """The results of a call that no native call serves yet."""
        call: Call = self._describe(*given.args, **given.options)
        if self._integers is None:
            self._learn(call)
            opened = given.with_open_numbers(self._names, self._integers or ())
        compiled = None
        if opened is not None:
            again: Call = self._describe(*opened.args, **opened.options)
            compiled = self._compiled(opened, again, is_open=True)
        closed = self._closed(given)
        if compiled is None:
            compiled = self._compiled(given, call, widest=closed is not None)
        if compiled is None and closed is None:
            closed = self._with_shaping(given, call)
        if compiled is None and closed is not None and self._comes_again(given, closed):
            return self._made(closed)
        return call.evaluate() if compiled is None else compiled

    def _learn(self, call: Call) -> None:
        """Learn from a call which arguments are integers, and which no inputs."""
        self._attributes = frozenset(self._names).difference(call.specs)
        self._integers = frozenset(call.integers)

    def _closed(self, given: Arguments) -> Arguments | None:
        """The call with what a plan needs to know as numbers; None where there is nothing."""
        shaping = self._shaping.get(given.kind, ())
        return given.with_closed_numbers(self._names, self._integers or (), shaping)

    def _comes_again(self, given: Arguments, closed: Arguments) -> bool:
        """Whether a call whose values belong to its plan has come before, which others may not."""
        if not self._shaping.get(given.kind) or closed.kind in self._came:
            return True
        if len(self._came) >= _KEPT:
            self._came.clear()
        self._came[closed.kind] = None
        return False

    def _with_shaping(self, given: Arguments, call: Call) -> Arguments | None:
        """The call with its settings, and the integers that its results' shapes follow from, as
        numbers; None where there are none, or they come so already.
        """
        if given.kind in self._shaping or kernel_target() is None:
            return None
        if len(self._shaping) >= _KEPT:
            self._shaping.clear()
        self._shaping[given.kind] = frozenset(
            name
            for name in self._integers or ()
            if type(call.given.get(name)) is np.ndarray
            and (name in call.settings or _shapes_follow(call, name))
        )
        return self._closed(given)

    def _enter(self, native: NativeCall, entry: NativeCall, given: Arguments) -> None:
        """Make the `entry` of a native call the first that the next call tries."""
        run = entry.run
        if given.numbers:
            settle = partial(self._settle, native, _array_positions(given.all), given.numbers)
            run = _with_numbers(run, given.numbers, self._patience, settle)
        self.last = run

    def _settle(
        self,
        native: NativeCall,
        positions: Sequence[int],
        numbers: Collection[int],
        arguments: Sequence[Any],
    ) -> list[Array] | Array | None:
        """What an entry gives for a call whose `numbers`, among the `positions` of the plan's
        inputs, have come again and again: from now on an entry is tried first that knows them. None
        where there is none.
        """
        if _array_positions(arguments) != [p for p in positions if p not in numbers]:
            return None  # objects that can be seen as arrays
        # programs that change them now and then gain little by it
        self._patience = min(2 * self._patience, _MOST_PATIENCE)
        try:
            entry = _among(native, arguments, positions, numbers, self._way)
        except CannotBeKnown:
            self._patience = _NEVER
            return None
        found = _found(entry, arguments)
        if found is not None:
            self.last = entry.run
        return found

    def _compiled(
        self, given: Arguments, call: Call, is_open: bool = False, widest: bool = False
    ) -> Sequence[Array] | None:
        """The results by kernels; None where references make the call, or refuse it."""
        arrays = given.arrays
        contiguous = [np.ascontiguousarray(array).reshape(array.shape) for array in arrays]
        with unforked(), self._lock.held():
            widest = widest or is_open
            executor = self._executor(given.kind, call, contiguous, arrays, widest)
        if executor is None or executor.plans is None:
            return None
        try:
            results = executor.plans.make(contiguous)
        except CallDeclined:
            return None
        native = executor.plans.last
        if not isinstance(native, NativeCall):
            return results
        entries = self._entries.setdefault(given.kind, {})
        entry = entries.get(native)
        if entry is None:
            made = _among(native, given.all, _array_positions(given.all), way=self._way)
            entry = entries.setdefault(native, made)
        self._enter(native, entry, given)
        return results

    def _executor(
        self,
        kind: tuple[Any, ...],
        call: Call,
        arrays: Sequence[Array],
        given: Sequence[Array],
        widest: bool,
    ) -> Executor | None:
        """The executor that makes such calls natively: for every size; else, unless the `widest` is
        wanted, for every size of the first axis; else for these sizes.
        """
        if kernel_target() is None:
            warn_if_unavailable()
            return None
        if len(set(map(id, given))) < len(given):
            return None  # which argument is which cannot be told
        if sum(map(len, self._executors.values())) >= _KEPT:
            self._executors.clear()
            self._entries.clear()
        executors = self._executors.setdefault(kind, {})
        fixed = {id(call.given[name]) for name in call.fixed}
        for axes in (0,) if widest else (0, 1, 2):
            shapes = [
                _with_open_axes(array.shape, 2 if id(own) in fixed else axes)
                for array, own in zip(arrays, given, strict=True)
            ]
            key = (repr(call.attributes), *shapes)
            if key not in executors:
                made = _executor(call, given, shapes)
                plans = None if made is None else made.plans
                is_native = plans is not None and plans.is_native(arrays)
                executors[key] = made if is_native else None
            executor = executors[key]
            if executor is not None:
                return executor
        return None


def _results(call: NativeCall, arguments: Sequence[Any]) -> Sequence[Array] | None:
    """The results of a native call; None where its plan does not make it."""
    found = _found(call, arguments)
    return None if found is None else _listed(found)


def _found(call: NativeCall, arguments: Sequence[Any]) -> list[Array] | Array | None:
    """What a native call gives; None where its plan does not make it."""
    return call.retry(call.run(*arguments), arguments)


def _listed(found: list[Array] | Array) -> list[Array]:
    return found if isinstance(found, list) else [found]


def _with_numbers(
    run: Callable[..., Any],
    positions: Sequence[int],
    patience: int,
    settle: Callable[[Sequence[Any]], list[Array] | Array | None],
) -> Callable[..., Any]:
    """The native call of arguments that have integers at these positions, where it takes arrays.

    When the same ones have come so often that `patience` is at its end, `settle` makes the call.
    """
    last = max(positions)
    #: Arrays of numbers that came before.
    held: dict[int, Array] = {}
    usual: dict[int, int] = {}
    left = patience

    def array_of(number: int) -> Array:
        if len(held) >= _KEPT:
            held.clear()
        return held.setdefault(number, np.array(number))

    def with_numbers(*arguments: Any) -> Any:
        nonlocal left
        if len(arguments) <= last:
            return OTHER_ARGUMENTS
        arrays = [*arguments]
        for position in positions:
            number = arguments[position]
            if type(number) is not int:
                return OTHER_ARGUMENTS
            if number is not usual.get(position):
                usual[position] = number
                left = patience
            array = held.get(number)  # quicker than another array
            arrays[position] = array_of(number) if array is None else array
        left -= 1
        if left == 0 and (results := settle(arguments)) is not None:
            return results
        return run(*arrays)

    return with_numbers


def _with_open_axes(shape: tuple[int, ...], axes: int) -> tuple[int | None, ...]:
    """The shape with every axis open, the first one, or none: at step 0, 1 and 2."""
    return ((None,) * len(shape), (None, *shape[1:]) if shape else (), shape)[axes]


def _array_positions(arguments: Sequence[Any]) -> list[int]:
    """Where arrays are among the arguments."""
    return [position for position, value in enumerate(arguments) if type(value) is np.ndarray]


def _among(
    native: NativeCall,
    given: Sequence[Any],
    positions: Sequence[int],
    numbers: Collection[int] = (),
    way: int = 0,
) -> NativeCall:
    """The native call over all arguments that were given: at `positions` arrays like these, and the
    same objects for everything else.

    Of these, `numbers` are integers in place of arrays of one: they stay, too.
    """
    array_guards: list[ArrayGuard | IdentityGuard] = [IdentityGuard(value) for value in given]
    known: dict[int, Array] = {}
    for index, (position, array_guard) in enumerate(
        zip(positions, native.plan.array_guards, strict=True)
    ):
        if position in numbers:
            known[index] = np.array(given[position])
        else:
            array_guards[position] = array_guard
    return native.embedded(array_guards, positions, known, way)


def _executor(
    call: Call, arrays: Sequence[Array], shapes: Sequence[Sequence[int | None]]
) -> Executor | None:
    """The executor of a model of the call's one layer, in which arrays are inputs of these shapes
    and everything else is a constant; None where there is none.
    """
    builder = call.graph()
    numbers = {id(array): number for number, array in enumerate(arrays)}
    try:
        parameters = [
            builder.parameter(str(n), _native(array), shapes[n]) for n, array in enumerate(arrays)
        ]
        inputs: list[Source | None] = []
        for name, spec in call.specs.items():
            if spec is None:
                inputs.append(None)
            elif id(call.given[name]) in numbers:
                number = numbers[id(call.given[name])]
                inputs.append(
                    _as_taken(
                        builder, parameters[number], _native(arrays[number]), spec.element_type
                    )
                )
            else:
                inputs.append(builder.constant(spec.known, spec.element_type))
        for output in call.layers(builder, inputs):
            builder.result(output)
        model = configure(builder.model(), call.strict, None)
        if call.precision != "f32":
            model = set_precision(model, call.precision)
    except UncorkError:
        return None
    results = [model.spec(model.by_id[r].inputs[0]).element_type for r in model.results]
    target = kernel_target(tiles=call.precision != "f32")
    return Executor(model, target) if all(result.is_native for result in results) else None


def _shapes_follow(call: Call, name: str) -> bool:
    """Whether more is known of the shapes of the results when an input's values are known."""

    def shapes(known: str) -> list[PartialShape]:
        builder = call.graph()
        inputs = [
            None
            if spec is None
            else builder.constant(spec.known, spec.element_type)
            if own == known
            else builder.parameter(own, spec.element_type, [*spec.shape])
            for own, spec in call.specs.items()
        ]
        return [builder.spec(output).shape for output in call.layers(builder, inputs)]

    try:
        return shapes(name) != shapes("")
    except UncorkError:
        return False


def _as_taken(builder: Builder, source: Source, given: ElementType, taken: ElementType) -> Source:
    """An argument in the type of the operation's input: ids may be given in fewer bits."""
    if given is taken:
        return source
    if not given.is_integer or given.dtype.itemsize >= taken.dtype.itemsize:
        raise UncorkError(f"no kernel reads {given} for {taken}")
    return builder.add("Convert", 1, source, destination_type=taken.name)[0]


def _native(array: Array) -> ElementType:
    """The element type that the kernels read in the array as it is."""
    result = ElementType.of_dtype(array.dtype)
    if result is None or not result.is_native or array.dtype != result.dtype:
        raise UncorkError(f"no kernel reads arrays of {array.dtype}")
    return result
