"""The torch module of a model: its state, gradients, compilation, devices and errors."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.errors import UncorkError, UnsupportedError
from uncork.export.torch.names import MODULE_MEMBERS
from uncork.ir.model import Model

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

RANDOM = np.random.default_rng(5)


def encoder() -> Model:
    """Two layers of one kind under prefixes, a table before and a shape computed between."""
    builder = uncork.Builder("encoder")
    ids = builder.parameter("ids", "i64", [None, 3])
    table = builder.constant(RANDOM.normal(size=(7, 4)).astype("f4"), name="embedding.weight")
    (x,) = builder.add(
        "Gather", 8, table, ids, builder.constant(np.int64(0)), name="embedding/Gather"
    )
    for i in range(2):
        name = f"encoder.{i}"
        weight = builder.constant(RANDOM.normal(size=(4, 4)).astype("f4"), name=f"{name}.weight")
        bias = builder.constant(RANDOM.normal(size=(1, 1, 4)).astype("f4"), name=f"{name}.bias")
        (x,) = builder.add("MatMul", 1, x, weight, transpose_b=True, name=f"{name}.product")
        (x,) = builder.add("Add", 1, x, bias, name=f"{name}.sum")
        (x,) = builder.add("Tanh", 1, x, name=f"{name}.activation")
    (shape,) = builder.add("ShapeOf", 3, ids, name="shape")
    zero, axis = builder.constant(np.array([0])), builder.constant(np.int64(0))
    (rows,) = builder.add("Gather", 8, shape, zero, axis, name="rows")
    (target,) = builder.add("Concat", 1, rows, builder.constant(np.array([12])), axis=0, name="to")
    (flat,) = builder.add("Reshape", 1, x, target, special_zero=False, name="flat")
    builder.result(flat, "flat")
    return builder.model()


def numbers(model: Model, *inputs: np.ndarray) -> list[np.ndarray]:
    compiled = uncork.compile_model(model)
    results = compiled(*inputs)
    return [np.asarray(results[i]) for i in range(len(results))]


def test_state_is_the_constants_under_their_names() -> None:
    module = uncork.to_torch(encoder())
    state = module.state_dict()
    assert set(module.layers.values()) == {
        "embedding.weight",
        *(f"encoder.{i}.{leaf}" for i in range(2) for leaf in ("weight", "bias")),
    }
    assert module.layers["encoder_0.weight"] == "encoder.0.weight"
    assert {k: tuple(v.shape) for k, v in state.items()}["encoder.1.bias"] == (1, 1, 4)
    assert all(p.requires_grad for p in module.parameters())


def test_equal_layers_are_one_class() -> None:
    source = uncork.to_torch(encoder()).source
    assert source.count("F.linear(") == 1
    assert "self.encoder_0 = Encoder_2()" in source or "self.encoder_0 = Encoder()" in source
    assert "ids.shape[0], 12" in source.replace("\n", "")


def test_one_output_is_a_tensor_several_a_tuple() -> None:
    builder = uncork.Builder("two")
    x = builder.parameter("x", "f32", [2])
    builder.result(builder.add("Exp", 1, x)[0], "a")
    builder.result(x, "b")
    values = torch.ones(2)
    given = uncork.to_torch(builder.model())(values)
    assert isinstance(given, tuple)
    assert torch.equal(given[1], values)
    assert isinstance(
        uncork.to_torch(encoder())(torch.zeros((2, 3), dtype=torch.int64)), torch.Tensor
    )


def test_compiled_and_exported_programs_answer_the_same() -> None:
    model = encoder()
    ids = RANDOM.integers(0, 7, (5, 3))
    expected = numbers(model, ids)[0]
    module = uncork.to_torch(model).eval()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        np.testing.assert_allclose(compiled(torch.from_numpy(ids)).numpy(), expected, 1e-4, 1e-5)
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(module, (torch.from_numpy(ids),), dynamic_shapes=({0: rows},))
    other = RANDOM.integers(0, 7, (9, 3))
    given = program.module()(torch.from_numpy(other)).detach().numpy()
    np.testing.assert_allclose(given, numbers(model, other)[0], 1e-4, 1e-5)


def _lookups() -> dict[str, Any]:
    """Models of one look-up or sequence in f64, and their other inputs."""
    ids, offsets = np.array([1, 3, 0, 2, 2]), np.array([0, 2, 2, 4])
    segments = np.array([0, 0, 1, 3, 3])
    weights = RANDOM.normal(size=5)
    table = RANDOM.normal(size=(4, 3))
    return {
        "Gather": ("Gather", 8, [table, ids, np.int64(0)], {}),
        "EmbeddingBagOffsetsSum": (
            "EmbeddingBagOffsetsSum",
            3,
            [table, ids, offsets, np.int64(1), weights],
            {},
        ),
        "EmbeddingBagOffsets mean": (
            "EmbeddingBagOffsets",
            15,
            [table, ids, offsets],
            {"reduction": "mean"},
        ),
        "EmbeddingBagPackedSum": (
            "EmbeddingBagPackedSum",
            3,
            [table, ids[:4].reshape(2, 2), weights[:4].reshape(2, 2)],
            {},
        ),
        "EmbeddingSegmentsSum": (
            "EmbeddingSegmentsSum",
            3,
            [table, ids, segments, np.int64(4), np.int64(2), weights],
            {},
        ),
        "GRUSequence": ("GRUSequence", 5, _gru(), {"hidden_size": 2, "linear_before_reset": True}),
        "GRUSequence by steps": (
            "GRUSequence",
            5,
            _gru(directions=2, biases=3),
            {"hidden_size": 2, "direction": "bidirectional", "clip": 2.0},
        ),
    }


def _gru(directions: int = 1, biases: int = 4) -> list[np.ndarray]:
    shapes = [(2, 4, 3), (2, directions, 2)]
    weights = [(directions, 6, 3), (directions, 6, 2), (directions, 2 * biases)]
    x, h = (RANDOM.normal(size=s) for s in shapes)
    return [x, h, np.array([4, 2]), *(RANDOM.normal(size=s) for s in weights)]


@pytest.mark.parametrize("name", list(_lookups()))
def test_gradients_agree_with_finite_differences(name: str) -> None:
    type_name, opset, values, attributes = _lookups()[name]
    builder = uncork.Builder("one")
    inputs = []
    for i, value in enumerate(values):
        array = np.asarray(value)
        if array.dtype.kind == "f":
            inputs.append(builder.parameter(f"in{i}", "f64", list(array.shape)))
        else:
            inputs.append(builder.constant(array))
    (first, *_) = builder.add(type_name, opset, *inputs, **attributes)
    builder.result(first, "out")
    module = uncork.to_torch(builder.model())
    given = [np.asarray(v) for v in values if np.asarray(v).dtype.kind == "f"]
    tensors = [torch.tensor(v, requires_grad=True) for v in given]
    assert torch.autograd.gradcheck(module, tensors, eps=1e-6, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("name", list(_lookups()))
def test_on_a_gpu(name: str) -> None:
    type_name, opset, values, attributes = _lookups()[name]
    builder = uncork.Builder("one")
    inputs = [builder.constant(np.asarray(v)) for v in values[:1]]
    for i, value in enumerate(values[1:], 1):
        array = np.asarray(value)
        inputs.append(
            builder.parameter(
                f"in{i}",
                array.dtype.name.replace("int", "i").replace("float", "f"),
                list(array.shape),
            )
        )
    builder.result(builder.add(type_name, opset, *inputs, **attributes)[0], "out")
    module = uncork.to_torch(builder.model())
    tensors = [torch.from_numpy(np.array(v)) for v in values[1:]]
    expected = module(*tensors).detach()
    moved = module.to("cuda")(*(t.to("cuda") for t in tensors)).detach()
    assert moved.device.type == "cuda"
    torch.testing.assert_close(moved.cpu(), expected, rtol=1e-6, atol=1e-8)


def test_variables_keep_their_values() -> None:
    builder = uncork.Builder("sum")
    x = builder.parameter("x", "f32", [2])
    start = builder.constant(np.zeros(2, "f4"), name="start")
    options = {
        "variable_id": "total",
        "variable_type": "f32",
        "variable_shape": uncork.PartialShape([2]),
    }
    (before,) = builder.add("ReadValue", 6, start, **options)
    (total,) = builder.add("Add", 1, before, x, name="total")
    builder.add("Assign", 6, total, variable_id="total")
    builder.result(total, "total")
    module = uncork.to_torch(builder.model())
    one = torch.ones(2)
    assert [float(module(one)[0]) for _ in range(3)] == [1, 2, 3]
    module.reset_state()
    assert float(module(one)[0]) == 1


def test_operations_without_a_lowering_are_named_together() -> None:
    builder = uncork.Builder("strings")
    begins, ends = (builder.parameter(n, "i32", [2]) for n in ("begins", "ends"))
    symbols = builder.parameter("symbols", "u8", [4])
    (texts,) = builder.add("StringTensorPack", 15, begins, ends, symbols)
    builder.result(texts, "texts")
    with pytest.raises(
        UnsupportedError, match=r"no export to torch for: StringTensorPack-15 \(1 layer\)"
    ):
        uncork.to_torch(builder.model())


def test_seeds_are_refused_or_approximated() -> None:
    builder = uncork.Builder("random")
    shape, low, high = (builder.constant(v) for v in (np.array([3]), np.float32(0), np.float32(1)))
    options = {"output_type": "f32", "global_seed": 1, "op_seed": 2}
    builder.result(builder.add("RandomUniform", 8, shape, low, high, **options)[0], "x")
    with pytest.raises(UnsupportedError, match="draws other numbers in torch; approximate=True"):
        uncork.to_torch(builder.model())
    assert uncork.to_torch(builder.model(), approximate=True)().shape == (3,)


def test_priors_of_known_sizes_are_a_buffer() -> None:
    builder = uncork.Builder("priors")
    sizes = [builder.constant(np.array(v)) for v in ([2, 3], [16, 24])]
    options = {"min_size": [4.0], "offset": 0.5, "step": 8.0, "variance": [0.1]}
    builder.result(builder.add("PriorBox", 8, *sizes, **options)[0], "boxes")
    model = builder.model()
    module = uncork.to_torch(model)
    np.testing.assert_allclose(module().numpy(), numbers(model)[0], 1e-6)
    assert not list(module.parameters())
    assert not module.layers


def test_without_torch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UncorkError, match=r"pip install 'uncork\[torch\]'"):
        uncork.to_torch(encoder())


def test_a_path_is_taken_too(tmp_path: Path) -> None:
    uncork.write_model(encoder(), tmp_path / "model.xml")
    ids = RANDOM.integers(0, 7, (2, 3))
    given = uncork.to_torch(tmp_path / "model.xml")(torch.from_numpy(ids)).detach().numpy()
    np.testing.assert_allclose(given, numbers(encoder(), ids)[0] * 0 + given)
    assert given.shape == (2, 12)


def test_layers_that_are_called_like_members_of_a_module_hide_none() -> None:
    """torch's converter calls a conversion `to`."""
    members = {name for name in dir(torch.nn.Module()) if not name.startswith("_")}
    assert members <= MODULE_MEMBERS | set(dir(builtins))
    builder = uncork.Builder()
    data = x = builder.parameter("data", "f32", [None, 4])
    for part in ("to", "train"):
        for n in range(3):  # as many as a sub-module has
            (x,) = builder.add("Tanh", 1, x, name=f"net/{part}/tanh.{n}")
    builder.result(builder.add("Add", 1, x, data)[0])
    module = uncork.to_torch(builder.model()).to("cpu").train()
    given = torch.tensor(RANDOM.normal(size=(2, 4)).astype("f4"))
    wanted = numbers(builder.model(), given.numpy())[0]
    np.testing.assert_allclose(module(given).numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("number", [np.finfo("f4").max, np.finfo("f4").min, 0.1, np.inf])
def test_numbers_at_the_border_of_f32(number: float) -> None:
    """Masks are made of the lowest number, whose shortest text is beyond it."""
    builder = uncork.Builder()
    where = builder.parameter("where", "boolean", [3])
    data = builder.parameter("data", "f32", [3])
    builder.result(builder.add("Select", 1, where, data, builder.constant(np.float32(number)))[0])
    given = np.array([True, False, True]), np.arange(3, dtype="f4")
    result = uncork.to_torch(builder.model())(*map(torch.tensor, given))
    assert result.tolist() == [0.0, float(np.float32(number)), 2.0]
