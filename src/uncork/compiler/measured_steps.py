"""How the steps of a call are measured, one by one.

Every step runs by itself, by the kernel that it has in the plan, on the values that it has in the
call; what a call costs that does nothing is left out. Steps are measured in rounds, one after the
other as in the call, until the smallest time of each is known: weights that a call reads from
memory are read from memory here, too, and not from caches that a step alone would find them in.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from msgspec import Struct

from uncork.blas import at_most
from uncork.compiler.arguments import carriers, match, shown
from uncork.compiler.base_executor import BaseExecutor
from uncork.compiler.execute import kernel_target
from uncork.compiler.machine_limits import machine_limits
from uncork.compiler.profile import Profile, ProfiledStep
from uncork.compiler.single_layer import alone, carrier
from uncork.compiler.work import work
from uncork.errors import InputError, UncorkError
from uncork.internal_ops.appended_state import AppendState
from uncork.ir.build import Builder
from uncork.ir.model import Model, Node, Source
from uncork.kernels.runtime.layout import OK
from uncork.ops.parameter import Const
from uncork.types import Array, PartialShape, TensorSpec

if TYPE_CHECKING:
    from uncork.compiler.compiled_model import CompiledModel
    from uncork.compiler.machine_limits import CompileLayer

#: Seconds for one step at most, and rounds at least.
_SECONDS, _ROUNDS = 0.02, 3
#: Results of steps that are measured in the same rounds take so many bytes at most, more than any
#: cache has.
_HELD = 1 << 29
#: Among so many steps there is an empty call.
_EMPTY = 8
#: Rounds in which a whole call is made, too.
_WHOLE = 50
#: What takes no time in a call.
_UNTIMED = frozenset({"Const", "Parameter", "Result"})


def profile(
    compiled: CompiledModel,
    executor: BaseExecutor,
    inputs: Sequence[Any],
    progress: Callable[[int, int], None] | None,
    compile_layer: CompileLayer,
) -> Profile:
    """Measure every step of a call. Raises InputError for inputs that do not fit."""
    arrays = carriers(compiled.inputs, match(compiled.inputs, inputs, {}))
    seen = shown(compiled.inputs, arrays)
    fresh = compiled.fork()  # with variables that are nobody's
    with at_most(executor.threads):
        runs, given = executor.without_variables(arrays, compiled.fork().values)
        model = runs.as_it_runs(given)
        steps = _Steps(model, runs, given, compile_layer, lambda: fresh(*seen))
        made = steps.measure(progress)
    return Profile(tuple(made), steps.whole_seconds, machine_limits(compile_layer))


class _Measured(Struct):
    """A step that is being measured, and what is known of it before; without a `call` it has
    nothing to do.
    """

    node: Node
    call: Callable[[], Any] | None
    kernel: str
    reason: str
    outputs: Sequence[TensorSpec]
    bytes: float
    operations: float

    def result(self, seconds: float) -> ProfiledStep:
        """The step with its time."""
        return ProfiledStep(
            self.node.name,
            str(self.node.operation and self.node.operation.label()),
            self.kernel,
            self.reason,
            " ".join(map(str, self.outputs)),
            seconds,
            self.bytes,
            self.operations,
        )


def _time_of(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _bound(
    compiled: CompiledModel, arrays: Sequence[Array], results: Sequence[Array]
) -> Callable[[], Any]:
    """A function that makes the call with as little overhead as possible, and writes the results
    where the steps behind it read them, if it can.
    """
    try:
        call = compiled.bind(*arrays, outputs=results)
        call()  # which takes no texts
    except InputError:
        pass
    else:
        return call
    executor, given = compiled.executor, carriers(compiled.inputs, arrays)
    if all(port.element_type.is_native for port in (*compiled.inputs, *compiled.outputs)):
        try:
            return compiled.bind(*arrays)
        except InputError:
            pass
    elif bound := _natively(compiled, given, results):
        return bound
    # Types that NumPy does not have stay as they are: a call would convert them.
    return lambda: executor.run_as_before(given) or executor.run(given)


def _natively(
    compiled: CompiledModel, given: Sequence[Array], results: Sequence[Array]
) -> Callable[[], Any] | None:
    """The native call on carriers of the inputs, into those of the results; None where there is
    none.
    """
    compiled.executor.run(given)  # which makes it
    native = compiled.executor.native_call(given)
    made = None if native is None else native.results(given)
    call = None if native is None else native.bound(given, compiled.users.bound)
    if call is None or made is None or [a.nbytes for a in made] != [a.nbytes for a in results]:
        return None
    arrays = (*given, *results)
    return (
        functools.partial(call.run, *arrays)
        if call.finish(call.run(*arrays), arrays) == OK
        else None
    )


@functools.lru_cache(maxsize=1)
def _empty_call(compile_layer: CompileLayer) -> Callable[[], Any]:
    """A bound call with next to no work."""
    builder = Builder("empty")
    x = builder.parameter("x", "f32", [1])
    builder.result(builder.add("ReLU", 1, x)[0])
    return compile_layer(builder.model(), kernel_target(), 1).bind(np.zeros(1, np.float32))


#: Results of a step, the call to be timed (None: there is nothing to do), the kernel, and why it is
#: a reference.
_Made = tuple[list[Array], Union[Callable[[], Any], None], str, str]


class _Steps:
    """The steps of one call, each by itself, with the values that it has."""

    def __init__(
        self,
        model: Model,
        executor: BaseExecutor,
        inputs: Sequence[Array],
        compile_layer: CompileLayer,
        whole: Callable[[], Any],
    ) -> None:
        self._model, self._executor, self._compile_layer = model, executor, compile_layer
        self._whole = whole
        #: Seconds of the fastest call.
        self.whole_seconds = float("inf")
        planned = executor.as_planned(inputs)
        #: The specs of what layers of the plan read, by their names, which several may have.
        self._planned: dict[str, list[list[TensorSpec]]] = {}
        if planned is not None:
            for node in planned.nodes:
                read = [planned.spec(source) for source in node.inputs]
                self._planned.setdefault(node.name, []).append(read)
        self._values: dict[Source, Array] = {
            Source(p, 0): array for p, array in zip(model.parameters, inputs, strict=True)
        }
        shapes = {number: array.shape for number, array in enumerate(inputs)}
        #: Layers that have nothing to do in the plan: a Concat whose inputs lie side by side.
        self._views = {
            step.layer for step in executor.plan_for(shapes).steps if step.kernel == "view"
        }
        self._left: dict[Source, int] = {}
        for node in model.nodes:
            for source in node.inputs:
                self._left[source] = self._left.get(source, 0) + 1

    def measure(self, progress: Callable[[int, int], None] | None) -> list[ProfiledStep]:
        """The measurements of all steps."""
        result: list[ProfiledStep] = []
        some: list[_Measured] = []
        held = 0
        for number, node in enumerate(self._model.nodes, 1):
            if node.type_name not in _UNTIMED and any(
                port.spec.value is None for port in node.outputs
            ):
                some.append(self._step(node))
                held += sum(
                    self._value(Source(node.id, i)).nbytes for i in range(len(node.outputs))
                )
            for source in node.inputs:
                self._left[source] -= 1
                if not self._left[source]:
                    self._values.pop(source, None)
            if held > _HELD:
                result += self._rounds(some)
                some, held = [], 0
            if progress is not None:
                progress(number, len(self._model.nodes))
        return result + self._rounds(some)

    def _rounds(self, some: Sequence[_Measured]) -> list[ProfiledStep]:
        """The results of some steps, which are run in rounds until their smallest times are
        known.
        """
        empty, calls = _empty_call(self._compile_layer), [step.call for step in some]
        for call in calls:
            for _ in range(2):  # kernels of the first call are compiled, those of a second size too
                if call is not None:
                    call()
        count = sum(call is not None for call in calls)
        end, rounds, nothing = time.perf_counter() + _SECONDS * (count + 1), 0, float("inf")
        best = [0.0 if call is None else float("inf") for call in calls]
        while rounds < _ROUNDS or time.perf_counter() < end:
            for number, call in enumerate(calls):
                if call is not None:
                    best[number] = min(best[number], _time_of(call))
                if number % _EMPTY == 0:
                    nothing = min(nothing, _time_of(empty))
            if rounds < _WHOLE:
                self.whole_seconds = min(self.whole_seconds, _time_of(self._whole))
            rounds += 1
        return [
            step.result(max(1e-9, time_of - nothing) if time_of else 0.0)
            for step, time_of in zip(some, best, strict=True)
        ]

    def _step(self, node: Node) -> _Measured:
        values = {source: self._value(source) for source in dict.fromkeys(node.inputs)}
        given = [
            TensorSpec.of_array(self._model.spec(s).element_type, values[s]) for s in node.inputs
        ]
        try:
            if node.type_name in ("ReadValue", "Assign"):
                results, call, kernel, reason = self._by_reference(node, given)
            elif isinstance(node.checked_operation, AppendState):
                results, call, kernel, reason = self._appended(node, given)
            else:
                results, call, kernel, reason = self._by_kernel(node, values)
        except UncorkError as error:
            raise error.at(node.label) from None
        outputs = [
            TensorSpec(port.spec.element_type, PartialShape(array.shape))
            for port, array in zip(node.outputs, results, strict=True)
        ]
        for position, array in enumerate(results):
            self._values[Source(node.id, position)] = array
        computed, moved = (
            (0.0, 0.0) if kernel == "view" else work(node.checked_operation, given, outputs)
        )
        return _Measured(node, call, kernel, reason, outputs, moved, computed)

    def _value(self, source: Source) -> Array:
        result = self._values.get(source)
        if result is not None:
            return result
        node = self._model.by_id[source.node]
        value = (
            node.operation.value
            if isinstance(node.operation, Const)
            else node.outputs[source.output].spec.value
        )
        assert value is not None, "every value is of a step before, an input or a constant"
        return value

    def _by_kernel(
        self, node: Node, values: dict[Source, Array], *, as_given: bool = False
    ) -> _Made:
        known = {
            s: TensorSpec(self._model.spec(s).element_type, PartialShape(v.shape))
            for s, v in values.items()
        }
        single, sources = alone(self._model, node, known, known if as_given else None)
        if not as_given and len(sources) == 1:
            left_open = self._left_open(node, sources[0])
            single, sources = alone(self._model, node, known, left_open)
        compiled = self._compile_layer(single, self._executor.target, self._executor.threads)
        arrays = shown(compiled.inputs, (values[source] for source in sources))
        results = [
            carrier(array, port.element_type)
            for port, array in zip(compiled.outputs, compiled(*arrays), strict=True)
        ]
        steps = compiled.plan.steps
        kernel = ", ".join(dict.fromkeys(step.kernel for step in steps)) or "constant"
        reason = "; ".join(
            dict.fromkeys(
                step.reason for step in steps if step.kernel == "reference" and step.reason
            )
        )
        if kernel == "view" or node.name in self._views:
            return results, None, "view", reason
        return results, _bound(compiled, arrays, results), kernel, reason

    def _left_open(self, node: Node, source: Source) -> dict[Source, TensorSpec]:
        """The only input of a layer with the sizes open that the plan leaves open: kernels of any
        size may be others than those of one. Of several inputs it would not be known which sizes
        are the same.
        """
        place, own = node.inputs.index(source), self._model.spec(source)
        shapes = {
            spec.shape
            for read in self._planned.get(node.name, [])
            if len(read) == len(node.inputs)
            and (spec := read[place]).element_type is own.element_type
            and spec.rank is not None
            and spec.shape.compatible(own.shape)
        }
        if len(shapes) != 1:
            return {}
        shape = PartialShape([size.static_size for size in shapes.pop()])
        return {source: TensorSpec(own.element_type, shape)}

    def _appended(self, node: Node, given: list[TensorSpec]) -> _Made:
        """What is appended to a storage, measured on one of the size of what is new: by itself the
        layer would copy the whole storage, which the plan writes into.
        """
        operation = node.operation
        assert isinstance(operation, AppendState)
        storage, length, new = (spec.known for spec in given[:3])
        own = {
            node.inputs[0]: np.empty_like(new),
            node.inputs[1]: np.zeros_like(length),
            node.inputs[2]: new,
        }
        others = {s: spec.known for s, spec in zip(node.inputs[3:], given[3:], strict=True)}
        _, call, kernel, reason = self._by_kernel(node, own | others, as_given=True)
        return [operation.reference(storage, length, new, None)], call, kernel, reason

    def _by_reference(self, node: Node, given: list[TensorSpec]) -> _Made:
        operation = node.checked_operation
        results = [spec.known for spec in operation.evaluate(given)]
        return results, lambda: operation.evaluate(given), "reference", "a variable"
