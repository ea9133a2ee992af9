"""Language models of transformers as people export them, small and with random weights, held
against torch and OpenVINO.

GPT-2 without a mask finds sequences that were packed together by a sum of booleans; a decoder of T5
keeps the products of its cross-attention in variables whose type the file leaves open, as Optimum
writes them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests._openvino import OpenVino

ov = pytest.importorskip("openvino")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
BACKENDS = ("cpu", "reference")


def converted(network: Any, inputs: dict[str, Any]) -> Any:
    """By torch.export, every dimension of two or more open but the last of floats."""
    shapes = {
        name: {
            i: torch.export.Dim(f"{name}_{i}" if i else "batch", min=1 + i, max=64)
            for i in range(2)
        }
        for name in inputs
    }
    return ov.convert_model(torch.export.export(network, (), inputs, dynamic_shapes=shapes))


def test_gpt2_without_a_mask(tmp_path: Path, openvino: OpenVino) -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=50,
        n_positions=64,
        n_embd=32,
        n_layer=2,
        n_head=2,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    network = transformers.GPT2LMHeadModel(config).eval()

    class Logits(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, ids: Any) -> Any:
            return self.network(input_ids=ids).logits

    ids = torch.randint(0, 50, (2, 10))
    path = tmp_path / "gpt2.xml"
    ov.save_model(converted(Logits().eval(), {"ids": ids}), path, compress_to_fp16=False)
    text = path.read_text(encoding="utf-8")
    assert re.search(r'type="CumSum"[\s\S]*?<port id="0" precision="BOOL"', text), (
        "the exporter sums no booleans any more"
    )
    with torch.no_grad():
        expected = network(input_ids=ids).logits.numpy()
    np.testing.assert_allclose(openvino.run(path, [ids.numpy()])[0], expected, rtol=0, atol=1e-5)
    for backend in BACKENDS:
        np.testing.assert_allclose(
            uncork.load(path, backend=backend)(ids.numpy())[0], expected, rtol=0, atol=1e-5
        )


def test_t5_decoder_with_variables(tmp_path: Path) -> None:
    """The second call gives other states, and the cross-attention stays that of the first."""
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=40, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, use_cache=False
    )
    network = transformers.T5ForConditionalGeneration(config).eval()

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decoder, self.head = network.decoder, network.lm_head

        def forward(self, ids: Any, states: Any) -> Any:
            hidden = self.decoder(
                input_ids=ids, encoder_hidden_states=states, use_cache=False, return_dict=False
            )[0]
            return self.head(hidden)

    decoder = Decoder().eval()
    ids, states = torch.randint(0, 40, (2, 5)), torch.randn(2, 7, 32)
    path = tmp_path / "t5.xml"
    kept = stateful(converted(decoder, {"ids": ids, "states": states}), "states", path)
    assert kept == 4, "keys and values of two layers"
    assert (
        path.read_text(encoding="utf-8").count('variable_type="dynamic" variable_shape="..."')
        == kept
    )
    with torch.no_grad():
        expected = [decoder(i, states).numpy() for i in (ids, ids[:, :3])]
    for backend in BACKENDS:
        compiled = uncork.load(path, backend=backend)
        np.testing.assert_allclose(
            compiled(ids.numpy(), states.numpy())[0], expected[0], rtol=0, atol=1e-4
        )
        np.testing.assert_allclose(
            compiled(ids[:, :3].numpy(), states.numpy() * 0)[0], expected[1], rtol=0, atol=1e-4
        )


def stateful(model: Any, name: str, path: Path) -> int:
    """Save the model with what products make of an input kept in variables, as Optimum does it.
    Returns their number.
    """
    from openvino import opset13

    parameter = next(p for p in model.get_parameters() if name in p.output(0).get_names())
    sinks = []
    for reader in [target.get_node() for target in parameter.output(0).get_target_inputs()]:
        if reader.get_type_name() == "MatMul":
            targets = list(reader.output(0).get_target_inputs())
            value = opset13.read_value(reader.output(0), f"kept.{len(sinks)}")
            for target in targets:
                target.replace_source_output(value.output(0))
            sinks.append(opset13.assign(value, f"kept.{len(sinks)}"))
    ov.save_model(
        ov.Model(model.get_results(), sinks, model.get_parameters(), "t5"),
        path,
        compress_to_fp16=False,
    )
    return len(sinks)
