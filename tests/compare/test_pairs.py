"""Tensors of one name that are not the same tensor: numbered names of another graph of the same
model.
"""

from __future__ import annotations

import numpy as np

import uncork
from uncork.compare.tensors import PeerModel, PeerTensor, matched
from uncork.ir.model import Model


def model() -> Model:
    """x f32[2,6] -> relu, mul (relu * relu), split in two, mul_1 (the product of both halves):
    names as converted.
    """
    builder = uncork.Builder("model")
    x = builder.parameter("x", "f32", [2, 6])
    relu = builder.add("ReLU", 1, x, name="relu")[0]
    square = builder.add("Multiply", 1, relu, relu, name="mul")[0]
    axis = builder.constant(np.int64(1))
    sizes = builder.constant(np.array([3, 3]))
    first, second = builder.add(
        "VariadicSplit", 1, square, axis, sizes, name="split/aten.split.Tensor/VariadicSplit"
    )
    builder.result(builder.add("Multiply", 1, first, second, name="mul_1")[0], "y")
    return builder.model()


def peer(*tensors: PeerTensor, numbered: bool = True) -> PeerModel:
    return PeerModel((PeerTensor("x", "x", "Parameter", 0, ("x",)), *tensors), ("x",), numbered)


def tensor(
    name: str, *read: str, shape: tuple[int | None, ...] | None = None, names: tuple[str, ...] = ()
) -> PeerTensor:
    return PeerTensor(name, name, "op", 0, (name, *names), read, shape)


def found(theirs: PeerModel) -> dict[str, str]:
    own = model()
    return {
        f"{own.by_id[s.node].name.split('/')[0]}:{s.output}": key
        for s, key in matched(own, theirs).items()
    }


def test_one_that_reads_something_else_is_no_pair() -> None:
    """Theirs has the square as a power, and no product before the last."""
    square, relu = tensor("pow_1", "relu"), tensor("relu", "x")
    first, second = tensor("a", "pow_1"), tensor("b", "pow_1")
    assert found(peer(relu, square, first, second, tensor("mul", "a", "b", shape=(2, 3)))) == {
        "x:0": "x",
        "relu:0": "relu",
    }
    other = tensor("tanh", "x")  # both products have one shape, but not one ancestor
    assert found(peer(relu, other, tensor("mul", "relu", "tanh"), tensor("mul_1", "tanh"))) == {
        "x:0": "x",
        "relu:0": "relu",
        "mul:0": "mul",
    }


def test_parts_are_paired_by_what_gives_them() -> None:
    halves = [
        tensor(f"getitem_{i + 4}", "mul", names=(f"split/aten.split.Tensor:{i}",)) for i in range(2)
    ]
    theirs = peer(tensor("mul", "x"), *halves, tensor("mul_1", "getitem_4", "getitem_5"))
    assert found(theirs) == {
        "x:0": "x",
        "mul:0": "mul",
        "split:0": "getitem_4",
        "split:1": "getitem_5",
        "mul_1:0": "mul_1",
    }


def test_a_pair_fits_where_sizes_are_open() -> None:
    assert found(peer(tensor("mul", "x", shape=(None, 6)))) == {"x:0": "x", "mul:0": "mul"}
    assert found(peer(tensor("mul", "x", shape=(None, 5)))) == {"x:0": "x"}
    assert found(peer(tensor("mul", "x", shape=(2, 6, 1)))) == {"x:0": "x"}


def test_names_that_are_not_numbered_are_names() -> None:
    assert found(peer(tensor("mul", "x", shape=(None, 5)), numbered=False)) == {
        "x:0": "x",
        "mul:0": "mul",
    }
