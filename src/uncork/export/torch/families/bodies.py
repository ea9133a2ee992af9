"""If, Loop and TensorIterator: a body is a method, run by Python's own `if` and `for`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from uncork.errors import UnsupportedError
from uncork.export.torch import types
from uncork.export.torch.names import variable
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Method, Value, Writer, atom
from uncork.ir.bodies import graph_of
from uncork.ir.model import Source
from uncork.ir.validate import infer
from uncork.ops._body import (
    BodyInput,
    BodyMap,
    BodyOutput,
    JoinedOutput,
    SlicedInput,
    Slicing,
    TurnNumber,
)
from uncork.ops.branch import If8
from uncork.ops.iteration import Loop5, TensorIterator1
from uncork.types import PartialShape, TensorSpec


def _method(
    w: Writer, name: str, body: BodyMap, specs: Sequence[TensorSpec]
) -> tuple[str, list[TensorSpec]]:
    """Write a body as a method; returns its name and the specs of its results."""
    from uncork.export.torch.model import lower_nodes

    model = graph_of(body)
    checked, problems = infer(
        model, dict(zip(model.parameters, specs, strict=True)), trust_ports=True
    )
    UnsupportedError.when(problems, "; ".join(map(str, problems)))
    arguments = [w.program.variable(variable(checked.by_id[p].name)) for p in model.parameters]
    child = Writer(w.program, arguments[0] if arguments else None, is_body=True)
    values = {
        Source(p, 0): Value(a, s.element_type, s.shape)
        for p, a, s in zip(model.parameters, arguments, specs, strict=True)
    }
    lower_nodes(child, checked, values)
    with child.block("results"):
        results = [child(values[checked.by_id[r].inputs[0]]) for r in checked.results]
    w.program.bodies += 1
    unique = f"{variable(w.layer)}_{name}_{w.program.bodies}"
    document = f"The {name.replace('_', ' ')} of layer `{variable(w.layer)}`."
    blocks = tuple(child.blocks)
    w.blocks[-1].methods.append(Method(unique, tuple(arguments), blocks, tuple(results), document))
    return unique, [checked.spec(checked.by_id[r].inputs[0]) for r in checked.results]


def _spec(value: Value) -> TensorSpec:
    return TensorSpec(value.type, value.shape)


@lowers("If")
def if_(w: Writer, op: If8, condition: Value, *values: Value) -> list[str]:
    """Python's `if` around calls of the bodies' methods."""
    inputs = [condition, *values]
    lines = []
    outputs = [w.program.variable(f"{variable(w.layer)}_{i}") for i in range(len(w.outputs))]
    known = condition.known()
    for name in op.body_names:
        body = op.bodies[name]
        if known is not None and bool(known[0]) != (name == "then_body"):
            lines.append("")
            continue
        given = body.arguments(inputs)
        method, _ = _method(w, name, body, [_spec(v) for v in given])
        call = f"self.{method}({', '.join(map(w, given))})"
        results = [w.program.variable("result") for _ in range(body.body.output_count)]
        lines.append(f"{', '.join(results)}{',' if len(results) == 1 else ''} = {call}")
        ends = ", ".join(body.outputs_of(results))
        lines[-1] += f"\n{', '.join(outputs)} = {ends}"
    then, other = lines
    if known is not None:
        for line in (then or other).split("\n"):
            w.line(line)
        return outputs
    w.line(f"if {w(condition)}:")
    for line in then.split("\n"):
        w.line(f"    {line}")
    w.line("else:")
    for line in other.split("\n"):
        w.line(f"    {line}")
    return outputs


@lowers("Loop")
def loop(w: Writer, op: Loop5, trips: Value, condition: Value, *values: Value) -> list[str]:
    """Python's `for` of so many iterations, as long as the condition holds."""
    count = w.integer(trips)
    known = condition.known()
    go_on = "True" if known and known[0] else f"bool({w(condition)})"
    return _iterated(w, op, [trips, condition, *values], count, go_on)


@lowers("TensorIterator")
def iterator(w: Writer, op: TensorIterator1, *values: Value) -> list[str]:
    """Python's `for`, with an iteration for each part of the sliced inputs."""
    sliced = op.map.sliced[0]
    data, s = values[sliced.port], sliced.slicing
    text = w.helper("part_starts", w.dim(data, s.axis % w.rank(data)), *_bounds(s))
    return _iterated(w, op, list(values), f"len({text})", "True")


def _bounds(s: Slicing) -> list[str]:
    return [str(n) for n in (s.start, s.end, s.stride, s.part_size)]


def _iterated(
    w: Writer, op: Loop5 | TensorIterator1, inputs: list[Value], count: str, go_on: str
) -> list[str]:
    body = op.map
    inputs = [_ready(w, value) for value in inputs]
    specs = _body_specs(op, body, inputs)
    name = variable(w.layer)
    method, results = _method(w, "body", body, specs)
    carried: dict[int, str] = {}
    for entry in body.whole:
        if entry.parameter in body.carried:
            carried[entry.parameter] = w.let(w(inputs[entry.port]), f"{name}_carried")
    starts = {
        e.parameter: w.let(
            w.helper("part_starts", _size(w, inputs[e.port], e.slicing), *_bounds(e.slicing)),
            "starts",
        )
        for e in body.sliced
    }
    parts = [(o, w.let("[]", "parts")) for o in body.joined]
    last = [(o, w.let(_initial(o, body, carried), name)) for o in body.last]
    step = w.program.variable("step")
    limited = count if not count.lstrip("-").isdigit() else (count if int(count) >= 0 else "")
    running = None
    ends = body.condition
    if ends is not None or go_on != "True":
        running = w.let(go_on, "running")
    w.program.helpers.add("iterations")
    w.line(f"for {step} in iterations({limited or '-1'}):")
    if running is not None:
        w.line(f"    if not {running}:")
        w.line("        break")
    arguments = []
    for parameter in range(len(body.inputs)):
        source = body.input_of(parameter)
        arguments.append(_argument(w, source, inputs, carried, starts, step, specs))
    names = [w.program.variable("result") for _ in range(body.body.output_count)]
    comma = "," if len(names) == 1 else ""
    w.line(f"    {', '.join(names)}{comma} = self.{method}({', '.join(arguments)})")
    for output, part in parts:
        w.line(f"    {part}.append({names[output.result]})")
    for whole, variable_name in last:
        w.line(f"    {variable_name} = {names[whole.result]}")
    updates = [(carried[p], names[r]) for r, p in body.back_edges if p in carried]
    if updates:
        w.line(f"    {', '.join(a for a, _ in updates)} = {', '.join(b for _, b in updates)}")
    if ends is not None and running is not None:
        w.line(f"    {running} = bool({names[ends]})")
    final = {o.port: variable_name for o, variable_name in last}
    for output, part in parts:
        text = _joined(w, output, part, results[output.result], w.outputs[output.port].shape)
        final[output.port] = w.let(text, name)
    return [final[i] for i in range(len(final))]


def _ready(w: Writer, value: Value) -> Value:
    """A value that is read inside a loop: what it needs a statement for is written before."""
    if value.code or value.constant is not None:
        return value
    return replace(value, code=w(value))


def _size(w: Writer, data: Value, slicing: Slicing) -> str:
    return w.dim(data, slicing.axis % w.rank(data))


def _body_specs(
    op: Loop5 | TensorIterator1, body: BodyMap, inputs: Sequence[Value]
) -> list[TensorSpec]:
    """The specs of the body's parameters, which hold in every iteration."""
    declared = body.body.input_specs
    specs: dict[int, TensorSpec] = {}
    for entry in body.inputs:
        spec = declared[entry.parameter]
        if isinstance(entry, TurnNumber) or entry.parameter in body.carried:
            specs[entry.parameter] = TensorSpec(spec.element_type, spec.shape)
            continue
        given = inputs[entry.port]
        if not isinstance(entry, SlicedInput):
            specs[entry.parameter] = _spec(given)
        elif given.rank is None:
            specs[entry.parameter] = TensorSpec(given.type, PartialShape())
        else:
            axis = entry.slicing.axis % given.rank
            dims = [entry.slicing.part_size if i == axis else d for i, d in enumerate(given.shape)]
            specs[entry.parameter] = TensorSpec(given.type, PartialShape(dims))
    return [specs[i] for i in range(len(specs))]


def _argument(
    w: Writer,
    entry: BodyInput | TurnNumber,
    inputs: Sequence[Value],
    carried: dict[int, str],
    starts: dict[int, str],
    step: str,
    specs: Sequence[TensorSpec],
) -> str:
    if isinstance(entry, TurnNumber):
        spec = specs[entry.parameter]
        inside = step if (spec.rank or 0) == 0 else f"[{step}]"
        return f"torch.tensor({inside}, dtype={types.dtype(spec.element_type)}{w.on_device()})"
    if entry.parameter in carried:
        return carried[entry.parameter]
    data = inputs[entry.port]
    if not isinstance(entry, SlicedInput):
        return w(data)
    axis = entry.slicing.axis % w.rank(data)
    start = f"{starts[entry.parameter]}[{step}]"
    return f"{atom(w(data))}.narrow({axis}, {start}, {entry.slicing.part_size})"


def _initial(entry: BodyOutput, body: BodyMap, carried: dict[int, str]) -> str:
    """The value of an output when there is no iteration."""
    found = [carried[p] for r, p in body.back_edges if r == entry.result and p in carried]
    return found[0] if found else "None"


def _joined(
    w: Writer, entry: JoinedOutput, parts: str, result: TensorSpec, whole: PartialShape
) -> str:
    """Parts that are put together; where there are none, nothing in the shape that is known."""
    if result.rank is None:
        w.refuse("the rank of a result that is put together is not known")
    axis = entry.slicing.axis % len(result.shape)
    outer = whole if whole.rank == result.rank else result.shape
    pairs = [(a.static_size, b.static_size) for a, b in zip(result.shape, outer, strict=True)]
    blank = [0 if i == axis else b if a is None else a for i, (a, b) in enumerate(pairs)]
    ordered = parts if entry.slicing.stride > 0 else f"{parts}[::-1]"
    code = types.dtype(result.element_type)
    w.program.helpers.add("joined")
    return f"joined({ordered}, {axis}, {blank}, {code}{w.on_device()})"
