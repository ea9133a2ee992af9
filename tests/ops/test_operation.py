"""Operations do not change: `replace` makes another one, and a layer's type follows from its
operation.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from msgspec.structs import replace

from uncork import Builder, ValidationError, compile_model
from uncork.compiler.options import Backend
from uncork.internal_ops.packed_const import PackedConst
from uncork.internal_ops.view import View
from uncork.ir.hints import Hints
from uncork.ops import Operation, find
from uncork.ops.convert import Convert1
from uncork.ops.convert_promote_types import ConvertPromoteTypes14
from uncork.ops.gather import Gather7, Gather8
from uncork.ops.parameter import Const
from uncork.ops.split import VariadicSplit1
from uncork.types import ElementType, PartialShape, TensorSpec


def spec(
    *sizes: int | None, element_type: ElementType = ElementType.f32, value: object = None
) -> TensorSpec:
    return TensorSpec(
        element_type, PartialShape(sizes), None if value is None else np.asarray(value)
    )


@pytest.mark.parametrize(
    "name", ["batch_dims", "strict", "counts_from_end", "reference", "anything"]
)
def test_setting_is_an_error(name: str) -> None:
    operation = Gather8(batch_dims=1)
    with pytest.raises(
        AttributeError, match=rf"Gather8 does not change: use operation\.replace\({name}="
    ):
        setattr(operation, name, 0)
    with pytest.raises(AttributeError, match=f"Gather8 does not change: it keeps '{name}'"):
        delattr(operation, name)
    assert (operation.batch_dims, operation.strict, operation.counts_from_end) == (1, False, True)


def test_internal_operations_do_not_change_either() -> None:
    operation = View(PartialShape([2, 3]))
    with pytest.raises(AttributeError, match="View does not change"):
        operation.shape = PartialShape([6])  # type: ignore[assignment]
    other = operation.replace(shape=PartialShape([6]))
    assert (operation.shape, other.shape) == (PartialShape([2, 3]), PartialShape([6]))


def test_replace() -> None:
    operation = Gather8(batch_dims=1)
    other = operation.replace(batch_dims=-1, strict=True)
    assert (other.batch_dims, other.strict, type(other)) == (-1, True, Gather8)
    assert (operation.batch_dims, operation.strict) == (1, False)
    assert other.replace(strict=False).to_text() == {"batch_dims": "-1"}


def test_replace_refuses_what_the_operation_does_not_take() -> None:
    with pytest.raises(
        ValidationError, match=r"Gather-8 has no attribute 'axis'; it has \['batch_dims'\]"
    ):
        Gather8().replace(axis=1)
    with pytest.raises(
        ValidationError, match="attribute 'batch_dims': expected an integer, got 'one'"
    ):
        Gather8().replace(batch_dims="one")
    pool = find("MaxPool", 1)
    assert pool is not None
    made = pool(strides=(1, 1), kernel=(2, 2))
    assert made.to_text()["pads_begin"] == "0, 0"  # written in full
    with pytest.raises(ValidationError, match="attribute 'pads_begin': expected 2 numbers"):
        made.replace(pads_begin=(1,))


def test_what_was_computed_of_the_old_values_is_not_taken_over() -> None:
    packed = PackedConst.of(ElementType.u4, (4,), np.array([0x21, 0x43], np.uint8))
    assert packed.value.tolist() == [1, 2, 3, 4]
    assert packed.replace(packed=np.array([0x65, 0x87], np.uint8)).value.tolist() == [5, 6, 7, 8]


def test_a_value_that_was_not_given_is_told() -> None:
    with pytest.raises(AttributeError, match="'value' of this Const was not given"):
        _ = Const(element_type=ElementType.f32, shape=PartialShape([2])).value


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))]
)
def test_copies_are_the_same(twin: object) -> None:
    assert callable(twin)
    operation: Operation = twin(Convert1(destination_type=ElementType.i8, strict=True))
    assert isinstance(operation, Convert1)
    assert (operation.destination_type, operation.strict) == (ElementType.i8, True)
    with pytest.raises(AttributeError):
        operation.strict = False  # type: ignore[assignment]


# ---- what is known at load is another operation, not a memory of the same one


def test_inference_remembers_nothing() -> None:
    lengths = spec(2, element_type=ElementType.i64, value=[1, 2])
    axis = spec(element_type=ElementType.i64, value=0)
    split = VariadicSplit1()
    assert len(split.describe([spec(3), axis, lengths])) == 2
    assert split.parts is None
    unknown = spec(None, element_type=ElementType.i64)
    with pytest.raises(
        ValidationError, match="its length is the number of outputs and must be known"
    ):
        split.describe([spec(3), axis, unknown])
    assert len(split.specialised([spec(3), axis, lengths]).describe([spec(3), axis, unknown])) == 2


def test_the_common_type_of_load_holds_for_calls() -> None:
    operation = ConvertPromoteTypes14(pytorch_scalar_promotion=True, promote_unsafe=True)
    scalar, tensor = spec(element_type=ElementType.i64), spec(2, element_type=ElementType.i32)
    unknown = TensorSpec(ElementType.i64, PartialShape())
    assert operation.describe([scalar, tensor])[0].element_type is ElementType.i32
    assert operation.describe([unknown, tensor])[0].element_type is ElementType.i64
    settled = operation.specialised([scalar, tensor])
    assert settled.describe([unknown, tensor])[0].element_type is ElementType.i32
    refused = ConvertPromoteTypes14()
    assert (
        refused.specialised([spec(element_type=ElementType.i8), spec(element_type=ElementType.u64)])
        is refused
    )


# ---- layers


def test_the_type_of_a_layer_is_that_of_its_operation() -> None:
    b = Builder("ids")
    table, axis = b.constant(np.eye(3, dtype=np.float32)), b.constant(np.int64(0))
    b.result(b.add("Gather", 7, table, b.parameter("ids", "i64", [None]), axis, name="rows")[0])
    node = next(node for node in b.model().nodes if node.name == "rows")
    assert (node.type_name, node.file_type) == ("Gather", "Gather")
    assert isinstance(node.operation, Gather7)
    assert replace(node, operation=View(PartialShape([3]))).type_name == "View"
    assert replace(node, operation=None, file_type="Unheard").type_name == "Unheard"
    with pytest.raises(TypeError):
        replace(node, type_name="View")  # type: ignore[call-arg]


def test_hints_are_of_the_layer() -> None:
    b = Builder("add")
    b.result(
        b.add("Add", 1, b.parameter("a", "f32", [2]), b.parameter("b", "f32", [2]), name="sum")[0]
    )
    node = next(node for node in b.model().nodes if node.name == "sum")
    assert node.hints == Hints("f32", direct_sums=False, in_f32=False, note="")
    hinted = replace(node, hints=replace(node.hints, note="because"))
    assert (hinted.hints.note, node.hints.note, hinted.operation) == ("because", "", node.operation)


@pytest.mark.parametrize("field", ["strict", "counts_from_end"])
def test_layers_are_built_of_attributes_alone(field: str) -> None:
    b = Builder("ids")
    table, axis = b.constant(np.eye(3, dtype=np.float32)), b.constant(np.int64(0))
    with pytest.raises(ValidationError, match=f"Gather-8 has no attribute '{field}'; it has"):
        b.add("Gather", 8, table, b.parameter("ids", "i64", [None]), axis, **{field: True})


def test_an_axis_of_nothing_is_split_into_no_parts() -> None:
    """No lengths add up to 0: there is no output, of a value that is known, either."""
    model = Builder()
    data = model.parameter("x", "f32", [0, 2])
    for given in (data, model.constant(np.zeros((0, 2), np.int64))):
        numbers = [model.constant(np.array(n, np.int64)) for n in (0, [])]
        assert not model.add("VariadicSplit", 1, given, *numbers)
    model.result(data, "y")
    backends: list[Backend] = ["reference", "cpu"]
    for backend in backends:
        (result,) = compile_model(model.model(), backend=backend)(np.zeros((0, 2), "f4"))
        assert result.shape == (0, 2)
    assert not VariadicSplit1().reference(
        np.zeros((0, 2), np.float32), np.array(0), np.zeros(0, np.int64)
    )
