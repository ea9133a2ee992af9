"""Calls: a specialisation for each combination of input shapes, and the references where no kernel can serve.

The last specialisations are kept; a dimension that only kernels look at (the number of all indices of all bags) does not count
as a combination of its own.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import threading
from collections import OrderedDict
from collections.abc import Sequence

from uncork.compiler.passes.fuse_linear import fuse_linear
from uncork.compiler.plan import Plan
from uncork.compiler.specialise import Refused, Specialisation
from uncork.errors import ValidationError
from uncork.ir.interpret import interpret
from uncork.ir.model import Model, Source
from uncork.ir.validate import infer
from uncork.kernels import choose
from uncork.types import Array, PartialShape, TensorSpec

#: Combinations of input shapes that are kept; the one not used for longest is dropped.
_KEPT = 64
#: The files of `kernels` that choose.
FAMILIES = ("elementwise", "embedding", "gather", "linear", "move", "recurrent", "views")


@functools.lru_cache(maxsize=1)
def kernels_available() -> bool:
    """llvmlite is there, and the kernels are registered."""
    if importlib.util.find_spec("llvmlite") is None:
        return False
    for family in FAMILIES:
        importlib.import_module(f"uncork.kernels.{family}")
    return True


class Executor:
    """Runs a checked model; may be called from several threads."""

    def __init__(self, model: Model, use_kernels: bool) -> None:
        self.model = model
        self.use_kernels = use_kernels and kernels_available()
        #: What runs; the interpreter keeps to the model as it was read.
        self._prepared = fuse_linear(model) if self.use_kernels else model
        self._kept: OrderedDict[tuple[object, ...], Specialisation] = OrderedDict()
        self._lock = threading.Lock()
        self._free, self._equal = self._open_lengths()

    def _open_lengths(self) -> tuple[frozenset[int], list[list[Source]]]:
        """Inputs (by number) whose length may be left open, and the inputs of a layer that must have one length."""
        model = self.model
        if not self.use_kernels:
            return frozenset(), []
        readers: dict[Source, list[bool]] = {}
        groups: list[list[Source]] = []
        for node in model.nodes:
            free = [node.operation is not None and choose.free_lengths(node.operation, i) for i in range(len(node.inputs))]
            for source, is_free in zip(node.inputs, free):
                readers.setdefault(source, []).append(is_free)
            if any(free):
                groups.append([source for source, is_free in zip(node.inputs, free) if is_free])
        numbers = {
            number
            for number, parameter in enumerate(model.parameters)
            if all(readers.get(Source(parameter, 0), [False])) and self._is_open(parameter)
        }
        return frozenset(numbers), groups

    def _is_open(self, parameter: int) -> bool:
        shape = self.model.by_id[parameter].outputs[0].spec.shape
        return shape.rank == 1 and not shape.is_static

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The results, in carrier types, from one carrier array per parameter."""
        if not self.use_kernels:
            return interpret(self.model, inputs)
        key = tuple(None if i in self._free else array.shape for i, array in enumerate(inputs))
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        if found is None:
            found = self._specialised(inputs)
            with self._lock:
                self._kept[key] = found
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        if self._equal and not self._lengths_agree(found, inputs):
            return interpret(self.model, inputs)  # which says what does not fit
        try:
            return found.run(inputs)
        except Refused:
            return interpret(self.model, inputs)

    def _specialised(self, inputs: Sequence[Array]) -> Specialisation:
        shapes = {
            parameter: TensorSpec(
                self.model.by_id[parameter].outputs[0].spec.element_type,
                PartialShape([None] if number in self._free else inputs[number].shape),
            )
            for number, parameter in enumerate(self.model.parameters)
        }
        model, problems = infer(self._prepared, shapes, trust_ports=True)
        if problems:
            interpret(self.model, inputs)  # raises what a call raises, with the values of this one
            raise ValidationError.of_all("", problems)
        return Specialisation(model, self.use_kernels)

    def _lengths_agree(self, specialisation: Specialisation, inputs: Sequence[Array]) -> bool:
        numbers = {parameter: number for number, parameter in enumerate(self.model.parameters)}
        for group in self._equal:
            lengths = set()
            for source in group:
                number = numbers.get(source.node)
                lengths.add(inputs[number].shape[0] if number is not None else specialisation.model.spec(source).shape[0].size)
            if len(lengths) > 1:
                return False
        return True

    def plan(self) -> Plan:
        """How a call runs; for a model with dynamic inputs, what is known before one."""
        specs = {p: self.model.by_id[p].outputs[0].spec for p in self.model.parameters}
        model, problems = infer(self._prepared, specs, trust_ports=True)
        if problems:
            raise ValidationError.of_all("", problems)
        return Specialisation(model, self.use_kernels).plan
