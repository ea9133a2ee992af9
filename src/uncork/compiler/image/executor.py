"""The executor of a compiled file, and the model that stands for it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

import numpy as np
from msgspec.structs import replace

from uncork.compiler import plan as printed
from uncork.compiler.execute import Executor
from uncork.compiler.growing_state import GrowingStateExecutor
from uncork.compiler.image import format
from uncork.compiler.image.plans import ImagePlans
from uncork.compiler.state import References, StateExecutor
from uncork.errors import InputError, UncorkError, UnsupportedError
from uncork.ir.model import Model, Node, Port, Source
from uncork.kernels.runtime.target import Target
from uncork.ops import Operation
from uncork.ops._ports import Output
from uncork.ops.gather import Gather1, Gather7, Gather8
from uncork.ops.parameter import Parameter, Result
from uncork.ops.state import Assign3, ReadValue3
from uncork.passes.functionalize_variables import Lifted
from uncork.passes.match_appends import Append, RowSelection
from uncork.types import Array, ElementType, PartialShape, TensorSpec


class CompiledLayers(Operation):
    """All layers of a compiled model, of which a file has the plan and nothing else."""

    type_name, opset = "CompiledLayers", 0
    output = Output()


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
        node = Node(number, name, kind, "opset1", {}, tuple(inputs), tuple(ports), operation)
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
            of = ReadValue3(variable_id=read.variable)
            place, spec = Source(begin, number), Port(_spec(read))
            given.append(Source(made.add(read.layer, "ReadValue", of, [place], [spec]), 0))
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
    )


def stateful(
    model: Model,
    known: format.Variables,
    main: ImageExecutor,
    initial: ImageExecutor,
    references: References | None,
) -> StateExecutor | GrowingStateExecutor:
    """The executor of a model with variables, by those of its plans and of initial values.
    `references` make the calls that plans do not, where the file has its source.
    """
    references = references or _refuse
    grown = {one.variable: one for one in known.grown}
    reads = [node for node in model.nodes if isinstance(node.operation, ReadValue3)]
    values = tuple(node for node in reads if node.operation.variable_id not in grown)  # type: ignore[union-attr]
    read_of = {node.operation.variable_id: node for node in reads}  # type: ignore[union-attr]
    appended = tuple(_append(read_of[name], one) for name, one in grown.items())
    assigned = tuple(one.variable for one in known.assigned if one.variable not in grown)
    lifted = Lifted(main.model, values, assigned, appended)

    def executor_of(other: Model, _: Collection[int]) -> ImageExecutor:
        return main if other is lifted.model else initial

    if not appended:
        return StateExecutor(model, lifted, executor_of, references)
    return GrowingStateExecutor(model, lifted, executor_of, _no_other, references)


def _append(read: Node, one: format.Grown) -> Append:
    picked = one.picked
    selection = None
    if picked is not None:
        gather = {1: Gather1, 7: Gather7, 8: Gather8}[picked.opset]()
        node = replace(read, operation=gather.replace(strict=picked.strict))
        selection = RowSelection(node, picked.axis, picked.input)
    return Append(one.variable, read, read, one.axis, selection, one.shape_is_read)


def _refuse(inputs: Sequence[Array], state: object) -> NoReturn:
    """Say what plans said of a call: there are no references."""
    error = sys.exc_info()[1]
    if isinstance(error, UncorkError):
        raise error
    raise InputError("a compiled model does not make such a call: load its .xml")


def _no_other() -> NoReturn:
    raise InputError("a compiled model does not make such a call: load its .xml")


def _spec(port: format.Port | format.Read) -> TensorSpec:
    return TensorSpec(ElementType.parse(port.element_type), PartialShape.parse(port.shape))


def _begin(read: format.Read) -> TensorSpec:
    """What is known of the value that a variable begins with."""
    spec, begin = _spec(read), read.begin
    if begin is None:
        return spec
    value = np.frombuffer(begin.data, spec.element_type.dtype).reshape(begin.shape)
    return TensorSpec(spec.element_type, PartialShape(begin.shape), value)


class ImageExecutor(Executor):
    """Runs a model by the plans of a compiled file; may be called from several threads."""

    def __init__(
        self, model: Model, image: ImagePlans, target: Target, threads: int, limit: int | None
    ) -> None:
        self.model = self.prepared = model
        self.files, self.threads, self.target = (), threads, target
        self.memory_limit, self.use_kernels = limit, True
        self.plans = None
        self.image = image
        self.last = None
        #: What makes calls of a model with variables; see `stateful`.
        self.with_variables: StateExecutor | GrowingStateExecutor | None = None

    @property
    def stateful(self) -> StateExecutor | GrowingStateExecutor | None:  # type: ignore[override]
        """The executor of a model with variables; None when the model has none."""
        return self.with_variables

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The results, in carrier types. Raises InputError for a call that no plan takes."""
        results = self.image.run(inputs)
        self.last = self.image.fast
        return results

    def run_planned(self, inputs: Sequence[Array]) -> list[Array] | None:
        """The results; there is always a plan."""
        return self.run(inputs)

    def extended(self, inputs: Sequence[Array]) -> Mapping[int, tuple[int, ...]] | None:
        """The least shapes, by number, of the inputs that a call writes to."""
        return self.image.extended(inputs)

    def native_call(self, inputs: Sequence[Array]) -> None:
        """None: no other call is made of a compiled one."""

    def prepare(self, shapes: Mapping[int, Sequence[int | None]]) -> None:
        """Nothing: everything is compiled."""

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

    def as_it_runs(self, inputs: Sequence[Array]) -> NoReturn:
        """There are no layers. Raises UnsupportedError."""
        raise UnsupportedError(
            "is compiled, its layers are not in the file: profile the .xml that it was made of",
            self.model.source,
        )
