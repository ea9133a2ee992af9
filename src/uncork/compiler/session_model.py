"""`SessionModel`: a call of a model with variables as one for many sessions, each a row of the
batch: which axis of every input, variable and output counts the sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from uncork.compiler.state import ExecutorOf, InitialValues, is_computed
from uncork.errors import InputError, Problem, did_you_mean, shortened
from uncork.ir.model import Model, Node
from uncork.ir.ports import ModelPort
from uncork.ir.reshape import with_shape
from uncork.ir.validate import infer
from uncork.passes.functionalize_variables import Lifted, functionalize_variables, variable_of
from uncork.passes.state_rows import Kept, rows_alike, state_rows, with_front_axis
from uncork.types import Array, Dimension, ElementType, PartialShape, TensorSpec

#: Two numbers of sessions for which shapes are inferred: an axis that has both counts sessions.
_COUNTS = 5, 7
#: How often a supposed axis is put right.
_TRIALS = 4
_REMEDY = (
    "make the stream of a model with an open batch (uncork reshape), say it by axes=, or say "
    "batched=False: each session is a call of its own then"
)


class SessionModel:
    """A checked model with variables, for calls of any number of sessions."""

    def __init__(
        self,
        model: Model,
        executor_of: ExecutorOf,
        axes: Mapping[str, int | None] | None = None,
        batched: bool = True,
    ) -> None:
        """`axes` says which axis counts sessions where the model does not tell, by the names of
        inputs and variables: None for what all sessions share.

        If not `batched`, a call is of one session, and sessions are counted by an axis in front of
        all that the model has. Raises InputError where a session cannot be a row of a batch.
        """
        self.model, self._said, self.batched = model, dict(axes or {}), batched
        self._where = f"model '{model.name}'"
        self._check_names()
        lifted = functionalize_variables(model, in_place=False)
        if lifted is None or not lifted.reads:
            raise self._refusal(
                "has no variables that a session could keep: make a stream of it (uncork stream)"
            )
        self.reads = lifted.reads
        #: The axis of each input; None for those that all sessions share.
        self.input_axes = [self._input_axis(port) for port in model.inputs]
        found = self._variables(lifted) if batched else self._values(lifted)
        #: What a session keeps, once for each variable.
        self.kept: tuple[Kept, ...] = tuple({kept.name: kept for kept in found}.values())
        names = [kept.name for kept in self.kept]
        #: The variable of each of `reads`, by position in `kept`.
        self._taken = tuple(names.index(variable_of(node)) for node in self.reads)
        if batched:
            opened = self._opened(lifted, {k.name: k.axis for k in self.kept})
            self.result_axes = self._result_axes(lifted, found)
        else:
            shared = [number for number, axis in enumerate(self.input_axes) if axis is None]
            opened, _ = infer(with_front_axis(lifted.model, shared), trust_ports=True)
            self.result_axes = [0] * len(model.results)
        #: What frames are, for any number of sessions.
        self.inputs = tuple(
            replace(port, shape=_with(opened.inputs[port.position].shape, axis, Dimension()))
            for port, axis in zip(model.inputs, self.input_axes, strict=True)
        )
        #: Runs a batch: frames, rows and tables to results; see `state_rows`.
        self.executor = executor_of(self._on_rows(opened, lifted), ())
        self._initial = InitialValues(model, self.reads, executor_of)
        self.begins_alike = not any(is_computed(model, node) for node in self.reads)
        self._begun: list[Array] | None = None

    # ---- initial values

    def begun(self, inputs: Callable[[], Sequence[Array]]) -> list[Array]:
        """What the first call of a session reads of each variable; where the model computes it, of
        `inputs`, those of the session alone.
        """
        if self._begun is not None:
            return self._begun
        values = self._initial.of_unset([] if self.begins_alike else self._alone(inputs()), ())
        if values is None:
            raise self._refusal("computes what its variables begin with of other variables")
        found: dict[int, Array] = {}
        for node, number in zip(self.reads, self._taken, strict=True):
            kept, value = self.kept[number], values[node.id]
            value = value if self.batched else value[None]
            if value.shape != kept.shape:
                raise self._refusal(
                    f"begins variable '{shortened(kept.name)}' with shape {list(value.shape)}, and "
                    f"a session keeps {list(kept.shape)} of it"
                )
            if found.setdefault(number, value).tobytes() != value.tobytes():
                raise self._refusal(
                    f"begins variable '{shortened(kept.name)}' with two values, and a session has "
                    "one of it"
                )
        rows = [found[number] for number in range(len(self.kept))]
        if self.begins_alike:
            self._begun = rows
        return rows

    def _alone(self, frames: Sequence[Array]) -> Sequence[Array]:
        """The frames of one session as the model takes them."""
        if self.batched:
            return frames
        return [
            array if axis is None else array[0]
            for array, axis in zip(frames, self.input_axes, strict=True)
        ]

    # ---- axes

    def _check_names(self) -> None:
        known = [name for port in self.model.inputs for name in port.names]
        known += [variable_of(n) for n in self.model.nodes if n.type_name == "ReadValue"]
        for name in self._said:
            if name not in known:
                raise InputError(
                    f"axes: no input or variable is called '{name}'{did_you_mean(name, known)}",
                    self._where,
                )

    def _input_axis(self, port: ModelPort) -> int | None:
        said = [self._said[name] for name in port.names if name in self._said]
        rank = port.shape.rank
        if rank is None:
            raise InputError(
                "has a shape of unknown rank: reshape it first", f"input '{port.name}'"
            )
        axis = said[0] if said else (0 if rank or not self.batched else None)
        if axis is None:
            return None
        if not self.batched:
            InputError.when(
                said,
                f"axes: expected None with batched=False, where an axis in front of all others "
                f"counts sessions, got {axis!r}",
                f"input '{port.name}'",
            )
            return 0
        return self._checked(f"input '{port.name}'", port.shape, axis)

    def _checked(self, where: str, shape: PartialShape, axis: int) -> int:
        rank = len(shape)
        InputError.when(
            isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank,
            f"axes: expected an axis of its {rank}, got {axis!r}",
            where,
        )
        InputError.when(
            not shape[axis].contains(1),
            f"axis {axis % rank} of {shape} would count sessions: expected 1 or an open size "
            "there; axes= says another, or None for what all sessions share",
            where,
        )
        return axis % rank

    def _values(self, lifted: Lifted) -> list[Kept]:
        """What sessions keep of each variable that is read, with an axis in front."""
        alone = [self._kept(node, node.outputs[0].spec, None) for node in lifted.reads]
        return [replace(kept, shape=(1, *kept.shape), axis=0) for kept in alone]

    def _variables(self, lifted: Lifted) -> list[Kept]:
        """What sessions keep of each variable that is read."""
        specs = [node.outputs[0].spec for node in lifted.reads]
        choices = [self._choices(n, s) for n, s in zip(lifted.reads, specs, strict=True)]
        problems: Sequence[Problem] = ()
        for place in (0.0, 1.0, 0.5):
            axes: list[int | None] = [c[int(place * (len(c) - 1))] for c in choices]
            for _ in range(_TRIALS):
                shapes, wrong = self._assigned(lifted, axes)
                if wrong:
                    problems = problems or wrong
                    break
                if axes == shapes:
                    return [
                        self._kept(node, spec, axis)
                        for node, spec, axis in zip(lifted.reads, specs, axes, strict=True)
                    ]
                axes = shapes
        told = f": {problems[0].where} {problems[0].message}" if problems else ""
        raise self._refusal(
            f"does not tell which axes of its variables count sessions; {_REMEDY}{told}"
        )

    def _choices(self, node: Node, spec: TensorSpec) -> list[int | None]:
        """The axes of a variable that may count sessions, the likeliest first."""
        name = variable_of(node)
        where = f"variable '{shortened(name)}'"
        if spec.rank is None:
            raise InputError("has a shape of unknown rank: no session has a row of it", where)
        if name in self._said:
            said = self._said[name]
            return [None if said is None else self._checked(where, spec.shape, said)]
        opened = [axis for axis, dim in enumerate(spec.shape) if not dim.is_static]
        if opened:
            return list(opened)
        ones = [axis for axis, dim in enumerate(spec.shape) if dim.static_size == 1]
        if len(spec.shape) <= 1 and spec.element_type.is_integer:
            return [None, *ones]  # a counter
        return [*ones, None]

    def _assigned(
        self, lifted: Lifted, axes: Sequence[int | None]
    ) -> tuple[list[int | None], Sequence[Problem]]:
        """The axes in which the values that are assigned count sessions, one for each read."""
        inferred = []
        for count in _COUNTS:
            model, problems = self._inferred(lifted, axes, count)
            if problems:
                return [], problems
            inferred.append(model)
        first = len(self.model.results)
        for number, name in enumerate(lifted.assigned):
            InputError.when(
                _result_shape(inferred[0], first + number).rank is None,
                "is assigned a value whose shape follows from open sizes of inputs: fix those "
                "that do not count sessions, such as the length of a frame (uncork reshape)",
                f"variable '{shortened(name)}'",
            )
        found = {
            name: self._counting(inferred, first + number)
            for number, name in enumerate(lifted.assigned)
        }
        return [found[variable_of(node)] for node in lifted.reads], ()

    def _inferred(
        self, lifted: Lifted, axes: Sequence[int | None], count: int
    ) -> tuple[Model, list[Problem]]:
        """The lifted model for a number of sessions."""
        given = {}
        for parameter, axis in zip(lifted.model.parameters, [*self.input_axes, *axes], strict=True):
            spec = lifted.model.by_id[parameter].outputs[0].spec
            given[parameter] = TensorSpec(
                spec.element_type, _with(spec.shape, axis, Dimension(count, count))
            )
        return infer(lifted.model, given, trust_ports=True)

    def _counting(self, inferred: Sequence[Model], result: int) -> int | None:
        """The axis of a result whose size is the number of sessions."""
        shapes = [_result_shape(model, result) for model in inferred]
        if any(shape.rank is None for shape in shapes):
            return None
        for axis, sizes in enumerate(zip(*shapes, strict=True)):
            if tuple(size.static_size for size in sizes) == _COUNTS:
                return axis
        return None

    def _kept(self, node: Node, spec: TensorSpec, axis: int | None) -> Kept:
        name, shape = variable_of(node), _with(spec.shape, axis, Dimension(1, 1))
        InputError.when(
            not shape.is_static,
            f"has shape {spec.shape}, which grows by calls or is open: sessions keep states of "
            "one size; fix it (uncork reshape), or make a request for each session "
            "(new_request)",
            f"variable '{shortened(name)}'",
        )
        InputError.when(
            spec.element_type is ElementType.string,
            "has strings: no session keeps them",
            f"variable '{shortened(name)}'",
        )
        return Kept(name, spec.element_type, shape.static, axis)

    def _result_axes(self, lifted: Lifted, found: Sequence[Kept]) -> list[int]:
        axes = [kept.axis for kept in found]
        inferred = [self._inferred(lifted, axes, count)[0] for count in _COUNTS]
        result = []
        for position in range(len(self.model.results)):
            axis = self._counting(inferred, position)
            if axis is None:
                raise InputError(
                    f"no axis of it counts sessions; {_REMEDY}, or cut the output off",
                    f"output '{self.model.name_of_output(position)}'",
                )
            result.append(axis)
        return result

    def _opened(self, lifted: Lifted, axes: Mapping[str, int | None]) -> Model:
        """The lifted model for any number of sessions."""
        numbered = dict(
            zip(
                lifted.model.parameters,
                [*self.input_axes, *(axes[variable_of(node)] for node in lifted.reads)],
                strict=True,
            )
        )
        nodes = tuple(
            _open(node, numbered[node.id]) if node.id in numbered else node
            for node in lifted.model.nodes
        )
        model, problems = infer(replace(lifted.model, nodes=nodes), trust_ports=True)
        if problems:
            raise self._refusal(
                f"does not take batches of sessions: {problems[0].where} {problems[0].message}"
            )
        return model

    def _on_rows(self, opened: Model, lifted: Lifted) -> Model:
        """The model of a batch, whose variables are rows of tables."""
        results = len(self.model.results)
        given = [results + lifted.assigned.index(kept.name) for kept in self.kept]
        rows = state_rows(opened, results, self.kept, self._taken, given)
        model, problems = infer(rows, trust_ports=True)
        if problems:
            raise self._refusal(f"does not keep states of one size: {problems[0].message}")
        return rows_alike(model) if self.batched else model

    def _refusal(self, why: str) -> InputError:
        return InputError(why, self._where)


def _result_shape(model: Model, result: int) -> PartialShape:
    return model.spec(model.by_id[model.results[result]].inputs[0]).shape


def _with(shape: PartialShape, axis: int | None, size: Dimension) -> PartialShape:
    """The shape with another size in an axis, where there is one."""
    return shape if axis is None else shape.with_dimension(axis, size)


def _open(node: Node, axis: int | None) -> Node:
    """A Parameter with an open size in an axis."""
    return with_shape(node, _with(node.outputs[0].spec.shape, axis, Dimension()))
