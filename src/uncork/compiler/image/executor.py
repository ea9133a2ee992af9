"""The executor of a compiled file, and the model that stands for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from uncork.compiler import plan as printed
from uncork.compiler.base_executor import BaseExecutor
from uncork.compiler.image import format
from uncork.compiler.image.plans import ImagePlans, NotPlanned
from uncork.errors import UnsupportedError
from uncork.internal_ops.coded_rows import CodedRead, RowCoding
from uncork.internal_ops.compiled_layers import CompiledLayers
from uncork.ir.graph import COMPILED_LAYERS
from uncork.ir.model import Model, Node, Port, Source
from uncork.kernels.runtime.target import Target
from uncork.ops import Operation
from uncork.ops.parameter import Parameter, Result
from uncork.ops.state import Assign3, ReadValue3
from uncork.types import Array, ElementType, PartialShape, TensorSpec

if TYPE_CHECKING:
    from uncork.compiler.growing_state import GrowingStateExecutor
    from uncork.compiler.state import StateExecutor


class _Nodes:
    """The nodes of a model under construction."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(
        self,
        name: str,
        kind: str,
        operation: Operation,
        inputs: Sequence[Source] = (),
        ports: Sequence[Port] = (),
    ) -> int:
        """Add a node; its id."""
        number = len(self.nodes)
        opset = COMPILED_LAYERS if kind == "CompiledLayers" else "opset1"
        node = Node(number, name, kind, opset, {}, tuple(inputs), tuple(ports), operation)
        self.nodes.append(node)
        return number


def model_of(description: format.Description, source: str) -> Model:
    """A model with the inputs, outputs and variables of a compiled file, whose layers are one."""
    made, known = _Nodes(), description.variables or format.Variables((), ())
    parameters = []
    for port in description.inputs:
        spec = _spec(port)
        operation = Parameter(element_type=spec.element_type, shape=spec.shape)
        ports = [Port(spec, port.names)]
        parameters.append(made.add(port.names[0], "Parameter", operation, ports=ports))
    given = [Source(parameter, 0) for parameter in parameters]
    if known.reads:
        ports = [Port(_begin(read)) for read in known.reads]
        begin = made.add("<initial values>", "CompiledLayers", CompiledLayers(), given, ports)
        for number, read in enumerate(known.reads):
            place = Source(begin, number)
            value = made.add(read.layer, "ReadValue", _reading(read), [place], [Port(_spec(read))])
            given.append(Source(value, 0))
    ports = [Port(_spec(port), port.names) for port in description.outputs]
    ports += [Port(_spec(variable)) for variable in known.assigned]
    layers = made.add(description.name, "CompiledLayers", CompiledLayers(), given, ports)
    results = [
        made.add(port.names[0], "Result", Result(), [Source(layers, number)])
        for number, port in enumerate(description.outputs)
    ]
    sinks = [
        made.add(
            variable.layer,
            "Assign",
            Assign3(variable_id=variable.variable),
            [Source(layers, number)],
            [Port(_spec(variable))],
        )
        for number, variable in enumerate(known.assigned, len(results))
    ]
    return Model(
        description.name,
        11,
        tuple(made.nodes),
        tuple(parameters),
        tuple(results),
        tuple(sinks),
        source=source,
        extras=description.extras,
    )


def _spec(port: format.Port | format.Read) -> TensorSpec:
    return TensorSpec(ElementType.parse(port.element_type), PartialShape.parse(port.shape))


def _reading(read: format.Read) -> ReadValue3:
    if not read.coding:
        return ReadValue3(variable_id=read.variable)
    kept = _spec(read)
    return CodedRead(
        variable_id=read.variable,
        variable_type=kept.element_type,
        variable_shape=kept.shape,
        coding=RowCoding(ElementType.parse(read.coding)),
    )


def _begin(read: format.Read) -> TensorSpec:
    """What is known of the value that a variable begins with."""
    spec, begin = _spec(read), read.begin
    if begin is None:
        return spec
    value = np.frombuffer(begin.data, spec.element_type.dtype).reshape(begin.shape)
    return TensorSpec.of_array(spec.element_type, value)


class ImageExecutor(BaseExecutor):
    """Runs a model by the plans of a compiled file; may be called from several threads."""

    def __init__(
        self, model: Model, image: ImagePlans, target: Target, threads: int, limit: int | None
    ) -> None:
        self.model, self.target = model, target
        self.files, self.threads, self.memory_limit = (), threads, limit
        self.image = image
        self.last = None
        #: Somebody else makes the calls of a model with variables that no plan takes.
        self.has_references = False
        #: What makes calls of a model with variables; see `stateful`.
        self.with_variables: StateExecutor | GrowingStateExecutor | None = None

    @property
    def stateful(self) -> StateExecutor | GrowingStateExecutor | None:
        """The executor of a model with variables; None when the model has none."""
        return self.with_variables

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The results, in carrier types. Raises NotPlanned for a call that no plan takes."""
        results = self.image.make(inputs)
        self.last = self.image.fast
        return results

    def run_planned(self, inputs: Sequence[Array]) -> list[Array] | None:
        """The results; None where no plan takes the call, and references make it."""
        try:
            return self.run(inputs)
        except NotPlanned:
            if not self.has_references:
                raise
            return None

    def extended(self, inputs: Sequence[Array]) -> Mapping[int, tuple[int, ...]] | None:
        """The least shapes, by number, of the inputs that a call writes to."""
        return self.image.extended(inputs)

    def native_call(self, inputs: Sequence[Array]) -> None:
        """None: no other call is made of a compiled one."""

    def prepare(self, shapes: Mapping[int, Sequence[int | None]]) -> None:
        """Nothing: everything is compiled."""

    def growing_axes(self) -> dict[str, int]:
        """The axes along which variables grow, of which the file says what no layer does."""
        made = self.with_variables
        return {} if made is None else {one.variable: one.axis for one in made.lifted.appended}

    def release_memory(self) -> None:
        """Give the working memory of calls that are not running back."""
        if self.with_variables is not None:
            self.with_variables.release_memory()
        self.image.release_memory()
        self.last = None

    def plan(self) -> printed.Plan:
        """The plan that the file has."""
        if self.with_variables is not None:
            return self.with_variables.plan()
        return self.image.printed()

    def plan_for(self, shapes: Mapping[int, Sequence[int | None]]) -> printed.Plan:
        """The plan that the file has, whatever the shapes."""
        return self.image.printed()

    def without_variables(self, inputs: Sequence[Array], state: object) -> NoReturn:
        """There are no layers. Raises UnsupportedError."""
        self.as_it_runs(inputs)

    def as_it_runs(self, inputs: Sequence[Array]) -> NoReturn:
        """There are no layers. Raises UnsupportedError."""
        raise UnsupportedError(
            "is compiled, its layers are not in the file: profile the .xml that it was made of",
            self.model.source,
        )
