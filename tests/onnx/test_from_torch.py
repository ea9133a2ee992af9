"""Modules of torch as models: what they compute is held against torch, with other sizes than the
example's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import uncork

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from torch import nn  # noqa: E402

pytestmark = pytest.mark.oracle


def agree(
    module: Any, example: Any, *calls: Any, tolerance: float = 2e-6, **options: Any
) -> uncork.Model:
    """Hold the model against the module, in f32 rounding: at the example and at other calls."""
    options.setdefault("dynamic", True)
    torch.manual_seed(1)
    model = uncork.from_torch(module, example, **options)
    compiled = uncork.compile_model(model, backend="reference")
    module.eval()
    for call in (example, *calls):
        with torch.no_grad():
            expected = module(**call) if isinstance(call, dict) else module(*call)
        flat = torch.utils._pytree.tree_leaves(expected)
        inputs = torch.utils._pytree.tree_leaves(call)
        got = list(compiled(*[tensor.numpy() for tensor in inputs]))
        assert len(got) == len(flat)
        for one, other in zip(got, flat, strict=True):
            assert one.shape == tuple(other.shape)
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=tolerance)
    return model


def layers(model: uncork.Model) -> list[str]:
    return [n.operation.type_name for n in model.nodes if n.operation is not None]


# ---- bags


class Bags(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.items = nn.EmbeddingBag(20, 4, **options)

    def forward(self, ids: Any, offsets: Any = None, weights: Any = None) -> Any:
        return self.items(ids, offsets, weights)


IDS, OFFSETS = torch.tensor([3, 2, 2, 19, 0, 7, 7]), torch.tensor([0, 0, 4, 6])
LATER = torch.tensor([5, 0, 0, 1]), torch.tensor([0, 1, 3, 4, 4])


@pytest.mark.parametrize("padding", [None, 0])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_by_offsets(mode: str, padding: int | None) -> None:
    """Empty bags among them, and with a padding index bags of which nothing is left."""
    bags = Bags(mode=mode, padding_idx=padding)
    model = agree(bags, (IDS, OFFSETS), LATER)
    assert ("SegmentMax" if mode == "max" else "EmbeddingBagOffsets") in layers(model)
    assert "Loop" not in layers(model)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_one_length(mode: str) -> None:
    bags = Bags(mode=mode, padding_idx=0)
    agree(bags, (IDS[:6].reshape(2, 3),), (torch.randint(0, 20, (5, 7)),))


@pytest.mark.parametrize("padding", [None, 2])
def test_bags_with_weights(padding: int | None) -> None:
    bags = Bags(mode="sum", padding_idx=padding)
    agree(bags, (IDS, OFFSETS, torch.rand(7)), (*LATER, torch.rand(4)))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_whose_offsets_end_with_the_end(mode: str) -> None:
    bags = Bags(mode=mode, include_last_offset=True)
    agree(bags, (IDS, torch.tensor([0, 2, 7])), (LATER[0], torch.tensor([0, 1, 1, 4])))


def test_ids_of_32_bits() -> None:
    agree(Bags(mode="max"), (IDS.int(), OFFSETS.int()))
    agree(Bags(mode="sum"), (IDS.int(), OFFSETS))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_exports_as_before_afterwards() -> None:
    """What was registered for the export is taken back."""
    import io

    import onnx

    agree(Bags(mode="sum"), (IDS, OFFSETS))
    file = io.BytesIO()
    torch.onnx.export(Bags(mode="sum").eval(), (IDS, OFFSETS), file, dynamo=False)
    assert {n.domain for n in onnx.load_from_string(file.getvalue()).graph.node} == {""}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("options", [{"mode": "sum"}, {"mode": "sum", "include_last_offset": True}])
def test_bags_that_torch_exports_as_loops_are_bags(options: dict[str, Any]) -> None:
    """torch.onnx.export on its own, not by `from_torch`."""
    import io

    torch.manual_seed(1)
    bags, file = Bags(**options).eval(), io.BytesIO()
    axes = {"ids": {0: "ids_0"}, "offsets": {0: "offsets_0"}}
    torch.onnx.export(
        bags, (IDS, OFFSETS), file, input_names=list(axes), dynamic_axes=axes, dynamo=False
    )
    compiled = uncork.load(file.getvalue())
    assert any(step.kernel.startswith("bag_offsets") for step in compiled.plan.steps)
    assert not any("bodies" in step.kernel for step in compiled.plan.steps)
    for ids, offsets in ((IDS, OFFSETS), LATER):
        with torch.no_grad():
            expected = bags(ids, offsets).numpy()
        found = compiled(ids.numpy(), offsets.numpy())[0]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)


# ---- recurrent layers


class Packed(nn.Module):
    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(4, 5, batch_first=True, **options)

    def forward(self, x: Any, lengths: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        steps, last = self.layer(packed)
        steps, _ = nn.utils.rnn.pad_packed_sequence(steps, batch_first=True)
        return steps, last


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("GRU", {}),
        ("LSTM", {"bidirectional": True}),
        ("GRU", {"bidirectional": True, "num_layers": 2}),
    ],
)
def test_packed_sequences(kind: str, options: dict[str, Any]) -> None:
    module = Packed(kind, **options)
    later = torch.rand(5, 8, 4), torch.tensor([8, 1, 2, 8, 3])
    agree(module, (torch.rand(3, 6, 4), torch.tensor([6, 3, 4])), later)


# ---- windows


class Windows(nn.Module):
    def __init__(self, axis: int, size: int, step: int) -> None:
        super().__init__()
        self.windows = axis, size, step

    def forward(self, x: Any) -> Any:
        return x.unfold(*self.windows) * 2


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize(("size", "step"), [(3, 2), (2, 2), (1, 3), (4, 1)])
def test_windows_along_an_axis(axis: int, size: int, step: int) -> None:
    """As many as the call has, of whichever axis; the last numbers may be in none."""
    others = torch.randn(4, 9, 5), torch.randn(5, 4, 8)
    model = agree(Windows(axis, size, step), (torch.randn(5, 7, 6),), *((x,) for x in others))
    assert "Gather" in layers(model)
    compiled = uncork.compile_model(model)
    for x in others:
        assert np.array_equal(compiled(x.numpy())[0], x.unfold(axis, size, step).numpy() * 2)


class Differences(nn.Module):
    def forward(self, x: Any, first: Any) -> Any:
        changes = torch.diff(x > 0, prepend=first > 0)
        return torch.diff(x, n=2, dim=0), torch.diff(x, prepend=first, append=first * 2), changes


class Diagonals(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        found = [torch.diagonal(x, offset, 1, -1) for offset in (0, 2, -1, 5, -9)]
        return (*found, torch.diagonal(x, 1, 2, 1), torch.diagonal(x[0]), x.diagonal(0, 0, 1))


def test_diagonals() -> None:
    """Of matrices of open number, above and below, beyond an edge, and of axes in either order."""
    model = uncork.from_torch(Diagonals(), torch.randn(3, 4, 6), dynamic={"x": {0: "n"}})
    compiled = uncork.compile_model(model)
    for number in (3, 1, 5):
        x = torch.randn(number, 4, 6)
        for got, expected in zip(compiled(x.numpy()), Diagonals()(x), strict=True):
            np.testing.assert_array_equal(got, expected.numpy())


def test_differences_along_an_axis() -> None:
    calls = [
        (torch.randn(rows, columns), torch.randn(rows, 1)) for rows, columns in ((4, 5), (3, 8))
    ]
    agree(Differences(), *calls)


class Counted(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.cumsum(x > 0, 1), torch.cumsum(x, 0)


def test_truths_are_counted() -> None:
    agree(Counted(), (torch.randn(2, 5),), (torch.randn(3, 7),))


class Permuted(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.permute(0, -2, -1, 1), x.permute(-1, 0, 1, 2) + 1


def test_axes_are_counted_from_the_last() -> None:
    agree(Permuted(), (torch.randn(2, 3, 4, 5),), (torch.randn(3, 2, 6, 4),))


class Messages(nn.Module):
    """A step on a graph: nodes sum what their edges bring."""

    def forward(self, x: Any, edges: Any, where: Any) -> Any:
        brought = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
        degrees = torch.zeros(x.shape[0], dtype=torch.int64)
        degrees = degrees.index_add(0, edges[1], torch.ones(edges.shape[1], dtype=torch.int64))
        put = torch.zeros_like(x).index_put((edges[1],), x[edges[0]], accumulate=True)
        return brought, degrees, put, x.index_add(-1, where, x[:, : where.shape[0]], alpha=-2)


def test_rows_of_one_index_are_added() -> None:
    """The second node has the same neighbour twice."""
    calls = [
        (
            torch.randn(nodes, 3),
            torch.tensor([[0, 2, 2, 1], [1, 1, 1, 0]]),
            torch.tensor([1, 1]),
        )
        for nodes in (3, 5)
    ]
    more = (torch.randn(4, 3), torch.randint(0, 4, (2, 9)), torch.tensor([2, 0, 2]))
    agree(Messages(), *calls, more)


class Aggregates(nn.Module):
    """What edges bring to nodes as one number each, with what a node has or without it; of the
    values only as many are read as there are places.
    """

    def __init__(self, reduce: str) -> None:
        super().__init__()
        self.reduce = reduce

    def forward(self, x: Any, edges: Any) -> Any:
        brought = x[edges[0]]
        places = edges[1][:, None].expand_as(brought)
        zeros, inner = torch.zeros_like(x), places[1:3, :2]
        return (
            zeros.scatter_reduce(0, places, brought, self.reduce, include_self=False),
            x.scatter_reduce(0, places, brought, self.reduce),
            x.scatter_reduce(-1, inner, brought, self.reduce, include_self=False),
        )


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scattered_values_are_reduced_as_torch_does(reduce: str) -> None:
    """Nodes with several neighbours, with one and with none."""
    calls = [
        (torch.randn(nodes, 3), torch.stack([torch.arange(edges) % nodes, torch.arange(edges) % 3]))
        for nodes, edges in ((4, 5), (6, 11), (5, 2))
    ]
    agree(Aggregates(reduce), *calls)


def _raised(x):  # type: ignore[no-untyped-def]
    return x + torch.tensor([1.0])


class Compiling(nn.Module):
    """Compiles a function while it is followed, and not before."""

    def forward(self, x: Any) -> Any:
        return torch.jit.script(_raised)(x) if torch.jit.is_tracing() else _raised(x)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_functions_that_are_compiled_on_the_way() -> None:
    agree(Compiling(), (torch.randn(2, 3),), (torch.randn(4, 5),))


class ListsOfSizes(nn.Module):
    """Tensors of lists in which sizes are, of several types and ranks."""

    def forward(self, x: Any, boxes: Any) -> Any:
        height, width = x.shape[-2:]
        scale = torch.tensor([width, height, width, 2.5])
        shapes = torch.as_tensor([(height, width), (width // 2, 3)], dtype=torch.long)
        starts = torch.cat([shapes.new_zeros(1), shapes.prod(1).cumsum(0)[:-1]])
        alone = torch.tensor((x.shape[0], True), dtype=torch.float64, device="cpu")
        return boxes / scale, shapes, starts, alone, torch.tensor([1, 2]) + boxes.shape[0]


def test_tensors_of_sizes_are_those_of_the_call() -> None:
    calls = [(torch.zeros(n, h, w), torch.randn(3, 4)) for n, h, w in ((2, 5, 8), (1, 7, 3))]
    made = torch.tensor, torch.as_tensor
    agree(ListsOfSizes(), *calls)
    assert (torch.tensor, torch.as_tensor) == made


def test_exports_of_several_threads() -> None:
    """What the exporter follows, and what is put into torch for it, is of one export at a time."""
    made = torch.tensor, torch.as_tensor
    example = torch.zeros(2, 5, 8), torch.randn(3, 4)
    later = torch.zeros(1, 7, 3), torch.randn(3, 4)
    with ThreadPoolExecutor(4) as pool:
        models = list(
            pool.map(lambda _: uncork.from_torch(ListsOfSizes(), example, dynamic=True), range(8))
        )
    assert (torch.tensor, torch.as_tensor) == made
    assert torch.backends.mha.get_fastpath_enabled()
    for model in models:
        found = uncork.compile_model(model, backend="reference")(*[x.numpy() for x in later])
        np.testing.assert_array_equal(found[1], [[7, 3], [1, 3]])


# ---- what a module keeps of a call


class Positions(nn.Module):
    """Keeps the table of positions of the last length, in an attribute or in a buffer."""

    def __init__(self, buffer: bool) -> None:
        super().__init__()
        self.buffer, self.length = buffer, None

    def forward(self, x: Any) -> Any:
        if self.length != x.shape[1]:
            self.length = x.shape[1]
            table = torch.arange(x.shape[1], dtype=x.dtype) / 4
            if self.buffer:
                self.register_buffer("table", table, persistent=False)
            else:
                self.table = table
        return x + self.table


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("buffer", [False, True])
def test_tables_as_long_as_the_example_are_no_constants(buffer: bool) -> None:
    module = Positions(buffer)
    with torch.no_grad():
        agree(module, (torch.zeros(2, 5),), (torch.ones(1, 9),), (torch.ones(3, 2),))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_module_keeps_nothing_of_the_export() -> None:
    module = Positions(False)
    uncork.from_torch(module, torch.zeros(2, 5), dynamic=True)
    assert module.length is None
    assert not hasattr(module, "table")
    module(torch.zeros(2, 3))
    uncork.from_torch(module, torch.zeros(2, 5), dynamic=True)
    assert module.length == 3
    assert module.table.tolist() == [0, 0.25, 0.5]


def test_lazy_layers_have_their_sizes_after_it() -> None:
    agree(nn.Sequential(nn.LazyLinear(3), nn.ReLU()), (torch.randn(2, 5),), (torch.randn(4, 5),))


# ---- attention


class Attend(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        attend = nn.functional.scaled_dot_product_attention
        return attend(query, key, value, mask, **self.options)


def _heads(steps: int, keys: int, groups: int = 4) -> tuple[Any, ...]:
    return (
        torch.randn(2, 4, steps, 8),
        torch.randn(2, groups, keys, 8),
        torch.randn(2, groups, keys, 6),
    )


@pytest.mark.parametrize("kind", ["boolean", "float"])
@pytest.mark.parametrize("options", [{}, {"scale": 0.3}])
def test_attention_with_a_mask(kind: str, options: dict[str, Any]) -> None:
    """Of rows whose keys are all masked torch gives zeros."""
    masks = [torch.rand(2, 1, n, m) > 0.4 for n, m in ((3, 5), (4, 7))]
    for mask in masks:
        mask[0, 0, 1] = False
    if kind == "float":
        masks = [torch.where(m, torch.randn(m.shape), -torch.inf) for m in masks]
    model = agree(Attend(**options), (*_heads(3, 5), masks[0]), (*_heads(4, 7), masks[1]))
    assert "ScaledDotProductAttention" in layers(model)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 2.0}])
def test_attention_without_a_mask(options: dict[str, Any]) -> None:
    agree(Attend(**options), _heads(3, 5), _heads(6, 6))


def test_heads_that_share_keys() -> None:
    axes = {name: [0, 2] for name in ("query", "key", "value")}
    agree(Attend(enable_gqa=True), _heads(3, 5, 2), _heads(1, 9, 2), dynamic=axes)


def test_layers_of_attention() -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, x: Any) -> Any:
            return self.layers(x)

    model = agree(Encoder(), (torch.randn(2, 3, 8),), dynamic={"x": [0]})
    assert layers(model).count("ScaledDotProductAttention") == 2
    assert torch.backends.mha.get_fastpath_enabled()


# ---- a decoder with a cache


class Decoder(nn.Module):
    """Two layers of attention whose keys and values of the steps before are given."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 16)
        self.parts = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))
        self.norm = nn.LayerNorm(16)

    def forward(self, ids: Any, past: Any) -> Any:
        x, present = self.words(ids), []
        for part, (keys, values) in zip(self.parts, past, strict=True):
            heads = part(self.norm(x)).unflatten(2, (3, 4, 4)).permute(2, 0, 3, 1, 4)
            query, key, value = heads.unbind(0)
            key, value = torch.cat((keys, key), 2), torch.cat((values, value), 2)
            steps, before = ids.shape[1], keys.shape[2]
            places = torch.arange(before + steps)
            seen = places[None, :] <= places[before:, None]
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, seen)
            x = x + mixed.transpose(1, 2).flatten(2)
            present.append((key, value))
        return {"logits": x @ self.words.weight.T, "present": present}


def _past(rows: int, steps: int) -> Any:
    return tuple((torch.rand(rows, 4, steps, 4), torch.rand(rows, 4, steps, 4)) for _ in range(2))


def test_a_decoder_with_a_cache() -> None:
    example = {"ids": torch.randint(0, 30, (2, 3)), "past": _past(2, 5)}
    one = {"ids": torch.randint(0, 30, (1, 1)), "past": _past(1, 9)}
    axes = {"ids": [0, 1]} | {f"past.{i}.{j}": [0, 2] for i in (0, 1) for j in (0, 1)}
    model = agree(
        Decoder(),
        example,
        one,
        {"ids": torch.randint(0, 30, (2, 4)), "past": _past(2, 0)},
        dynamic=axes,
    )
    assert [p.names[0] for p in model.inputs] == ["ids", *list(axes)[1:]]
    presents = [f"present.{i}.{j}" for i in (0, 1) for j in (0, 1)]
    assert [p.names[0] for p in model.outputs] == ["logits", *presents]
    assert str(model.inputs[1].shape) == "[?,4,?,4]"


def test_a_program_of_torch_export() -> None:
    sizes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(nn.Linear(3, 2).eval(), (torch.rand(2, 3),), dynamic_shapes=sizes)
    compiled = uncork.compile_model(
        uncork.from_torch(program.module(), torch.rand(2, 3), dynamic={"input": [0]})
    )
    x = torch.rand(5, 3)
    np.testing.assert_allclose(
        compiled(x.numpy())[0], program.module()(x).detach().numpy(), rtol=1e-5, atol=1e-6
    )


# ---- names


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, x: Any, y: Any = None, *, flag: bool = False, **more: Any) -> Any:
        made = {"user": self.drop(self.first(x)) * self.scale, "x": x + 1}
        if y is not None:
            made["y"] = y
        return {**made, **more, "first": made["user"].sum()} if flag else made


def names(ports: Sequence[Any]) -> list[str]:
    return [port.names[0] for port in ports]


def test_names_and_keys() -> None:
    tower = Tower().train()
    model = uncork.from_torch(tower, {"x": torch.rand(2, 3)})
    assert names(model.inputs) == ["x"]
    assert names(model.outputs) == ["user", "x_output"]
    assert {"first.bias", "scale"} <= {node.name for node in model.nodes}
    assert tower.training
    assert tower.drop.training
    model = uncork.from_torch(tower, torch.rand(2, 3), outputs=["a", "b"])
    assert names(model.outputs) == ["a", "b"]
    model = uncork.from_torch(
        tower, {"x": np.ones((2, 3), np.float32), "flag": True, "extra": torch.rand(1)}
    )
    assert names(model.inputs) == ["x", "extra"]
    assert names(model.outputs) == ["user", "x_output", "extra_output", "first"]


def test_parameters_that_are_equal_stay_apart_and_states_go_both_ways() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)
    )
    example = torch.rand(2, 3, 8, 8)
    expected = network.eval()(example)
    exported = uncork.to_torch(uncork.from_torch(network, example, dynamic=True))
    state = exported.state_dict()
    counts = {"1.num_batches_tracked", "4.num_batches_tracked"}  # nothing is computed with them
    assert network.state_dict().keys() - state.keys() == counts
    assert network.training is False
    assert len(list(exported.parameters())) == 8
    assert torch.allclose(exported(example), expected, atol=1e-5)
    state_of_network = network.state_dict()
    exported.load_state_dict(state_of_network, strict=True)
    network.load_state_dict(state, strict=True)
    assert state_of_network.keys() >= counts


def test_sizes_are_the_examples_unless_they_are_opened() -> None:
    shapes = {}
    for dynamic in (False, True, {"x": [0]}, {"x": {-2: "batch"}}):
        model = uncork.from_torch(Tower(), torch.rand(2, 3), dynamic=dynamic)
        shapes[str(dynamic)] = str(model.inputs[0].shape)
    assert list(shapes.values()) == ["[2,3]", "[?,?]", "[?,3]", "[?,3]"]


def test_inputs_that_nothing_reads_are_there() -> None:
    class Ignoring(nn.Module):
        def forward(self, x: Any, unread: Any, y: Any, half: Any) -> Any:
            return x * 2 + y

    x, y = torch.arange(3.0), torch.ones(3)
    example = (x, torch.ones(2, 4, dtype=torch.bool), y, torch.ones(5, dtype=torch.bfloat16))
    model = uncork.from_torch(Ignoring(), example, dynamic={"unread": [1]})
    ports = [f"{port.name} {port.element_type} {port.shape}" for port in model.inputs]
    assert ports == ["x f32 [3]", "unread boolean [2,?]", "y f32 [3]", "half bf16 [5]"]
    call = [array.float().numpy() for array in example]
    call[1], call[3] = np.ones((2, 7), bool), np.zeros(5, np.uint16)
    (result,) = uncork.compile_model(model)(*call).values()
    np.testing.assert_array_equal(result, [1, 3, 5])


def test_an_output_that_is_an_input_and_one_that_is_there_twice() -> None:
    class Same(nn.Module):
        def forward(self, x: Any) -> Any:
            y = x * 2
            return x, y, y

    model = agree(Same(), (torch.rand(2),))
    assert names(model.outputs) == ["output.0", "output.1", "output.2"]


# ---- refusals


def refusal(*arguments: Any, kind: Any = uncork.InputError, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        uncork.from_torch(*arguments, **options)
    return str(caught.value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_no_module_or_no_example() -> None:
    x = torch.rand(2, 3)
    assert "expected a torch.nn.Module, got function" in refusal(lambda x: x, x)
    assert "got ExportedProgram: give its module()" in refusal(
        torch.export.export(Tower().eval(), (x,)), x
    )
    assert "is a TorchScript program: give the module that it" in refusal(
        torch.jit.trace(nn.Linear(3, 2), x), x
    )
    assert "example: does not fit forward(x: 'Any'" in refusal(Tower(), (x, x, x, x))
    assert "missing a required argument: 'x'" in refusal(Tower(), {"y": x})
    assert "example: the module does not take it: RuntimeError: " in refusal(
        Tower(), torch.rand(2, 5)
    )
    assert "example: y: expected tensors, numbers, texts" in refusal(Tower(), (x, object()))


def test_wrong_axes_and_names() -> None:
    x = torch.rand(2, 3)
    assert "dynamic: there is no input 'z', there are x" in refusal(Tower(), x, dynamic={"z": [0]})
    assert "input 'x': expected axes -2..1, got 2" in refusal(Tower(), x, dynamic={"x": [2]})
    assert "expected True, False or axes" in refusal(Tower(), x, dynamic="all")
    assert "expected 2 different names, for user, x" in refusal(Tower(), x, outputs=["a"])
    assert "outputs: 'x' is the name of an input" in refusal(Tower(), x, outputs=["a", "x"])


def test_what_the_export_refuses(capfd: pytest.CaptureFixture[str]) -> None:
    class Strange(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.svdvals(x)

    message = refusal(Strange(), torch.rand(2, 2), kind=uncork.UnsupportedError)
    assert message.startswith("Strange: torch.onnx.export refuses it: UnsupportedOperatorError: ")
    assert "svd" in message
    assert capfd.readouterr().out == ""  # torch prints its whole graph

    class Text(nn.Module):
        def forward(self, x: Any) -> Any:
            return x, "done"

    message = refusal(Text(), torch.rand(2), kind=uncork.UnsupportedError)
    assert "its result '1' is a str, expected tensors" in message

    class Nothing(nn.Module):
        def forward(self, x: Any) -> Any:
            return None

    assert "returns no tensor" in refusal(Nothing(), torch.rand(2), kind=uncork.UnsupportedError)


@pytest.mark.parametrize("name", ["torch", "onnx"])
def test_without_the_packages(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tower = Tower()
    monkeypatch.setitem(sys.modules, name, None)
    message = refusal(tower, torch.rand(2, 3), kind=uncork.UncorkError)
    assert f"{name} is not installed: pip install 'uncork[torch,onnx]'" in message
