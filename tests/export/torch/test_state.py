"""The names of a module's state: those of the model's constants, so that checkpoints fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.export.torch.state import state_names

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("safetensors")

from torch import nn  # noqa: E402


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x: Any) -> Any:
        return self.norm(x + torch.softmax(self.query(x), -1))


class Encoder(nn.Module):
    """Layers in a list, statistics, and a mask of the module's own that no state has."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(9, 4)
        self.layer = nn.ModuleList([nn.ModuleDict({"attention": Head()}) for _ in range(2)])
        self.norm = nn.BatchNorm1d(4, track_running_stats=True)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf, 0.0, 0.0]), persistent=False)

    def forward(self, ids: Any) -> Any:
        x = self.embeddings(ids)
        for layer in self.layer:
            x = layer["attention"](x)
        return torch.softmax(self.norm(x.mean(1)) + self.mask, -1)


IDS = np.array([[1, 8, 3], [0, 0, 2]])


def made(seed: int) -> Any:
    torch.manual_seed(seed)
    module = Encoder().eval()
    for tensor in (*module.parameters(), module.norm.running_mean):
        tensor.data += 0.1 * torch.randn_like(tensor)
    return module


def close(module: Any, other: Any) -> None:
    with torch.no_grad():
        found, wanted = (m.eval()(torch.from_numpy(IDS)).numpy() for m in (module, other))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def state_of(module: Any) -> dict[str, Any]:
    """A checkpoint, without the count of batches, which no answer depends on."""
    return {k: v for k, v in module.state_dict().items() if "num_batches" not in k}


def model_of(module: Any) -> uncork.Model:
    return uncork.from_torch(module, (torch.from_numpy(IDS),), dynamic=True)


def test_a_checkpoint_loads_and_goes_back() -> None:
    source, other = made(1), made(2)
    exported = uncork.to_torch(model_of(source))
    assert set(exported.state_dict()) == set(state_of(source))
    assert "layer.1.attention.query.weight" in exported.state_dict()
    exported.load_state_dict(state_of(other), strict=True)
    close(exported, other)
    back = made(3)
    back.load_state_dict({**back.state_dict(), **exported.state_dict()}, strict=True)
    close(back, other)


def test_a_model_takes_the_state_back() -> None:
    source, other = made(1), made(2)
    model = model_of(source)
    compiled = uncork.compile_model(uncork.with_constants(model, state_of(other)))
    with torch.no_grad():
        wanted = other(torch.from_numpy(IDS)).numpy()
    np.testing.assert_allclose(compiled(IDS)[0], wanted, rtol=1e-5, atol=1e-6)


def test_a_module_in_another_has_its_names_behind_the_prefix() -> None:
    source, other = made(1), made(2)
    outer = nn.Sequential(uncork.to_torch(model_of(source)))
    assert {k.removeprefix("0.") for k in outer.state_dict()} == set(state_of(source))
    outer.load_state_dict({f"0.{k}": v for k, v in state_of(other).items()}, strict=True)
    close(outer, other)


def test_a_folder_keeps_all(tmp_path: Path) -> None:
    """The mask too, which is no part of the state."""
    source = made(1)
    given = uncork.compile_model(model_of(source))(IDS)[0]
    uncork.write_torch(model_of(source), tmp_path / "folder", sample=([IDS], [given]))
    found = subprocess.run(
        [sys.executable, "check.py"], cwd=tmp_path / "folder", capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_what_is_wrong_with_a_checkpoint_is_told() -> None:
    exported = uncork.to_torch(model_of(made(1)))
    state = state_of(made(2))
    del state["embeddings.weight"]
    with pytest.raises(RuntimeError, match=r"Missing key.*embeddings"):
        exported.load_state_dict({**state, "more": torch.ones(1)}, strict=True)


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        ("encoder.0.weight", "encoder.0.weight"),
        ("self.bert.pooler.bias", "bert.pooler.bias"),
        ("table", "table"),
        ("Constant_74", None),
        ("a/b", None),
        ("onnx::MatMul_3", None),
        ("", None),
        ("a.", None),
        ('x"] = 1; import os; y["', None),
        ("a\nb", None),
        ("été.w", None),
    ],
)
def test_names_are_words_and_points(layer: str, name: str | None) -> None:
    assert state_names({"place": layer}, set()) == ({} if name is None else {"place": name})


def test_names_that_are_taken_are_not_given_twice() -> None:
    layers = {"a": "x.w", "b": "x.w", "c": "a", "d": "d"}
    assert state_names(layers, set()) == {"a": "x.w", "d": "d"}
    assert state_names({"a": "x.w"}, {"a"}) == {}
