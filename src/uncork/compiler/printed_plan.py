"""A plan as it is printed: steps in the words of the model, with numbers for sizes that are
known.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from uncork.compiler import policy
from uncork.compiler.call_plan import CallPlan, ConstantLocation, Location, PlannedStep
from uncork.compiler.known_sizes import known_size
from uncork.compiler.memory import Buffer, plan_buffers
from uncork.compiler.options import rows_of_fast
from uncork.compiler.plan import Plan, Step
from uncork.compiler.scope import Scope
from uncork.internal_ops.compressed_linear import CompressedLinear
from uncork.internal_ops.fused import product_of
from uncork.ir.model import Model
from uncork.kernels.runtime.segment_plan import ArgumentAddress, BufferAddress, BufferLifetime
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import multiplies_pairs
from uncork.symbolic import Guard, Origin, Size
from uncork.types import Dimension, PartialShape, TensorSpec

#: What the operations of size programs compute.
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "mul": operator.mul,
    "add": operator.add,
    "sub": operator.sub,
    "floordiv": lambda a, b: a // max(b, 1),
    "max": max,
    "min": min,
    "greater_equal": lambda a, b: int(a >= b),
    "equal": lambda a, b: int(a == b),
    "and": lambda a, b: int(bool(a and b)),
}


def printed(
    plan: CallPlan,
    target: Target,
    scope: Scope,
    hints: Mapping[Origin, int],
    made: int,
    kept: int | None = None,
) -> Plan:
    """The plan of a target for calls with these sizes, one of so many that were `made`.

    `kept` is the working memory that is taken now; without, what such a call needs.
    """
    _, needed = _buffers(plan, hints)
    guards = tuple(
        f"{relation} ({relation.where})"
        for relation in plan.relations
        if isinstance(relation, Guard)
    )
    steps = printed_steps(plan, hints)
    plans, costs = policy.described()
    remarks = (f"planned for {scope.value}", plans, _precision(plan, target), costs)
    return Plan(steps, needed if kept is None else kept, guards, remarks, made)


def printed_steps(plan: CallPlan, hints: Mapping[Origin, int]) -> tuple[Step, ...]:
    """The steps of a plan for calls with these sizes."""
    offsets, _ = _buffers(plan, hints)
    return tuple(_step(step, _location(plan, step.location, offsets), hints) for step in plan.steps)


def _precision(plan: CallPlan, target: Target) -> str:
    """What factors of products are rounded to, and what "fast" would make of that."""
    pairs, would = multiplies_pairs(target), _of_stored_weights(plan, target)
    if pairs:
        chosen = {step.node.hints.precision for step in plan.steps} - {"f32"}
        if chosen:
            return f"precision: {', '.join(sorted(chosen))}"
        would.insert(0, "multiply bf16")
    if would:
        return f"precision: f32; 'fast' would {' and '.join(would)}"
    return "precision: f32, as 'fast' would have it: the processor has no products of bf16"


def _of_stored_weights(plan: CallPlan, target: Target) -> list[str]:
    """What "fast" would do where products read stored weights, and the plan does not."""
    from uncork.kernels.compressed.select import rounded_to  # for plans that have such products

    found: set[str] = set()
    for step in plan.steps:
        operation = step.node.operation
        product = None if operation is None else product_of(operation)
        if not isinstance(product, CompressedLinear):
            continue
        if product.weights.half:
            found.add("leave out roundings of stored weights to f16")
        allowed = rows_of_fast(step.node.hints.activations)
        rows = rounded_to(replace(product.weights, half=False), target, allowed)
        if product.activations != rows:
            found.add(f"round rows that meet stored weights to {rows}")
    return sorted(found)


def listed(model: Model, kernel: str, reason: str) -> Plan:
    """The printed plan of a model without one: its layers, with the reason given."""
    steps = []
    for node in model.nodes:
        operation = node.operation
        if node.type_name in ("Parameter", "Const", "Result") or all(
            port.spec.value is not None for port in node.outputs
        ):
            continue
        outputs = " ".join(str(port.spec) for port in node.outputs)
        steps.append(
            Step(
                node.name,
                operation.label() if operation else node.type_name,
                kernel,
                reason,
                outputs,
                "",
            )
        )
    return Plan(tuple(steps))


def _step(step: PlannedStep, location: str, hints: Mapping[Origin, int]) -> Step:
    node = step.node
    operation = node.operation.label() if node.operation else node.type_name
    outputs = " ".join(str(_with_numbers(port.spec, hints)) for port in node.outputs)
    return Step(node.name, operation, step.kernel, step.reason, outputs, location, step.note)


def _with_numbers(spec: TensorSpec, hints: Mapping[Origin, int]) -> TensorSpec:
    """The spec with numbers for the symbols that are known."""
    if not hints or spec.rank is None or spec.shape.is_static:
        return spec
    dims = [
        dim if dim.size is None else Dimension.of(Size.of(known_size(dim.size, hints)))
        for dim in spec.shape.dims
    ]
    return TensorSpec(spec.element_type, PartialShape(dims))


def _location(plan: CallPlan, location: Location | None, offsets: Mapping[int, int]) -> str:
    """Where a result lies: at a number of bytes in the working memory, when sizes are known."""
    if isinstance(location, ArgumentAddress):
        inputs, results = len(plan.array_guards), len(plan.results)
        if location.argument < inputs:
            return f"input {location.argument}"
        return (
            f"output {location.argument - inputs}"
            if location.argument < inputs + results
            else "own array"
        )
    if isinstance(location, BufferAddress):
        offset = offsets.get(location.buffer)
        if offset is None or not isinstance(location.offset, int):
            return f"buffer {location.buffer}"
        return f"at {offset + location.offset}"
    return "constant" if isinstance(location, ConstantLocation) else "sizes"


def _buffers(plan: CallPlan, hints: Mapping[Origin, int]) -> tuple[dict[int, int], int | None]:
    """The offset of each buffer and the bytes of all; nothing where these sizes do not tell."""
    numbers = _numbers(plan, hints)
    buffers = [buffer for segment in plan.segment_plans for buffer in segment.buffers]
    sized = [(buffer, numbers[buffer.bytes.index]) for buffer in buffers]
    known: list[tuple[BufferLifetime, int]] = [
        (buffer, size) for buffer, size in sized if size is not None
    ]
    if len(known) < len(sized):
        return {}, None
    offsets, needed = plan_buffers(
        [Buffer(size, buffer.first, buffer.last) for buffer, size in known]
    )
    return {
        buffer.buffer: offset for (buffer, _), offset in zip(known, offsets, strict=True)
    }, needed


def _numbers(plan: CallPlan, hints: Mapping[Origin, int]) -> list[int | None]:
    """What the slots of a call hold in the end, as far as the known sizes tell."""
    numbers: list[int | None] = list(plan.slots)
    for origin, slot in plan.symbols.items():
        numbers[slot.index] = hints.get(origin)
    for segment in plan.segment_plans:
        for op in segment.ops:
            a, b = numbers[op.a.index], numbers[op.b.index]
            numbers[op.result.index] = (
                None if a is None or b is None else _OPERATIONS[op.operation](a, b)
            )
    return numbers
