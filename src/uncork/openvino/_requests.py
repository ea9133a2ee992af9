"""`InferRequest` and `AsyncInferQueue`: calls with tensors of their own, now or on threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from uncork.compiler import requests as core
from uncork.compiler.variables import VariableState as CoreState
from uncork.openvino import _config
from uncork.openvino._attribute import attribute
from uncork.openvino._calls import OVDict, given_inputs, shown
from uncork.openvino._errors import as_runtime_errors, unsupported, wrong_input
from uncork.openvino._ports import ConstOutput
from uncork.openvino._positions import ports_text, position_of
from uncork.openvino._tensor import Tensor, input_tensor
from uncork.openvino._types import element_of
from uncork.types import Array, ElementType

if TYPE_CHECKING:
    from uncork.openvino._compiled import CompiledModel


class ProfilingInfo:
    """The time of one layer of a call."""

    class Status(Enum):
        """Whether a layer ran by itself."""

        NOT_RUN = 0
        OPTIMIZED_OUT = 1
        EXECUTED = 2

    NOT_RUN = Status.NOT_RUN
    OPTIMIZED_OUT = Status.OPTIMIZED_OUT
    EXECUTED = Status.EXECUTED

    def __init__(self, name: str, kind: str, kernel: str, seconds: float | None) -> None:
        from datetime import timedelta

        self.node_name, self.node_type, self.exec_type = name, kind, kernel
        self.real_time = self.cpu_time = timedelta(seconds=seconds or 0)
        was_run = seconds is not None
        self.status = ProfilingInfo.EXECUTED if was_run else ProfilingInfo.NOT_RUN

    def __repr__(self) -> str:
        return f"<ProfilingInfo: {self.node_name} ({self.node_type}) {self.real_time}>"


class VariableState:
    """A variable of a request: its name, and its value as a tensor."""

    def __init__(self, state: CoreState, element: ElementType) -> None:
        self._state, self._element = state, element

    @property
    def name(self) -> str:
        """The name by which ReadValue and Assign know it."""
        return self._state.name

    @property
    def state(self) -> Tensor:
        """A copy of the value that the next call reads."""
        with as_runtime_errors():
            return Tensor.of_carrier(self._element, self._state.state)

    @state.setter
    def state(self, value: Any) -> None:
        with as_runtime_errors():
            self._state.state = value.values() if isinstance(value, Tensor) else value

    def reset(self) -> None:
        """Have the next call read the initial value."""
        self._state.reset()

    def __repr__(self) -> str:
        return f"<VariableState: '{self.name}'>"


class InferRequest(core.InferRequest):
    """One call at a time, with tensors and variables of its own."""

    def __init__(self, compiled: CompiledModel) -> None:
        super().__init__(compiled._compiled)
        self._owner = compiled
        self._ins: list[Tensor | None] = [None] * len(compiled._inputs)
        #: Tensors of a program, into which results are written.
        self._outs: list[Tensor | None] = [None] * len(compiled._outputs)
        self._seconds = 0.0
        self._has_run = False

    # ---- ports

    def get_compiled_model(self) -> CompiledModel:
        """The compiled model."""
        return self._owner

    @property
    def model_inputs(self) -> list[ConstOutput]:
        """The tensors that a call takes."""
        return self._owner.inputs

    @property
    def model_outputs(self) -> list[ConstOutput]:
        """The tensors that a call gives."""
        return self._owner.outputs

    # ---- tensors

    def _input_at(self, position: int) -> Tensor:
        tensor = self._ins[position]
        if tensor is None:
            port = self._owner._inputs[position]
            sizes = [d.get_length() if d.is_static else 0 for d in port.partial_shape]
            tensor = self._ins[position] = Tensor(port.element_type, sizes)
        return tensor

    def _output_at(self, position: int) -> Tensor:
        tensor = self._outs[position]
        if tensor is None:
            port = self._owner._outputs[position]
            shape = port.partial_shape
            sizes = (
                [0]
                if shape.rank.is_dynamic
                else [d.get_length() if d.is_static else 0 for d in shape]
            )
            tensor = self._outs[position] = Tensor(port.element_type, sizes)
        return tensor

    def _place(self, key: Any) -> tuple[bool, int]:
        """Whether a key is that of an input, and its position."""
        inputs, outputs = self._owner._inputs, self._owner._outputs
        try:
            return True, position_of(inputs, key, "input")
        except RuntimeError:
            try:
                return False, position_of(outputs, key, "output")
            except RuntimeError:
                pass
            raise

    def get_tensor(self, key: Any) -> Tensor:
        """The tensor of an input or output, by a name or a port."""
        if isinstance(key, int):
            raise TypeError("expected a name or a port, got a position: get_input_tensor(0)")
        is_input, position = self._place(key)
        return self._input_at(position) if is_input else self._output_at(position)

    def get_input_tensor(self, index: int | None = None) -> Tensor:
        """The tensor of an input; the only one without a position."""
        return self._input_at(position_of(self._owner._inputs, index, "input"))

    def get_output_tensor(self, index: int | None = None) -> Tensor:
        """The tensor of an output; the only one without a position."""
        return self._output_at(position_of(self._owner._outputs, index, "output"))

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors of the inputs."""
        return [self._input_at(i) for i in range(len(self._ins))]

    @property
    def output_tensors(self) -> list[Tensor]:
        """The tensors of the outputs."""
        return [self._output_at(i) for i in range(len(self._outs))]

    def set_tensor(self, key: Any, tensor: Tensor) -> None:
        """Have a tensor for an input or output, by a name or a port: calls read or write it."""
        self._check_idle()
        is_input, position = self._place(key)
        (self._set_input if is_input else self._set_output)(position, tensor)

    def set_tensors(self, tensors: Mapping[Any, Tensor]) -> None:
        """Have tensors for inputs or outputs, by names or ports."""
        for key, tensor in tensors.items():
            self.set_tensor(key, tensor)

    def set_input_tensor(self, *args: Any) -> None:
        """Have a tensor for an input: `(tensor)` for the only one, or `(position, tensor)`."""
        key, tensor = (None, *args)[-2:]
        self._set_input(position_of(self._owner._inputs, key, "input"), tensor)

    def set_output_tensor(self, *args: Any) -> None:
        """Have a tensor for an output: `(tensor)` for the only one, or `(position, tensor)`."""
        key, tensor = (None, *args)[-2:]
        self._set_output(position_of(self._owner._outputs, key, "output"), tensor)

    def set_input_tensors(self, *args: Any) -> None:
        """Have tensors for inputs, by position or in their order."""
        self._set_all(args, self._owner._inputs, "input", self._set_input)

    def set_output_tensors(self, *args: Any) -> None:
        """Have tensors for outputs, by position or in their order."""
        self._set_all(args, self._owner._outputs, "output", self._set_output)

    def _set_all(
        self,
        args: tuple[Any, ...],
        ports: list[ConstOutput],
        what: str,
        put: Callable[[int, Tensor], None],
    ) -> None:
        if len(args) != 1:
            raise unsupported(f"a batch of tensors for one {what}: join them into one")
        (given,) = args
        for key, tensor in (
            given if isinstance(given, Mapping) else dict(enumerate(given))
        ).items():
            put(position_of(ports, key, what), tensor)

    def _set_input(self, position: int, tensor: Tensor) -> None:
        self._check_idle()
        port = self._owner._inputs[position]
        _check_tensor(port, tensor)
        if not port.spec.shape.contains(tensor._shape):
            raise wrong_input(
                f"expected a tensor of shape {port.partial_shape}, got {tensor.shape}",
                f"input '{_name(port)}'",
            )
        self._ins[position] = tensor

    def _set_output(self, position: int, tensor: Tensor) -> None:
        self._check_idle()
        _check_tensor(self._owner._outputs[position], tensor)
        self._outs[position] = tensor
        tensor.is_seen = True

    # ---- calls

    def infer(  # type: ignore[override]
        self,
        inputs: Any = None,
        share_inputs: bool = False,
        share_outputs: bool = False,
        *,
        decode_strings: bool = True,
    ) -> OVDict:
        """Run the model now, on these inputs, or on the tensors that were set."""
        self._check_idle()
        with as_runtime_errors():
            self._give(inputs, share_inputs)
            self._compute()
        return self._shown(share_outputs, decode_strings)

    def start_async(
        self, inputs: Any = None, userdata: Any = None, share_inputs: bool = False
    ) -> None:
        """Begin a call on the request's thread; `wait` ends it."""
        self._check_idle()
        with as_runtime_errors():
            self._give(inputs, share_inputs)
            if userdata is not None:
                self.userdata = userdata
            self._start(None, self.userdata, True, None)

    def wait(self) -> None:
        """Wait for the call that was begun, and for its callback. Raises what they raised."""
        with as_runtime_errors():
            super().wait()

    def wait_for(self, timeout: float) -> bool:
        """Wait at most so many milliseconds; whether the call is done."""
        with as_runtime_errors():
            return super().wait_for(timeout)

    def cancel(self) -> None:
        """Nothing is given up: a call that was begun ends by itself."""

    def _check_idle(self) -> None:
        with as_runtime_errors():
            super()._check_idle()

    def _call(self, inputs: Any) -> Any:
        """The call that a thread makes; inputs of a queue come as they were given."""
        self._give(inputs, True)
        self._compute()
        return self._results

    def _give(self, inputs: Any, shared: bool) -> None:
        """Have these inputs."""
        ports = self._owner._inputs
        given = given_inputs(ports, inputs)
        for position, value in given.items():
            element = ports[position].spec.element_type
            tensor = input_tensor(value, element, shared)
            if not isinstance(value, Tensor) or shared:
                self._ins[position] = tensor
            else:
                self._ins[position] = Tensor(tensor.element_type, tensor.shape)
                tensor.copy_to(self._input_at(position))

    def _compute(self) -> None:
        begun = time.perf_counter()
        results = self._compiled(*(self._input_at(i).values() for i in range(len(self._ins))))
        for position, array in enumerate(results):
            port = self._owner._outputs[position]
            tensor = self._outs[position]
            if tensor is None:
                element = port.spec.element_type
                self._outs[position] = Tensor.of_carrier(element, np.asarray(array))
                continue
            new = Tensor.of_carrier(port.spec.element_type, np.asarray(array))
            if not tensor.is_seen:
                tensor._array, tensor._shape = new._array, new._shape
                tensor.is_lent = False
            elif tensor._shape == new._shape and tensor._array.flags.writeable:
                tensor._array[...] = new._array
            elif port.spec.shape.is_static:
                raise wrong_input(
                    f"expected a tensor of shape {new.shape}, got {tensor.shape}",
                    f"output '{_name(port)}'",
                )
            else:
                tensor.copy_from(new)
        self._seconds = time.perf_counter() - begun
        self._has_run = True

    def _shown(self, share: bool, decode_strings: bool) -> OVDict:
        made: dict[ConstOutput, Array] = {}
        for port, tensor in zip(self._owner._outputs, self._outs, strict=True):
            assert tensor is not None
            element = port.spec.element_type
            if element is ElementType.string:
                made[port] = shown(element, tensor._array, decode_strings)
            elif share:
                made[port] = tensor.data
            elif tensor.is_seen:
                made[port] = tensor._array.copy()
            else:
                made[port], tensor.is_lent = tensor._array, True
        return OVDict(made)

    @property
    def results(self) -> OVDict:  # type: ignore[override]
        """What the last call gave."""
        self._check_idle()
        if not self._has_run:
            raise wrong_input("there are no results yet: call infer(), or start_async() and wait()")
        return self._shown(False, True)

    def set_callback(self, callback: Callable[..., object], userdata: Any = None) -> None:
        """Have `callback(userdata)` called when a call begun by `start_async` has succeeded."""
        self.userdata = userdata
        super().set_callback(lambda _: callback(self.userdata))

    # ---- variables and times

    def query_state(self) -> list[VariableState]:  # type: ignore[override]
        """The variables of this request."""
        return states_of(self._owner, super().query_state())

    @property
    def latency(self) -> float:
        """How long the last call took, in milliseconds."""
        self._check_idle()
        return self._seconds * 1000

    def get_profiling_info(self) -> list[ProfilingInfo]:
        """The time of every layer on the present inputs, each run by itself. Of a model that was
        compiled without PERF_COUNT layers have no times: NOT_RUN.
        """
        self._check_idle()
        if not self._owner._config.get("PERF_COUNT"):
            ordered = self._owner._model.get_ordered_ops()
            return [
                ProfilingInfo(o.get_friendly_name(), o.get_type_name(), "", None) for o in ordered
            ]
        with as_runtime_errors():
            arrays = [self._input_at(i).values() for i in range(len(self._ins))]
            steps = self._compiled.profile(*arrays).steps
        return [
            ProfilingInfo(s.layer, s.operation.split("-")[0], s.kernel, s.seconds) for s in steps
        ]

    profiling_info = attribute(get_profiling_info)

    def __repr__(self) -> str:
        return f"<InferRequest:\n{ports_text(self._owner._inputs, self._owner._outputs)}>"


def states_of(owner: CompiledModel, states: Sequence[CoreState]) -> list[VariableState]:
    """The variables of a request or a compiled model."""
    kinds = {v.variable_id: v.data_type for v in owner._model.get_variables()}
    return [VariableState(state, element_of(kinds[state.name])) for state in states]


def _check_tensor(port: ConstOutput, tensor: Any) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"expected a Tensor, got {type(tensor).__name__}: Tensor(array)")
    if tensor._element is not port.spec.element_type:
        raise wrong_input(
            f"expected a tensor of {port.spec.element_type}, got one of {tensor._element}",
            f"port '{_name(port)}'",
        )


def _name(port: ConstOutput) -> str:
    return min(port.names, default=port.node.get_friendly_name())


class AsyncInferQueue(core.AsyncInferQueue):
    """Requests that take turns: `start_async` hands a call to an idle one, and waits for one when
    all are at work.
    """

    def __init__(self, model: CompiledModel, jobs: int = 0) -> None:
        """A queue of `jobs` requests; without a number, of as many as the properties mean."""
        jobs = jobs or _config.streams_of(model._config)
        with as_runtime_errors():
            super().__init__(model._compiled, jobs)
        self._requests: list[Any] = [InferRequest(model) for _ in range(jobs)]
        self._userdata: list[Any] = [None] * jobs

    @property
    def userdata(self) -> list[Any]:
        """What was given with the last call of every request."""
        return [request.userdata for request in self._requests]

    def start_async(
        self, inputs: Any = None, userdata: Any = None, share_inputs: bool = False
    ) -> None:
        """Begin a call on an idle request; waits for one."""
        if not share_inputs:
            inputs = core.copied(inputs, _own)
        with as_runtime_errors():
            super().start_async(inputs, userdata, True)

    def wait_all(self) -> None:
        """Wait for every call. Raises what the first of them that failed raised."""
        with as_runtime_errors():
            super().wait_all()


def _own(value: Any) -> Any:
    """A copy of a tensor or an array."""
    if isinstance(value, Tensor):
        copy = Tensor(value.element_type, value.shape)
        value.copy_to(copy)
        return copy
    return core.own_array(value)
