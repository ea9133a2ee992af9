"""Layers with bodies, put together step by step: `if_op`, `loop`, `tensor_iterator`.

What such a layer gives is known when its outputs are asked for: until then it has none.
"""

from __future__ import annotations

from typing import Any

from uncork.ir.bodies import GraphBody
from uncork.openvino._errors import as_runtime_errors, invalid, invalid_if, unsupported
from uncork.openvino._model import Model
from uncork.openvino._node import Node, Parameter, as_output
from uncork.openvino._ports import Output
from uncork.ops import find
from uncork.ops._body import (
    CONDITION,
    BodyInput,
    BodyMap,
    BodyOutput,
    InnerResult,
    JoinedOutput,
    SlicedInput,
    Slicing,
    SubGraphOperation,
    TurnNumber,
)


class _Body:
    """A body with what is joined to it so far."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.inputs: list[BodyInput | TurnNumber] = []
        self.outputs: list[BodyOutput | InnerResult] = []
        self.back_edges: list[tuple[int, int]] = []

    def parameter(self, node: Any) -> int:
        """The position of a parameter of the body."""
        position = self.model.get_parameter_index(node)
        invalid_if(
            position < 0, f"{node!r} is no parameter of the body {self.model.friendly_name!r}"
        )
        return position

    def result(self, value: Any) -> int:
        """The position of a result of the body, or of the tensor that one gives."""
        position = self.model.get_result_index(as_output(value))
        invalid_if(position < 0, f"{value!r} is given by no result of {self.model.friendly_name!r}")
        return position

    def joined(self) -> BodyMap:
        """The body as uncork's operations have it."""
        return BodyMap(
            GraphBody(self.model.frozen()),
            tuple(self.inputs),
            tuple(self.outputs),
            tuple(self.back_edges),
        )


class _WithBodies(Node):
    """A layer whose bodies are named `names`."""

    operation: SubGraphOperation

    def __init__(self, type_name: str, opset: int, sources: list[Output]) -> None:
        kind = find(type_name, opset)
        assert kind is not None and issubclass(kind, SubGraphOperation)
        super().__init__(kind(), sources, described=False)
        self._bodies: dict[str, _Body] = {}

    def _set_body(self, name: str, model: Any) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"expected a Model as body, got {type(model).__name__}")
        self._bodies[name] = _Body(model)

    def _body(self, name: str) -> _Body:
        invalid_if(
            name not in self._bodies, f"{self.get_type_name()} has no {name} yet: set it first"
        )
        return self._bodies[name]

    def _port_of(self, value: Any) -> int:
        """The position of a new input."""
        source = as_output(value)
        self.sources.append(source)
        source._node.readers.add(self)
        return len(self.sources) - 1

    def _finished(self, output: int) -> Output:
        """An output, once everything is joined that it needs."""
        with as_runtime_errors():
            bodies = {name: body.joined() for name, body in self._bodies.items()}
            self.operation = self.operation.with_bodies(bodies)
            self.validate_and_infer_types()
        return self.output(output)

    def get_function(self, index: int = 0) -> Model:
        """A body."""
        return self._body(self.operation.body_names[index]).model


class If(_WithBodies):
    """One of two bodies, as a condition says."""

    def __init__(self, condition: Any = None) -> None:
        super().__init__("If", 8, [] if condition is None else [as_output(condition)])

    def set_then_body(self, body: Any) -> None:
        """What is computed where the condition is true."""
        self._set_body("then_body", body)

    def set_else_body(self, body: Any) -> None:
        """What is computed where the condition is false."""
        self._set_body("else_body", body)

    def get_then_body(self) -> Model:
        """What is computed where the condition is true."""
        return self._body("then_body").model

    def get_else_body(self) -> Model:
        """What is computed where the condition is false."""
        return self._body("else_body").model

    def set_input(
        self, value: Any, then_parameter: Parameter | None, else_parameter: Parameter | None
    ) -> None:
        """Have a parameter of each body, or of one, read a tensor."""
        port = self._port_of(value)
        for name, parameter in (("then_body", then_parameter), ("else_body", else_parameter)):
            if parameter is not None:
                body = self._body(name)
                body.inputs.append(BodyInput(port, body.parameter(parameter)))

    def set_output(self, then_result: Any, else_result: Any) -> Output:
        """An output, which a result of each body gives."""
        port = len(self._body("then_body").outputs)
        for name, result in (("then_body", then_result), ("else_body", else_result)):
            body = self._body(name)
            body.outputs.append(BodyOutput(port, body.result(result)))
        return self._finished(port)


class TensorIterator(_WithBodies):
    """A body that runs again and again."""

    def __init__(self) -> None:
        super().__init__("TensorIterator", 1, [])

    def set_body(self, body: Any) -> None:
        """What is computed in every turn."""
        self._set_body("body", body)

    def set_function(self, func: Any) -> None:
        """What is computed in every turn."""
        self._set_body("body", func)

    def get_body(self) -> Model:
        """What is computed in every turn."""
        return self._body("body").model

    def set_invariant_input(self, body_parameter: Parameter, value: Any) -> None:
        """Have a parameter of the body read a tensor in every turn."""
        body = self._body("body")
        body.inputs.append(BodyInput(self._port_of(value), body.parameter(body_parameter)))

    def set_merged_input(
        self, body_parameter: Parameter, initial_value: Any, successive_value: Any
    ) -> None:
        """Have a parameter of the body read a tensor first, then what the body gives."""
        body = self._body("body")
        parameter = body.parameter(body_parameter)
        body.back_edges.append((body.result(successive_value), parameter))
        body.inputs.append(BodyInput(self._port_of(initial_value), parameter))

    def set_sliced_input(
        self,
        parameter: Parameter,
        value: Any,
        start: int,
        stride: int,
        part_size: int,
        end: int,
        axis: int,
    ) -> None:
        """Have a parameter of the body read a part of a tensor, another one in every turn."""
        body = self._body("body")
        slicing = Slicing(axis, start, end, stride, part_size)
        entry = SlicedInput(self._port_of(value), body.parameter(parameter), slicing)
        body.inputs.append(entry)

    def get_iter_value(self, body_value: Any, iteration: int = -1) -> Output:
        """An output: what the body gives in the last turn."""
        if iteration != -1:
            raise unsupported(f"iteration {iteration}: only the last turn (-1) gives an output")
        return self._new_output(BodyOutput(self._outputs, self._body("body").result(body_value)))

    def get_concatenated_slices(
        self, value: Any, start: int, stride: int, part_size: int, end: int, axis: int
    ) -> Output:
        """An output: what the body gives in every turn, joined along an axis."""
        slicing = Slicing(axis, start, end, stride, part_size)
        return self._new_output(
            JoinedOutput(self._outputs, self._body("body").result(value), slicing)
        )

    @property
    def _outputs(self) -> int:
        """How many outputs there are so far."""
        return sum(isinstance(entry, BodyOutput) for entry in self._body("body").outputs)

    def _new_output(self, entry: BodyOutput) -> Output:
        body = self._body("body")
        body.outputs.append(entry)
        try:
            return self._finished(entry.port)
        except RuntimeError:
            body.outputs.pop()  # it can be asked for again, when the rest is joined
            raise


class Loop(TensorIterator):
    """A body that runs again and again, so many times or while a condition holds."""

    def __init__(self, trip_count: Any = None, execution_condition: Any = None) -> None:
        if trip_count is None or execution_condition is None:
            raise invalid("loop: expected a trip count and a condition, constants for none")
        _WithBodies.__init__(
            self, "Loop", 5, [as_output(trip_count), as_output(execution_condition)]
        )
        self._special = [-1, -1]

    def set_special_body_ports(self, special_body_ports: Any) -> None:
        """Say which parameter of the body is the number of the turn (-1: none), and which result
        is the condition for the next one.
        """
        turn, condition = self._special = [int(port) for port in special_body_ports]
        body = self._body("body")
        if turn >= 0:
            body.inputs.append(TurnNumber(turn))
        if condition >= 0:
            body.outputs.append(InnerResult(condition, purpose=CONDITION))

    def get_special_body_ports(self) -> list[int]:
        """The parameter that is the number of the turn, and the result that is the condition."""
        return list(self._special)
