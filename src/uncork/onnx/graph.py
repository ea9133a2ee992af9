"""`Graph`: the layers of an ONNX graph, with the names and the bodies that it has."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from uncork.decompositions.language import Layers as Layers
from uncork.ir.model import Model, Node, Source
from uncork.ops.parameter import Const, Parameter
from uncork.types import ElementType, PartialShape


class Graph(Layers):
    """Layers of a model, or of the body of a loop or an If."""

    rank_hint = ": export the model with the shapes of its inputs (dimensions may be open)"
    value_hint = (
        ", and must be known when it is read: fold constants before you export "
        "(torch.onnx.export does, onnxsim too)"
    )

    def __init__(self, name: str, outer: Graph | None = None) -> None:
        super().__init__(name)
        self.outer = outer
        #: Of a body: what it takes from the graph around it, in the order of the parameters.
        self.captured: dict[Source, Source] = {}
        self._names: set[str] = set()

    def reshape(self, source: Source, shape: Source | Sequence[int]) -> Source:
        """A tensor in another shape. A constant of the file stays as it is, under its name."""
        node = self._nodes[source.node]
        if isinstance(node.operation, Const) and node.name and not isinstance(shape, Source):
            return self.make("Reshape", source, self.i64(shape), special_zero=False)
        return super().reshape(source, shape)

    # ---- bodies

    def body_parameter(self, name: str, kind: ElementType, shape: PartialShape) -> Source:
        """An input of a body."""
        return self._append(Parameter(element_type=kind, shape=shape), name, (), (name,))[0]

    def capture(self, source: Source, name: str) -> Source:
        """A tensor of the graph around this body as one of the body: a constant is one here too."""
        assert self.outer is not None
        constant = self.outer._nodes[source.node].operation
        if isinstance(constant, Const):
            return self.add_operation(constant, name=name)[0]
        if source not in self.captured:
            spec = self.outer.spec(source)
            self.captured[source] = self.body_parameter(name, spec.element_type, spec.shape)
        return self.captured[source]

    def position_of(self, source: Source) -> int:
        """Which parameter of a body this is."""
        return self._of_type("Parameter").index(source.node)

    def model(self) -> Model:
        """What was built, without the layers that no output needs: what a lowering has asked for
        its shape or its numbers only, or has written in another form.
        """
        model = super().model()
        needed = {*model.parameters, *model.results, *model.sinks}
        for node in reversed(model.nodes):  # which stand behind those that they read
            if node.id in needed:
                needed.update(source.node for source in node.inputs)
        return replace(model, nodes=tuple(n for n in model.nodes if n.id in needed))

    # ---- names

    @property
    def count(self) -> int:
        """How many layers there are."""
        return len(self._nodes)

    def named(self, name: str) -> str:
        """The name, or the first like it that no layer has."""
        unique, number = name, 1
        while unique in self._names:
            unique, number = f"{name}_{number}", number + 1
        self._names.add(unique)
        return unique

    def rename(self, since: int, name: str, main: Source | None) -> None:
        """Name the layers made `since`: the one that makes `main` has the name itself."""
        for i in range(since, len(self._nodes)):
            node = self._nodes[i]
            own = main is not None and node.id == main.node
            inner = name if own else f"{name}/{node.file_type}"
            self._nodes[i] = replace(node, name=self.named(inner))

    def name_tensor(self, source: Source, name: str, since: int = 0) -> bool:
        """Give a tensor a name, where its layer was made `since` and is no constant."""
        node = self._nodes[source.node]
        if node.id < since or node.file_type in ("Parameter", "Const"):
            return False
        self._nodes[node.id] = self._with_name(node, source.output, name)
        return True

    def _with_name(self, node: Node, output: int, name: str) -> Node:
        ports = [
            replace(p, names=(*p.names, name)) if i == output and name not in p.names else p
            for i, p in enumerate(node.outputs)
        ]
        return replace(node, outputs=tuple(ports))

    def end(self, source: Source, name: str) -> None:
        """Add an output of the model, which has the name whatever its tensor is called."""
        node = self._nodes[source.node]
        if name not in node.outputs[source.output].names:
            self.name_tensor(source, name)
        from uncork.ir.model import join_names
        from uncork.ops.parameter import Result

        self._append(Result(), self.named(f"{name}/sink_port_0"), (source,), ())
        last = self._nodes[-1]
        self._nodes[-1] = replace(last, layer_attributes=(("output_names", join_names((name,))),))

    def typed_result(self, source: Source) -> None:
        """Add an output of a body."""
        self.result(source)
