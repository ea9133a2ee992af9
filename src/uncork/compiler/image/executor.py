"""The executor of a compiled file, and the model that stands for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from uncork.compiler import plan as printed
from uncork.compiler.execute import Executor
from uncork.compiler.image import format
from uncork.compiler.image.plans import ImagePlans
from uncork.errors import UnsupportedError
from uncork.ir.model import Model, Node, Port, Source
from uncork.kernels.runtime.target import Target
from uncork.ops import Operation
from uncork.ops._ports import Output
from uncork.ops.parameter import Parameter, Result
from uncork.types import Array, ElementType, PartialShape, TensorSpec


class CompiledLayers(Operation):
    """All layers of a compiled model, of which a file has the plan and nothing else."""

    type_name, opset = "CompiledLayers", 0
    output = Output()


def model_of(description: format.Description, source: str) -> Model:
    """A model with the inputs and outputs of a compiled file, whose layers are one."""
    nodes: list[Node] = []

    def add(
        name: str, kind: str, inputs: tuple[Source, ...], ports: tuple[Port, ...], operation: Any
    ) -> int:
        nodes.append(Node(len(nodes), name, kind, "opset1", {}, inputs, ports, operation))
        return len(nodes) - 1

    parameters = []
    for port in description.inputs:
        spec = _spec(port)
        operation = Parameter(element_type=spec.element_type, shape=spec.shape)
        parameters.append(add(port.names[0], "Parameter", (), (Port(spec, port.names),), operation))
    layers = add(
        description.name,
        "CompiledLayers",
        tuple(Source(parameter, 0) for parameter in parameters),
        tuple(Port(_spec(port), port.names) for port in description.outputs),
        CompiledLayers(),
    )
    results = [
        add(port.names[0], "Result", (Source(layers, number),), (), Result())
        for number, port in enumerate(description.outputs)
    ]
    return Model(
        description.name, 11, tuple(nodes), tuple(parameters), tuple(results), source=source
    )


def _spec(port: format.Port) -> TensorSpec:
    return TensorSpec(ElementType.parse(port.element_type), PartialShape.parse(port.shape))


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
        self.image.release_memory()
        self.last = None

    def plan(self) -> printed.Plan:
        """The plan that the file has."""
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
