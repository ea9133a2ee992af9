"""`Model`: a graph of nodes that may be changed in place."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from uncork.compiler.compile import compile_model
from uncork.errors import UncorkError, did_you_mean
from uncork.ir.graph import XmlElement
from uncork.ir.model import Model as CoreModel
from uncork.openvino import _graph
from uncork.openvino._any import OVAny, RTMap
from uncork.openvino._attribute import attribute
from uncork.openvino._errors import (
    as_runtime_errors,
    invalid,
    invalid_if,
    unsupported,
)
from uncork.openvino._node import Named, Node, Parameter, Result, as_output
from uncork.openvino._ports import ConstOutput, Output
from uncork.openvino._positions import ports_text, position_of
from uncork.openvino._shapes import PartialShape, Shape, core_shape
from uncork.openvino._tensor import Tensor
from uncork.openvino._types import Type
from uncork.ops import parameter as ends
from uncork.ops.state import Assign3, ReadValue3

_numbers = itertools.count()


class Variable:
    """A variable of a model, that ReadValue reads and Assign sets."""

    def __init__(self, variable_id: str, read: Node | None) -> None:
        self._id, self._read = variable_id, read

    def get_info(self) -> Variable:
        """What is said of it: this very object has it."""
        return self

    info = attribute(get_info)

    @property
    def variable_id(self) -> str:
        """The name by which it is read and set."""
        return self._id

    @property
    def data_shape(self) -> PartialShape:
        """The shape of its values."""
        return PartialShape.dynamic() if self._read is None else _first(self._read).partial_shape

    @property
    def data_type(self) -> Type:
        """The type of its values."""
        return Type.dynamic if self._read is None else _first(self._read).element_type

    def __repr__(self) -> str:
        return f"<Variable: '{self._id}' {self.data_type.to_string()}{self.data_shape}>"


def _first(node: Node) -> Output:
    return node.output(0)


class Model(Named):
    """A graph of nodes between parameters and results.

    `Model([y], [x], "name")`, where y is a node or an output, and x are parameters.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        self._own_name = f"Model{next(_numbers)}"
        self._extras: tuple[XmlElement, ...] = ()
        self._info: dict[str, Any] = {}
        self._source = ""
        self.checked: CoreModel
        if len(args) == 1 and isinstance(args[0], Model):
            self._take(args[0]._core())
            return
        results, sinks, parameters, name = _parts(args, named)
        self._name = name
        with as_runtime_errors():
            self._results = [
                r if isinstance(r, Result) else Result(as_output(r)) for r in _listed(results)
            ]
            self._parameters = [p for p in _listed(parameters) if isinstance(p, Parameter)]
            invalid_if(
                len(self._parameters) != len(_listed(parameters)),
                "parameters: expected nodes of opset.parameter(...)",
            )
            self._sinks = list(_listed(sinks))
            _name_ports(self._parameters)
            _name_ports(self._results)
            self.checked = self._core()

    @staticmethod
    def of_core(model: CoreModel) -> Model:
        """A model of uncork's."""
        made = object.__new__(Model)
        made._own_name = f"Model{next(_numbers)}"
        made._take(model)
        return made

    def _take(self, model: CoreModel) -> None:
        #: uncork's model that the nodes were made of.
        self.checked = model
        nodes = _graph.nodes_of(model)
        self._name, self._source = model.name, model.source
        self._extras = model.extras
        self._info = _graph.info_of(model.extras)
        self._results = [r for n in model.results if isinstance(r := nodes[n], Result)]
        self._parameters = [p for n in model.parameters if isinstance(p := nodes[n], Parameter)]
        self._sinks = [nodes[n] for n in model.sinks]
        for node in (*self._parameters, *self._results):
            if not node.output(0).names:
                node.output(0).set_names([node.get_friendly_name()])

    def _core(self) -> CoreModel:
        """uncork's model of the nodes as they are now; their types and shapes are found anew."""
        name = self.get_friendly_name()
        extras = _graph.extras_with(self._extras, self._info)
        sinks = list(self._sinks)
        # What sets a variable runs in any case, told of or not.
        sinks += [n for n in _assigns([*sinks, *self._results]) if all(n is not s for s in sinks)]
        with as_runtime_errors():
            model, nodes = _graph.frozen(
                name, self._results, sinks, self._parameters, extras, self._source or name
            )
        for node, layer in zip(nodes, model.nodes, strict=True):
            if isinstance(node, Result):
                node.specs = (node.sources[0].spec,)
            else:
                node._give(tuple(port.spec for port in layer.outputs))
        return model

    def frozen(self) -> CoreModel:
        """uncork's model of the nodes as they are now."""
        return self._core()

    def validate_nodes_and_infer_types(self) -> None:
        """Find types and shapes anew, after changes. Raises RuntimeError with all that does not
        fit.
        """
        self._core()

    def clone(self) -> Model:
        """A copy: nodes of its own, the same constants."""
        made = Model.of_core(self._core())
        for old, new in zip(self._parameters, made._parameters, strict=True):
            new.layout = old.layout
        for before, after in zip(self._results, made._results, strict=True):
            after.layout = before.layout
        return made

    def __copy__(self) -> Model:
        return self.clone()

    def __deepcopy__(self, memory: Any) -> Model:
        return self.clone()

    # ---- nodes

    def get_ordered_ops(self) -> list[Node]:
        """The nodes, each after its inputs."""
        return _graph.ordered([*self._parameters, *self._sinks, *self._results])

    def get_ops(self) -> list[Node]:
        """The nodes."""
        return self.get_ordered_ops()

    def get_parameters(self) -> list[Parameter]:
        """The nodes of the inputs."""
        return list(self._parameters)

    parameters = attribute(get_parameters)

    def get_results(self) -> list[Result]:
        """The nodes of the outputs."""
        return list(self._results)

    results = attribute(get_results)

    def get_result(self) -> Result:
        """The node of the only output."""
        invalid_if(
            len(self._results) != 1, f"the model has {len(self._results)} results: get_results()"
        )
        return self._results[0]

    result = attribute(get_result)

    def get_sinks(self) -> list[Node]:
        """The nodes that set variables."""
        return list(self._sinks)

    sinks = attribute(get_sinks)

    def get_variables(self) -> list[Variable]:
        """The variables."""
        found: dict[str, Node | None] = {}
        for node in self.get_ordered_ops():
            if isinstance(node.operation, ReadValue3):
                found[node.operation.variable_id] = node
            elif isinstance(node.operation, Assign3):
                found.setdefault(node.operation.variable_id, None)
        return [Variable(name, read) for name, read in found.items()]

    variables = attribute(get_variables)

    def get_variable_by_id(self, variable_id: str) -> Variable | None:
        """The variable of a name; None where there is none."""
        return next((v for v in self.get_variables() if v.variable_id == variable_id), None)

    # ---- ports

    @property
    def inputs(self) -> list[Output]:
        """The tensors that a call takes."""
        return [p.output(0) for p in self._parameters]

    @property
    def outputs(self) -> list[Output]:
        """The tensors that a call gives."""
        return [r.output(0) for r in self._results]

    def input(self, key: Any = None) -> Output:
        """An input by its position or a name; the only one without a key."""
        return self.inputs[position_of(self.inputs, key, "input")]

    def output(self, key: Any = None) -> Output:
        """An output by its position or a name; the only one without a key."""
        return self.outputs[position_of(self.outputs, key, "output")]

    def get_output_size(self) -> int:
        """The number of outputs."""
        return len(self._results)

    def get_output_op(self, position: int) -> Node:
        """The node of an output."""
        return self._results[position]

    def get_output_element_type(self, position: int) -> Type:
        """The element type of an output."""
        return self.outputs[position].element_type

    def get_output_shape(self, position: int) -> Shape:
        """The shape of an output in numbers."""
        return self.outputs[position].shape

    def get_output_partial_shape(self, position: int) -> PartialShape:
        """The shape of an output."""
        return self.outputs[position].partial_shape

    def get_parameter_index(self, parameter: Parameter) -> int:
        """The position of an input's node; -1 where it is none."""
        return next((i for i, p in enumerate(self._parameters) if p is parameter), -1)

    def get_result_index(self, value: Any) -> int:
        """The position of an output, or of its node; -1 where it is none."""
        port = value if isinstance(value, ConstOutput) else value.output(0)
        for position, result in enumerate(self._results):
            if port in (result.output(0), result.sources[0]):
                return position
        return -1

    def get_sink_index(self, value: Any) -> int:
        """The position of a node that sets a variable; -1 where it is none."""
        node = value.get_node() if isinstance(value, ConstOutput) else value
        return next((i for i, s in enumerate(self._sinks) if s is node), -1)

    def is_dynamic(self) -> bool:
        """Whether a shape of some node is open."""
        return any(not s.shape.is_static for n in self.get_ordered_ops() for s in n.specs)

    dynamic = attribute(is_dynamic)

    # ---- changes

    def reshape(self, partial_shape: Any, variables_shapes: Any = None) -> None:
        """Have other shapes of inputs: of the only one, or a mapping of names, positions or ports
        to shapes. Raises RuntimeError, and changes nothing, where layers do not fit.
        """
        if variables_shapes:
            raise unsupported("variables have the shapes that the model gives them")
        inputs = self.inputs
        if isinstance(partial_shape, Mapping):
            wanted = {
                position_of(inputs, key, "input"): core_shape(shape)
                for key, shape in partial_shape.items()
            }
        else:
            wanted = {position_of(inputs, None, "input"): core_shape(partial_shape)}
        before = [p.operation for p in self._parameters]
        for position, shape in wanted.items():
            node = self._parameters[position]
            node._become(ends.Parameter(element_type=node.operation.element_type, shape=shape))
        try:
            self._core()
        except UncorkError:
            for node, operation in zip(self._parameters, before, strict=True):
                node._become(operation)
            self._core()
            raise

    def add_outputs(self, outputs: Any) -> list[Output]:
        """Give these tensors as outputs, too: outputs of nodes, names of tensors, or pairs of a
        layer's name and a position.
        """
        single = isinstance(outputs, (str, ConstOutput, Node)) or (
            isinstance(outputs, tuple)
            and len(outputs) == 2
            and isinstance(outputs[0], str)
            and not isinstance(outputs[1], str)
        )
        made: list[Output] = []
        for wanted in [outputs] if single else outputs:
            source = self._tensor(wanted)
            result = next((r for r in self._results if r.sources[0] == source), None)
            if result is None:
                result = Result(source)
                self._results.append(result)
                _name_ports([result])
            made.append(result.output(0))
        self._core()
        return made

    def _tensor(self, wanted: Any) -> Output:
        if isinstance(wanted, (ConstOutput, Node)):
            return as_output(wanted)
        nodes = self.get_ordered_ops()
        if isinstance(wanted, tuple):
            name, position = wanted
            for node in nodes:
                if node.get_friendly_name() == name:
                    return node.output(position)
            known = [n.get_friendly_name() for n in nodes]
            raise invalid(f"the model has no layer '{name}'{did_you_mean(name, known)}")
        every = [o for n in nodes if not isinstance(n, Result) for o in n.outputs()]
        for port in every:
            if wanted in port.names:
                return port
        known = [name for o in every for name in o.names]
        raise invalid(f"the model has no tensor '{wanted}'{did_you_mean(str(wanted), known)}")

    def add_parameters(self, parameters: Iterable[Parameter]) -> None:
        """Have these inputs, too."""
        self._parameters += list(parameters)
        _name_ports(self._parameters)

    def add_results(self, results: Iterable[Result]) -> None:
        """Have these outputs, too."""
        self._results += list(results)
        _name_ports(self._results)

    def add_sinks(self, sinks: Iterable[Any]) -> None:
        """Run these nodes, which set variables, too."""
        self._sinks += [s.get_node() if isinstance(s, ConstOutput) else s for s in sinks]

    def add_variables(self, variables: Iterable[Any]) -> None:
        """Nothing to do: a model has the variables that its nodes name."""

    def remove_parameter(self, parameter: Parameter) -> None:
        """Have this input no more."""
        self._parameters = [p for p in self._parameters if p is not parameter]

    def remove_result(self, result: Result) -> None:
        """Have this output no more."""
        self._results = [r for r in self._results if r is not result]

    def remove_sink(self, sink: Any) -> None:
        """Run this node no more."""
        node = sink.get_node() if isinstance(sink, ConstOutput) else sink
        self._sinks = [s for s in self._sinks if s is not node]

    def remove_variable(self, variable: Variable) -> None:
        """Nothing to do: a model has the variables that its nodes name."""

    def replace_parameter(self, position: int, parameter: Parameter) -> None:
        """Have another node for an input; what reads the old one reads it."""
        old = self._parameters[position]
        for target in old.output(0).get_target_inputs():
            target.replace_source_output(parameter)
        self._parameters[position] = parameter
        self._core()

    def put_parameters(self, parameters: Sequence[Parameter]) -> None:
        """Have other nodes for all inputs, which the layers read already."""
        self._parameters = list(parameters)
        self._core()

    # ---- running by the definition

    def evaluate(
        self, output_tensors: Sequence[Tensor], input_tensors: Sequence[Tensor], context: Any = None
    ) -> bool:
        """Compute the model on tensors, every layer by its definition."""
        with as_runtime_errors():
            compiled = compile_model(self._core(), backend="reference")
            results = compiled(*(t.values() for t in input_tensors))
            for tensor, port, array in zip(output_tensors, compiled.outputs, results, strict=True):
                tensor.copy_from(Tensor.of_carrier(port.element_type, np.asarray(array)))
        return True

    # ---- remarks

    def get_rt_info(self, path: Any = None) -> Any:
        """What the file says beside its layers: all of it, or the value at a path of names."""
        if path is None:
            return RTMap(self._info)
        value: Any = self._info
        for key in _path(path):
            if not isinstance(value, dict) or key not in value:
                raise invalid(f"the runtime information has no {' / '.join(_path(path))}")
            value = value[key]
        return OVAny(value)

    @property
    def rt_info(self) -> RTMap:
        """What the file says beside its layers."""
        return RTMap(self._info)

    def has_rt_info(self, path: Any) -> bool:
        """Whether the file says something at a path of names."""
        value: Any = self._info
        for key in _path(path):
            if not isinstance(value, dict) or key not in value:
                return False
            value = value[key]
        return True

    def set_rt_info(self, value: Any, path: Any) -> None:
        """Say something, at a path of names, beside the layers: it is written to the file."""
        *groups, last = _path(path)
        target = self._info
        for key in groups:
            inner = target.get(key)
            if not isinstance(inner, dict):
                inner = target[key] = {}
            target = inner
        target[last] = value.value if isinstance(value, OVAny) else value

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to be done."""

    def __repr__(self) -> str:
        return f"<Model: '{self.get_friendly_name()}'\n{ports_text(self.inputs, self.outputs)}>"


def _path(path: Any) -> list[str]:
    return [path] if isinstance(path, str) else list(path)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _parts(args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, Any, Any, str]:
    """Results, sinks, parameters and the name, in the forms that OpenVINO takes."""
    known = {"results", "sinks", "parameters", "name", "variables", "model"}
    unknown = sorted(set(named) - known)
    if unknown:
        raise TypeError(f"Model has no argument '{unknown[0]}'")
    given = list(args)
    name = named.get("name", "")
    if given and isinstance(given[-1], str):
        name = given.pop()
    lists = [value for value in given if not isinstance(value, str)]
    results = named.get("results", lists.pop(0) if lists else None)
    sinks, parameters = named.get("sinks"), named.get("parameters")
    if parameters is None and lists:
        if len(lists) == 1 or _are_parameters(lists[0]):
            parameters = lists[0]  # behind them variables, which nodes name themselves
        else:
            sinks, parameters = lists[0], lists[1]
    elif lists and sinks is None:
        sinks = lists[0]
    if results is None or parameters is None:
        raise TypeError("Model: expected results and parameters, as in Model([y], [x], 'name')")
    return results, sinks, parameters, name


def _are_parameters(value: Any) -> bool:
    return bool(_listed(value)) and all(isinstance(v, Parameter) for v in _listed(value))


def _name_ports(nodes: Iterable[Node]) -> None:
    """Have each tensor of an input or output a name: where it has none, that of its node."""
    for node in nodes:
        port = node.output(0)
        if not port.names:
            port.set_names([node.get_friendly_name()])


def _assigns(results: Sequence[Node]) -> list[Node]:
    """The nodes among those that some depend on which set variables."""
    return [n for n in _graph.ordered(results) if isinstance(n.operation, Assign3)]
