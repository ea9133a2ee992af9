"""Calls: by a plan for every size, and by the references where values or sizes are none that kernels compute with.

A model that cannot be planned so (a layer's kernel needs numbers for its sizes) has a specialisation for each combination of input
shapes. The last ones are kept; a dimension that only kernels look at (the number of all indices of all bags) is none of its own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from uncork.compiler.direct import Direct, Refused
from uncork.compiler.lengths import open_lengths
from uncork.compiler.native_call import NativeCall
from uncork.compiler.plan import Plan
from uncork.compiler.plan_set import PlannedCall, PlanSet
from uncork.compiler.specialise import Specialisation
from uncork.concurrency import lazy, renews_locks, unforked
from uncork.errors import Problem, ValidationError
from uncork.files import MappedFile
from uncork.ir.interpret import State, interpret
from uncork.ir.model import Model
from uncork.ir.validate import infer
from uncork.kernels import select
from uncork.kernels.runtime.kernel_cache import CannotCompile
from uncork.kernels.runtime.program import Like
from uncork.kernels.runtime.target import Target, host_target, with_tiles
from uncork.ops._body import SubGraphOperation
from uncork.passes import pipeline
from uncork.symbolic import Guard, Origin
from uncork.types import Array, PartialShape, TensorSpec

if TYPE_CHECKING:
    from uncork.compiler.sizes import Number
    from uncork.compiler.state import StateExecutor

#: Combinations of input shapes that are kept; the one not used for longest is dropped.
_KEPT = 64
#: Inputs of so few numbers may say what shapes are.
_NUMBERS = 8
#: So many combinations are specialised at once for such numbers; later ones only when they come a second time.
_EAGER = 8
#: Where shapes may be others every time: how often they come before they are specialised, and how many are counted.
_TIMES, _COUNTED = 2, 256


def kernels_available() -> bool:
    """llvmlite is there; it is imported when a kernel has to be compiled."""
    return not select.unavailable()


def kernel_target(precision: str = "f32") -> Target | None:
    """What kernels are selected for on this machine; None where there are none."""
    if not kernels_available():
        return None
    return host_target() if precision == "f32" else with_tiles(host_target())


def _loaded(target: Target, model: Model) -> Model:
    """What can be rewritten before sizes are known."""
    return pipeline.run(pipeline.ON_LOAD, model, pipeline.Options(target))


def _fused(target: Target | None, model: Model) -> Model:
    """What can only be rewritten when every size is known, as a number or an expression."""
    if target is None:
        return model
    return pipeline.run(pipeline.WITH_SIZES, model, pipeline.Options(target))


def _has_bodies(model: Model) -> bool:
    return any(isinstance(node.operation, SubGraphOperation) for node in model.nodes)


def _with_bodies(model: Model, target: Target | None, memory_limit: int | None) -> Model:
    """The model with bodies that are run by an executor each."""
    if not _has_bodies(model):
        return model
    from uncork.compiler.bodies import with_kernel_bodies

    return with_kernel_bodies(model, lambda body: Executor(body, target, memory_limit=memory_limit))


class Executor:
    """Runs a checked model; may be called from several threads."""

    def __init__(
        self,
        model: Model,
        target: Target | None,
        threads: int = 1,
        files: Sequence[MappedFile] = (),
        may_be_empty: Collection[int] = (),
        memory_limit: int | None = None,
    ) -> None:
        """Without a `target` it runs by the references. `may_be_empty` are parameters that often are.

        A call takes at most `memory_limit` bytes of working memory.
        """
        self.memory_limit = memory_limit
        self.model = model
        #: Where constants are mapped; they must be whole when a call begins.
        self.files = files
        self.threads = threads
        self.target = target
        self.use_kernels = target is not None
        #: What runs; the interpreter keeps to the model as it was read.
        with unforked():
            self._prepared = model if target is None else _with_bodies(_loaded(target, model), target, memory_limit)
        self._kept: OrderedDict[tuple[object, ...], Specialisation] = OrderedDict()
        self._times: OrderedDict[tuple[object, ...], int] = OrderedDict()
        self.renew_locks()
        renews_locks(self)
        self._free, self._equal = open_lengths(self._prepared) if self.use_kernels else (frozenset(), [])
        #: Numbers of the inputs that are part of a combination; None until a call has shown whether there are any.
        self._sizes: tuple[Number, ...] | None = None
        #: Plans for every size; None where only references run.
        self.plans = None
        if target is not None:
            self.plans = PlanSet(self._prepared, partial(_fused, target), target, threads, files, may_be_empty, memory_limit)
        self._may_be_sizes = self.use_kernels and any(
            spec.element_type.is_integer and spec.shape.is_static and int(spec.shape.size) <= _NUMBERS
            for spec in (model.by_id[p].outputs[0].spec for p in model.parameters)
        )
        #: What made the call before this one. Safe to run with anything.
        self.last: Direct | PlannedCall | None = None

    def renew_locks(self) -> None:
        """Make the lock of what is kept: at the start, and in a child process."""
        self._lock = threading.Lock()

    @lazy
    def _stateful(self) -> StateExecutor | None:
        """What runs the model when it has variables; None when only the interpreter does."""
        with unforked():
            from uncork.compiler.state import StateExecutor
            from uncork.passes.functionalize_variables import functionalize_variables

            lifted = functionalize_variables(self.model) if self.use_kernels and self.model.sinks else None
            if lifted is None:
                return None
            target, threads, files, limit = self.target, self.threads, self.files, self.memory_limit
            return StateExecutor(self.model, lifted, lambda model, empty: Executor(model, target, threads, files, empty, limit))

    def run_with_state(self, inputs: Sequence[Array], state: State) -> list[Array]:
        """`run` for a model with variables, whose values `state` keeps by their ids; it changes when the call has succeeded."""
        stateful = self._stateful
        return interpret(self.model, inputs, state) if stateful is None else stateful.run(inputs, state)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The results, in carrier types, from one carrier array per parameter."""
        if not self.use_kernels:
            return interpret(self.model, inputs)
        if self.plans is not None:
            try:
                results = self.plans.run(inputs)
            except Refused:
                return interpret(self.model, inputs)
            if results is not None:
                self.last = self.plans.last
                return results
        found = self.known(inputs) or self._remembered(inputs)
        return self.run_with(found, inputs)

    def run_as_before(self, inputs: Sequence[Array]) -> list[Array] | None:
        """The results, when these arrays are like those of the last call, and that was one native program; else None."""
        try:
            if self.last is None:
                return None
            last = self.last
            found: Any = last.run(*inputs)
            return found if type(found) is list else last.again(found, inputs)
        except Refused:
            return None

    def run_patiently(self, inputs: Sequence[Array]) -> list[Array]:
        """The same where shapes may be others every time, as those of a loop whose tensors grow.

        Without a plan for every size, kernels are made for the shapes that come back.
        """
        planned = self.plans is not None and not self.plans.reason
        if planned or not self.use_kernels or self.known(inputs) is not None:
            return self.run(inputs)
        return self.run(inputs) if self._comes_back(self._key(inputs)) else interpret(self.model, inputs)

    def known(self, inputs: Sequence[Array]) -> Specialisation | None:
        """The specialisation for these shapes, when there was a call of them before."""
        key = self._key(inputs)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        return found

    def _key(self, inputs: Sequence[Array]) -> tuple[object, ...]:
        free = self._free
        # Of an open length the other dimensions still count: arrays come here before anybody has looked at their shapes.
        shapes = [(None, *array.shape[1:]) if i in free and array.ndim else array.shape for i, array in enumerate(inputs)]
        return (*shapes, *self._numbers(inputs)) if self._sizes else tuple(shapes)

    def _numbers(self, inputs: Sequence[Array]) -> list[int | None]:
        """The numbers among the inputs' that shapes depend on."""
        found: list[int | None] = []
        for number in self._sizes or ():
            array = inputs[number.input]
            found.append(int(array.flat[number.element]) if number.element < array.size else None)
        return found

    def _remembered(self, inputs: Sequence[Array]) -> Specialisation:
        with unforked():  # imports what this model needs
            return self._made(inputs)

    def _made(self, inputs: Sequence[Array]) -> Specialisation:
        if self._sizes is None:
            self._sizes = self._needed_numbers(inputs)
        key, numbers = self._key(inputs), self._sizes
        if numbers and len(self._kept) >= _EAGER and not self._comes_back(key):
            key, numbers = key[: len(inputs)], ()
        with self._lock:
            found = self._kept.get(key)
        found = found or self._specialised(inputs, numbers)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def _needed_numbers(self, inputs: Sequence[Array]) -> tuple[Number, ...]:
        if not self._may_be_sizes:
            return ()
        from uncork.compiler.sizes import candidates, needed  # most models have no such inputs

        found = needed(self._prepared, self._specs(inputs), inputs, _NUMBERS)
        whole = tuple(n for n in candidates(self._prepared, _NUMBERS) if n.input in {other.input for other in found})
        # What says where values go must be known whole, though shapes depend on some of its numbers only.
        better = len(whole) > len(found) and self._specialised(inputs, whole).references < self._specialised(inputs, found).references
        return whole if better else found

    def _comes_back(self, key: tuple[object, ...]) -> bool:
        """There was a call of this key before."""
        with self._lock:
            times = self._times[key] = self._times.pop(key, 0) + 1
            while len(self._times) > _COUNTED:
                self._times.popitem(last=False)
        return times >= _TIMES

    def native_call(self, inputs: Sequence[Array]) -> NativeCall | None:
        """One native call for arrays of these shapes and of the model's types; None when there is no such call."""
        return None if self.plans is None else self.plans.native_call(inputs)

    def _likes(self, inputs: Sequence[Array]) -> list[Like] | None:
        """What the inputs of calls like this one have in common; None when it cannot be told so simply."""
        shapes: list[tuple[int | None, ...]] = [(None, *array.shape[1:]) if n in self._free else array.shape for n, array in enumerate(inputs)]
        same: dict[int, int] = {}
        for members, size in self._equal:
            for number in members:
                if size is not None:
                    shapes[number] = (size, *shapes[number][1:])
                elif number != min(members) and same.setdefault(number, min(members)) != min(members):
                    return None
        return [Like(np.dtype(array.dtype.char), shape, same.get(n)) for n, (array, shape) in enumerate(zip(inputs, shapes))]

    def run_with(self, specialisation: Specialisation, inputs: Sequence[Array]) -> list[Array]:
        """A call of shapes that the specialisation is for."""
        for members, size in self._equal:
            first = inputs[members[0]].shape[0] if size is None else size
            for number in members:
                if inputs[number].shape[0] != first:
                    return interpret(self.model, inputs)  # which says what does not fit
        try:
            self.last = specialisation.direct
            return specialisation.run(inputs)
        except Refused:
            return interpret(self.model, inputs)
        except CannotCompile as error:
            select.falls_back(error)
            return interpret(self.model, inputs)

    def _specs(self, inputs: Sequence[Array]) -> dict[int, TensorSpec]:
        """The parameters as they are for calls like this one."""
        return {
            parameter: TensorSpec(
                self.model.by_id[parameter].outputs[0].spec.element_type,
                PartialShape([None, *inputs[number].shape[1:]] if number in self._free else inputs[number].shape),
            )
            for number, parameter in enumerate(self.model.parameters)
        }

    def _specialised(self, inputs: Sequence[Array], numbers: Sequence[Number] = ()) -> Specialisation:
        """For calls of these shapes and, where they are named, of these numbers among the inputs."""
        specs = self._specs(inputs)
        known: Model | None = None
        problems: list[Problem] = []
        if numbers:
            from uncork.compiler.sizes import inferred

            known = inferred(self._prepared, specs, inputs, numbers)
        if known is None:
            known, problems = infer(self._prepared, specs, trust_ports=True)
            if problems:
                interpret(self.model, inputs)  # raises what a call raises, with the values of this one
        # With problems the call is good all the same, as where the other branch of an If does not fit; passes would trust the specs.
        fused = known if problems else _fused(self.target, known)
        expected = [(n.input, n.element, int(inputs[n.input].flat[n.element])) for n in numbers]
        unfit = {problem.where for problem in problems}
        return Specialisation(fused, self.target, self._likes(inputs), self.threads, expected, unfit, self.files)

    def prepare(self, shapes: Mapping[int, Sequence[int | None]]) -> None:
        """Plan the calls of inputs of these shapes, by number, and compile their kernels; other sizes are as they mostly are."""
        if self.model.sinks:
            if self._stateful is not None:
                self._stateful.executor.prepare(shapes)
        elif self.plans is not None:
            parameters = self.model.parameters
            sizes = ((Origin(parameters[n], 0, axis), size) for n, shape in shapes.items() for axis, size in enumerate(shape))
            self.plans.prepare({origin: size for origin, size in sizes if size is not None})
        for body in self._bodies():
            body.prepare({})

    def _bodies(self) -> list[Executor]:
        """What runs the bodies of layers."""
        if not self.use_kernels or not _has_bodies(self._prepared):
            return []
        from uncork.compiler.bodies import executors_of_bodies

        return [executor for executor in executors_of_bodies(self._prepared) if isinstance(executor, Executor)]

    def as_it_runs(self, inputs: Sequence[Array]) -> Model:
        """The model after the passes for a call of these inputs: its layers are the steps."""
        known, problems = infer(self._prepared, self._specs(inputs), trust_ports=True)
        return known if problems else _fused(self.target, known)

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""
        if self.plans is not None:
            self.plans.release_memory()
        if self.model.sinks and self._stateful is not None:
            self._stateful.release_memory()
        for body in self._bodies():
            body.release_memory()
        with self._lock:
            self._kept.clear()
            self._times.clear()
        self.last = None

    def plan(self) -> Plan:
        """How a call runs; for a model with dynamic inputs, what is known before one."""
        with unforked():
            return self._planned()

    def _planned(self) -> Plan:
        if self.model.sinks and self._stateful is not None:
            return self._stateful.executor.plan()
        if self.plans is not None and self.plans.plans:
            last = self.plans.plans[0]
            guards = tuple(f"{relation} ({relation.where})" for relation in last.relations if isinstance(relation, Guard))
            return Plan(last.printed, self.plans.working_bytes, guards)
        specs = {p: self.model.by_id[p].outputs[0].spec for p in self.model.parameters}
        model, problems = infer(self._prepared, specs, trust_ports=True)
        if problems:
            raise ValidationError.of_all("", problems)
        plan = Specialisation(_fused(self.target, model), self.target, threads=self.threads).plan
        if not self.use_kernels or not _has_bodies(model):
            return plan
        from uncork.compiler.bodies import with_their_plans

        return with_their_plans(plan, model)
