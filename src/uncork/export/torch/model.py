"""A whole model to torch: every layer by its lowering, and the source of a module; what cannot be
exported in one error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from uncork.compiler.options import Ids, Options
from uncork.errors import Problem, UncorkError, UnsupportedError
from uncork.export.torch import types
from uncork.export.torch.classes import ASSIGNED, CONSTANT, VARIABLE, Parts, Renderer
from uncork.export.torch.helper_source import helpers_needed
from uncork.export.torch.names import class_name, variable
from uncork.export.torch.registry import REGISTRY, lowerings
from uncork.export.torch.state import HOOKS, state_names, state_text
from uncork.export.torch.trained import Trained
from uncork.export.torch.writer import (
    SMALL,
    Block,
    Elements,
    Program,
    Value,
    Writer,
    atom,
    token,
)
from uncork.ir.model import Model, Node, Source
from uncork.ops import Operation
from uncork.ops._body import SubGraphOperation
from uncork.ops.parameter import Const
from uncork.passes.pipeline import with_ids
from uncork.quoting import in_docstring
from uncork.types import ElementType, TensorSpec

#: Constants up to this many elements are looked at when expressions are chosen.
KNOWN = 4096
Values = dict[Source, Value]


@dataclass(frozen=True)
class TorchSource:
    """The source of a module, the constants of its state by their keys, and what is not exact."""

    text: str
    #: The class to make an instance of.
    main: str
    constants: Mapping[str, Const]
    #: The layer of each constant, by the same keys.
    layers: Mapping[str, str]
    approximations: Sequence[tuple[str, str]]


def torch_source(model: Model, approximate: bool = False, ids: Ids = "64-bit") -> TorchSource:
    """The model as source of torch. Raises UnsupportedError, with every layer that cannot be
    exported.
    """
    REGISTRY.check(model)
    Options(ids=ids).check()
    model = with_ids(model, ids)
    program = Program(approximate)
    problems: list[Problem] = []
    arguments = [program.variable(_input_name(model, i)) for i in range(len(model.parameters))]
    writer = Writer(program, arguments[0] if arguments else None)
    values: Values = {}
    with writer.block("inputs"):
        for parameter, argument in zip(model.parameters, arguments, strict=True):
            node = model.by_id[parameter]
            try:
                values[Source(parameter, 0)] = _given(writer, argument, node.outputs[0].spec)
            except UncorkError as error:
                problems.append(Problem(node.label, error.message))
    if not problems:
        lower_nodes(writer, model, values, problems)
    UnsupportedError.when_any(model.source, problems)
    with writer.block("outputs"):
        outputs = [_taken(writer, values[model.by_id[r].inputs[0]]) for r in model.results]
        for statement in program.kept:
            writer.line(statement)
    return _finished(model, writer, arguments, outputs)


def _input_name(model: Model, position: int) -> str:
    return variable(model.name_of_input(position))


def _given(w: Writer, argument: str, spec: TensorSpec) -> Value:
    """An input as a value for the statements; wide unsigned integers are made i64."""
    if spec.element_type in types.WIDE:
        argument = w.let(f"{argument}.to(torch.int64)", "wide")
    types.dtype(spec.element_type)
    return Value(argument, spec.element_type, spec.shape)


def _taken(w: Writer, value: Value) -> str:
    """The expression of an output, cast back to wide unsigned integers."""
    text = w(value)
    if CONSTANT.search(text):  # a statement, as every reading of a constant
        text = w.let(text, "constant")
    if value.type in types.WIDE:
        return f"{text}.to({types.WIDE[value.type]})"
    return text


def _finished(
    model: Model, writer: Writer, arguments: Sequence[str], outputs: Sequence[str]
) -> TorchSource:
    program = writer.program
    blocks = _needed(writer.blocks, outputs)
    results = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    renderer = Renderer(program.constants, program.trained, list(program.states.values()))
    fields = [f"self.{name}: Tensor | None = None" for name in program.states.values()]
    fields += HOOKS if program.constants else []
    main = renderer.render(
        class_name(model.name) if model.name else "Model",
        blocks,
        arguments,
        results,
        Parts(
            f"The model `{in_docstring(model.name)}`, with its inputs and outputs in order.",
            fields,
            _reset(list(program.states.values())),
        ),
    )
    body = "\n\n".join(renderer.classes.values())
    helpers = helpers_needed(h for h in program.helpers if re.search(rf"\b{h}\b", body))
    named = {k: program.constants[n][0] for k, n in renderer.keys.items()}
    derived = {k for k, n in renderer.keys.items() if n in program.derived}
    names = state_names(named, derived)
    unnamed = [k for k, n in renderer.keys.items() if k not in names and n not in program.trained]
    state = [state_text(names, unnamed)] if program.constants else []
    text = _module(model, [*helpers, *state], body)
    constants = {names.get(key, key): program.constants[n][1] for key, n in renderer.keys.items()}
    layers = {
        k: program.constants[n][0]
        for key, n in renderer.keys.items()
        if n not in program.derived
        for k in (key, names.get(key, key))
    }
    return TorchSource(text, main, constants, layers, program.approximations)


def _reset(states: Sequence[str]) -> list[str]:
    """The source of the method that forgets the variables, where there are any."""
    if not states:
        return []
    lines = ["    def reset_state(self) -> None:", '        """Forget what calls have kept."""']
    return ["\n".join([*lines, *(f"        self.{name} = None" for name in states)])]


def _module(model: Model, helpers: Sequence[str], classes: str) -> str:
    body = "\n\n\n".join([*helpers, classes])
    imports = []
    if "math." in body:
        imports += ["import math", ""]
    imports.append("import torch")
    if "F." in body:
        imports.append("import torch.nn.functional as F")
    imports.append("from torch import Tensor, nn")
    head = [f'"""The model `{in_docstring(model.name)}` as a torch module."""', ""]
    head += ["from __future__ import annotations", "", *imports]
    return "\n".join(head) + "\n\n\n" + body.rstrip() + "\n"


def _needed(blocks: Sequence[Block], outputs: Sequence[str]) -> list[Block]:
    """The statements that the outputs come from, in order."""
    needed = {m.group() for text in outputs for m in VARIABLE.finditer(text)}
    kept: list[Block] = []
    for block in reversed(blocks):
        if block.methods:
            # Loops write a variable more than once.
            names = {m.group() for line in block.lines for m in VARIABLE.finditer(line)}
            if names & needed:
                needed |= names
                kept.append(block)
            continue
        lines: list[str] = []
        for line in reversed(block.lines):
            found = ASSIGNED.match(line)
            written = {m.group() for m in VARIABLE.finditer(found.group())} if found else set()
            if found is None or written & needed:
                lines.append(line)
                needed.update(m.group() for m in VARIABLE.finditer(line))
        if lines:
            kept.append(Block(block.layer, lines[::-1], block.methods))
    return kept[::-1]


# ---- layers


def lower_nodes(
    w: Writer, model: Model, values: Values, problems: list[Problem] | None = None
) -> None:
    """Write the statements of a model; without a list for `problems` the first is raised."""
    trained = Trained(model, w.is_body)
    for node in model.nodes:
        if Source(node.id, 0) in values or node.type_name == "Result":
            continue
        try:
            if isinstance(node.operation, Const):
                outputs = [_weight(w, node, node.operation, trained)]
            else:
                outputs = _lowered(w, node, [values[s] for s in node.inputs])
        except UncorkError as error:
            if problems is None:
                raise error.at(node.label) from None
            problems.append(Problem(error.where or node.label, error.message))
            outputs = [Value("missing", p.spec.element_type, p.spec.shape) for p in node.outputs]
        for position, value in enumerate(outputs):
            values[Source(node.id, position)] = value


def _lowered(w: Writer, node: Node, inputs: Sequence[Value]) -> list[Value]:
    w.layer, w.label = node.name, node.label
    with w.block(node.name):
        return written(w, node, inputs)


def written(w: Writer, node: Node, inputs: Sequence[Value]) -> list[Value]:
    """The outputs of a layer, as statements of the block that is open."""
    operation = node.operation
    assert operation is not None, node.label
    specs = tuple(port.spec for port in node.outputs)
    for spec in specs:
        types.dtype(spec.element_type)
    told = [known(spec) for spec in specs]
    if operation.deterministic and None not in told:
        return [value for value in told if value is not None]
    padded: list[Value | None] = list(inputs)
    if operation.inputs and not operation.inputs[-1].variadic:
        padded += [None] * (len(operation.inputs) - len(inputs))
    w.outputs = specs
    wide = None
    if not REGISTRY.composes(node.type_name):
        padded = [_id(w, operation, i, value) for i, value in enumerate(padded)]
        wide = _widened(operation, padded)
    result = lowerings()[node.type_name](w, operation, *(wide or padded))
    several = list(result) if isinstance(result, (list, tuple)) else [result]
    if wide is not None:
        several = [_rounded(text, spec) for text, spec in zip(several, specs, strict=True)]
    assert len(several) >= len(specs), f"{node.label}: {len(several)} outputs"
    return [
        _settled(w, node, i, text, spec)
        for i, (text, spec) in enumerate(zip(several, specs, strict=True))
    ]


def _id(w: Writer, operation: Operation, position: int, value: Value | None) -> Value | None:
    """An input; of ids in u64, which are held as i64, those beyond it as the largest: they stay
    outside, where a negative one would be counted from the end.
    """
    if value is None or value.type is not ElementType.u64 or value.value is not None:
        return value
    ports = operation.inputs
    if not ports[min(position, len(ports) - 1)].ids:
        return value
    return replace(value, code=f"torch.where({w(value)} < 0, {2**63 - 1}, {w(value)})")


#: Torch computes these of f16 and bf16 in f32 and rounds once, as the IR does.
_ROUNDED_ONCE = """
Abs Acos Acosh Add Asin Asinh Atan Atan2 Atanh Ceiling Clamp Convert ConvertLike
ConvertPromoteTypes Convolution Cos Cosh Divide Elu Erf ErfInv Equal Exp FakeConvert Floor Gelu
Greater GreaterEqual GroupConvolution HSigmoid IsFinite IsInf IsNaN Less LessEqual Log LogSoftmax
MatMul MaxPool Maximum Minimum Multiply Negative NotEqual OneHot Power ReLU ReduceMax ReduceMean
ReduceMin ReduceSum Round SegmentMax Select Sigmoid Sign Sin Sinh SoftMax SoftSign Sqrt Subtract
Swish Tan Tanh TopK
"""


def _widened(operation: Operation, inputs: Sequence[Value | None]) -> list[Value | None] | None:
    """The inputs with f16 and bf16 as f32, for an operation whose steps would each be rounded; None
    for all others.
    """
    narrow = (ElementType.f16, ElementType.bf16)
    if operation.type_name in _ROUNDED_ONCE.split() or operation.moves_values:
        return None
    if isinstance(operation, SubGraphOperation) or not any(v and v.type in narrow for v in inputs):
        return None
    return [
        replace(
            v, code=f"{atom(_tensor(v))}.float()", type=ElementType.f32, constant=None, value=None
        )
        if v and v.type in narrow
        else v
        for v in inputs
    ]


def _tensor(value: Value) -> str:
    return value.code or token(value.constant if value.constant is not None else -1)


def _rounded(written: object, spec: TensorSpec) -> object:
    """An expression of f32 cast to f16 or bf16 where the output has that type."""
    if not isinstance(written, str) or spec.element_type not in (ElementType.f16, ElementType.bf16):
        return written
    return f"{atom(written)}.to({types.dtype(spec.element_type)})"


def _settled(w: Writer, node: Node, position: int, written: object, spec: TensorSpec) -> Value:
    """An output as a variable, with what is known of it."""
    told = known(spec)
    value = None if told is None else told.value
    elements = None if told is None else told.elements
    if isinstance(written, Value):
        merged = spec.shape.merge(written.shape)
        shape = spec.shape if merged is None else merged
        return Value(
            w(written) if written.elements is None else written.code,
            spec.element_type,
            shape,
            written.value if value is None else value,
            written.elements if elements is None else elements,
        )
    if isinstance(written, Elements):
        return Value("", spec.element_type, spec.shape, value, elements or written.items)
    assert isinstance(written, str), node.label
    if spec.element_type in (ElementType.u16, ElementType.u32):
        operation = node.operation
        if operation is not None and not operation.moves_values:
            limit = "0xFFFF" if spec.element_type is ElementType.u16 else "0xFFFFFFFF"
            written = f"({written}) & {limit}"
    if not written.isidentifier():
        written = w.let(written, variable(node.name))
    return Value(written, spec.element_type, spec.shape, value, elements)


def known(spec: TensorSpec) -> Value | None:
    """An output that is a small known integer tensor, which needs no statement; None for others."""
    integer = spec.element_type.is_integer or spec.element_type is ElementType.boolean
    if spec.value is None or spec.value.size > SMALL or not integer:
        return None
    flat = np.asarray(spec.value).reshape(-1)
    elements = tuple(types.literal(spec.element_type, n) for n in flat)
    return Value("", spec.element_type, spec.shape, spec.value, elements)


def _weight(w: Writer, node: Node, constant: Const, trained: Trained) -> Value:
    """A constant of the model; it becomes a part of the module when a statement reads it: a
    parameter, if it is trained and torch has gradients for its type.
    """
    types.dtype(constant.element_type)
    number = len(w.program.constants)
    if (
        node.id in trained.weights
        and constant.element_type in types.TORCH_TYPES
        and constant.element_type.is_float
    ):
        w.program.trained.add(number)
    w.program.constants[number] = (node.name, constant)
    value = constant.value if constant.count <= KNOWN else None
    elements = None
    if value is not None and constant.element_type.is_integer and value.size <= SMALL:
        elements = tuple(types.literal(constant.element_type, n) for n in value.reshape(-1))
    is_bias = node.id in trained.biases
    return Value("", constant.element_type, constant.shape, value, elements, number, is_bias)
