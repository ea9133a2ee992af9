"""Files that OpenVINO itself saves of networks of torch and ONNX, run here and there.

Outputs agree within 2e-5 of each output's largest value (f32 sums in another order; 1e-6 is what is
seen), integers exactly.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests._openvino import OpenVino
from tests.oracles import _saved_models
from tests.oracles._saved_models import FIRST, NETWORKS, SECOND, Arrays, floats
from uncork.kernels.runtime import processor

openvino_package = pytest.importorskip("openvino")
pytest.importorskip("torch")
pytest.importorskip("onnx")
pytestmark = pytest.mark.oracle
BACKENDS = ("cpu", "reference")


def agree(results: uncork.Results, expected: Arrays, what: str, tolerance: float = 2e-5) -> None:
    assert len(results) == len(expected)
    for position, (got, value) in enumerate(zip(results, expected, strict=True)):
        got = np.asarray(got)
        assert (got.shape, got.dtype) == (value.shape, value.dtype), f"{what}, output {position}"
        if value.dtype.kind == "f":
            scale = float(np.abs(value).max(initial=0))
            np.testing.assert_allclose(
                got,
                value,
                rtol=0,
                atol=tolerance * max(scale, 1e-30),
                err_msg=f"{what}, output {position}",
            )
        else:
            np.testing.assert_array_equal(got, value, f"{what}, output {position}")


def types_in(path: Path) -> set[str]:
    return set(re.findall(r'<layer [^>]*type="(\w+)"', path.read_text()))


def close(path: Path, calls: list[Arrays], openvino: OpenVino, fixed: bool = False) -> None:
    for call in calls:
        expected = openvino.run(path, call, reshape=fixed)
        for backend in BACKENDS:
            agree(
                uncork.load(path, backend=backend)(*call),
                expected,
                f"{backend}, shapes {[a.shape for a in call]}",
            )


def skip_what_saturates(name: str) -> None:
    """Skip networks whose layers multiply bytes, where OpenVINO has no instruction that adds up
    four products of them: its sums of two saturate.
    """
    has = {"avx512vnni", "avxvnni", "dotprod"} & processor.features()
    if "FakeQuantize" in NETWORKS[name].contains and not has:
        pytest.skip("OpenVINO's sums of products of bytes saturate on this processor")


@pytest.mark.parametrize("name", NETWORKS)
def test_open_shapes(name: str, openvino: OpenVino, tmp_path: Path) -> None:
    skip_what_saturates(name)
    network = NETWORKS[name]
    path = _saved_models.saved(_saved_models.converted(name), tmp_path, compress_to_fp16=False)
    assert set(network.contains.split()) <= types_in(path), sorted(types_in(path))
    assert any(not port.shape.is_static for port in uncork.load(path).inputs)
    close(path, [network.call(*FIRST), network.call(*SECOND)], openvino, bool(network.fixed))


@pytest.mark.parametrize("name", NETWORKS)
def test_fixed_shapes(name: str, openvino: OpenVino, tmp_path: Path) -> None:
    skip_what_saturates(name)
    call = NETWORKS[name].call(*FIRST)
    model = _saved_models.converted(name).clone()
    model.reshape({position: list(array.shape) for position, array in enumerate(call)})
    path = _saved_models.saved(model, tmp_path, compress_to_fp16=False)
    assert all(port.shape.is_static for port in uncork.load(path).inputs)
    close(path, [call], openvino)


@pytest.mark.parametrize(
    "name",
    [
        "residual network",
        "transformer encoder",
        "recurrent layers",
        "embedding bags",
        "LSTM in a loop",
        "detector",
    ],
)
def test_weights_in_f16(name: str, openvino: OpenVino, tmp_path: Path) -> None:
    """What `save_model` does when it is told nothing: constants in f16 behind a Convert."""
    network = NETWORKS[name]
    path = _saved_models.saved(_saved_models.converted(name), tmp_path)
    assert 'element_type="f16"' in path.read_text()
    close(path, [network.call(*FIRST)], openvino, bool(network.fixed))


def test_a_decoder_keeps_keys_and_values(tmp_path: Path) -> None:
    """OpenVINO's own transformation makes variables of the keys and values that come in and go
    out.
    """
    from openvino._offline_transformations import apply_make_stateful_transformation

    model = _saved_models.converted("decoder step").clone()
    model.reshape(
        {0: [1, -1, 32], 1: [1, 1, -1, 8], 2: [1, 1, -1, 8]}
    )  # so that the variables begin with no step
    pairs = {model.input(i): model.output(i) for i in (1, 2)}
    for i, name in ((1, "keys"), (2, "values")):
        model.input(i).get_tensor().set_names({f"{name}_before"})
        model.output(i).get_tensor().set_names({f"{name}_after"})
    apply_make_stateful_transformation(
        model, {i.get_any_name(): o.get_any_name() for i, o in pairs.items()}
    )
    path = _saved_models.saved(model, tmp_path, compress_to_fp16=False)
    assert {"ReadValue", "Assign"} <= types_in(path)
    random = np.random.default_rng(1)
    calls = [[floats(random, 1, steps, 32)] for steps in (3, 1, 2, 1)]
    expected = _saved_models.calls_in_a_row(path, calls)
    for backend in BACKENDS:
        compiled = uncork.load(path, backend=backend)
        for turn in ("first", "after reset"):
            for call, values in zip(calls, expected, strict=True):
                agree(compiled(*call), values, f"{backend}, {turn}")
            compiled.reset_state()
        agree(compiled.new_request()(*calls[0]), expected[0], f"{backend}, another request")


def decompressed(
    stored: np.ndarray, element_type: str, zero: np.ndarray | None, scale: np.ndarray
) -> Any:
    """The chain that weight compression writes: Convert, Subtract (when there is a zero point) and
    Multiply, in f32.
    """
    from openvino import Shape, Tensor, Type, op, opset13

    def constant(values: np.ndarray) -> Any:
        if element_type == "i8":
            return opset13.constant(values.astype(np.int8))
        if element_type == "u8":
            return opset13.constant(values.astype(np.uint8))
        nibbles = values.astype(np.int64).reshape(-1) & 15
        packed = (nibbles[0::2] | nibbles[1::2] << 4).astype(np.uint8)
        return op.Constant(Tensor(packed, Shape(list(values.shape)), getattr(Type, element_type)))

    x = opset13.convert(constant(stored), "f32")
    if zero is not None:
        x = opset13.subtract(x, opset13.convert(constant(zero), "f32"))
    return opset13.multiply(x, opset13.constant(scale.astype(np.float32)))


@pytest.mark.parametrize(
    ("element_type", "low", "high", "with_zero", "grouped"),
    [
        ("i8", -128, 128, False, False),
        ("u8", 0, 256, True, False),
        ("i4", -8, 8, False, True),
        ("u4", 0, 16, True, True),
        ("u4", 0, 16, True, False),
        ("nf4", 0, 16, False, True),
    ],
)
def test_compressed_weights(
    element_type: str,
    low: int,
    high: int,
    with_zero: bool,
    grouped: bool,
    openvino: OpenVino,
    tmp_path: Path,
) -> None:
    """A product with a compressed matrix, and an embedding from a compressed table, by output
    channel or in groups of 8.
    """
    from openvino import Model, opset13

    random = np.random.default_rng(high)
    shape = (12, 4, 8) if grouped else (12, 32)
    axes = (*shape[:-1], 1)
    stored = random.integers(low, high, shape)
    zero = random.integers(0, high, axes) if with_zero else None
    chain = decompressed(stored, element_type, zero, random.uniform(0.01, 0.1, axes))
    matrix = opset13.reshape(chain, opset13.constant([12, 32]), False) if grouped else chain
    x = opset13.parameter([-1, 32], np.float32, "x")
    ids = opset13.parameter([-1], np.int64, "ids")
    rows = opset13.gather(matrix, ids, opset13.constant(0))
    model = Model([opset13.matmul(x, matrix, False, True), rows], [x, ids], "compressed")
    # Left to itself OpenVINO rounds the other factor to 8 bits too.
    model.set_rt_info("0", ["runtime_options", "DYNAMIC_QUANTIZATION_GROUP_SIZE"])
    path = _saved_models.saved(model, tmp_path)
    assert f'element_type="{element_type}"' in path.read_text()
    close(path, [[floats(random, 3, 32), np.array([11, 0, 5, 5])]], openvino)
