"""The public attributes of OpenVINO's objects: there, doing nothing, or refused, as
tools/one_line_page.py says.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tools.one_line_page import IGNORED, NAMES, REFUSED, TAKEN, names

import uncork.openvino as ov
from uncork import UncorkError
from uncork.openvino import _config
from uncork.openvino import opset13 as ops


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    """One object of each kind."""
    x = ops.parameter([2, 3], np.float32, name="x")
    y = ops.relu(x, name="y")
    model = ov.Model([y], [x], "model")
    compiled = ov.Core().compile_model(model, "CPU", {"PERF_COUNT": True})
    request = compiled.create_infer_request()
    request.infer([np.ones((2, 3), np.float32)])
    return {
        "Core": ov.Core(),
        "Model": model,
        "CompiledModel": compiled,
        "InferRequest": request,
        "AsyncInferQueue": ov.AsyncInferQueue(compiled, 1),
        "Tensor": ov.Tensor(np.array(["a"])),
        "Node": y,
        "Output": y.output(0),
        "Input": y.input(0),
        "Type": ov.Type.f32,
        "PartialShape": ov.PartialShape([1]),
        "Dimension": ov.Dimension(3),
        "Layout": ov.Layout("NCHW"),
    }


@pytest.mark.parametrize("name", [n for n in names() if n not in REFUSED])
def test_is_there(objects: dict[str, Any], name: str) -> None:
    kind, attribute = name.split(".")
    getattr(objects[kind], attribute)


@pytest.mark.parametrize("name", sorted(IGNORED))
def test_does_nothing(objects: dict[str, Any], name: str) -> None:
    kind, attribute = name.split(".")
    method = getattr(objects[kind], attribute)
    assert method(*[None] * len(inspect.signature(method).parameters)) is None


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_is_refused_in_a_sentence(objects: dict[str, Any], name: str) -> None:
    kind, attribute = name.split(".")
    method = getattr(objects[kind], attribute)
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p for p in inspect.signature(method).parameters.values() if p.kind not in kinds]
    with pytest.raises(RuntimeError, match=r"\w+ \w+ \w+") as caught:
        method(*[None] * len(needed))
    assert isinstance(caught.value, UncorkError)


def test_at_least_nine_of_ten_work() -> None:
    every = names()
    assert len(every) == len(set(every)) >= 155
    assert {*IGNORED, *REFUSED} <= set(every)
    assert len(REFUSED) + len(IGNORED) <= len(every) / 10


@pytest.mark.oracle
@pytest.mark.parametrize("kind", sorted(NAMES))
def test_names_are_those_of_openvino(kind: str) -> None:
    theirs = getattr(pytest.importorskip("openvino"), kind)
    assert NAMES[kind].split() == sorted(n for n in dir(theirs) if not n.startswith("_"))


def test_every_property_that_is_taken_is_told() -> None:
    assert list(TAKEN) == list(_config.TAKEN)
    assert not set(_config.TAKEN) & set(_config.IGNORED)


@pytest.mark.oracle
def test_properties_of_openvino_are_known() -> None:
    core = pytest.importorskip("openvino").Core()
    known = {*_config.TAKEN, *_config.IGNORED, *_config.ASKED}
    settable = core.get_property("CPU", "SUPPORTED_PROPERTIES")
    missing = sorted(n for n, how in settable.items() if how == "RW" and n not in known)
    assert missing == []


def test_an_import_of_uncork_loads_nothing_of_it() -> None:
    code = "import sys, uncork; print([m for m in sys.modules if 'openvino' in m])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ov.Core().compile_model(None, "GPU"), "no device 'GPU': uncork runs models on"),
        (lambda: ov.Core().compile_model(None, "HETERO:GPU,NPU"), "uncork runs models on the CPU"),
        (lambda: ov.Core("plugins.xml"), "there are no plugins"),
        (lambda: ov.Core().set_property({"CPU_THREADS": 1}), "no property 'CPU_THREADS'"),
        (lambda: ov.Core().set_property({"NUM_STREAMS": "few"}), "NUM_STREAMS: 'few' is no value"),
        (lambda: ov.Core().set_property({"FULL_DEVICE_NAME": "x"}), "can be asked for, not set"),
        (lambda: ov.Core().set_property({"PERFORMANCE_HINT": "x"}), "expected one of LATENCY"),
        (lambda: ov.Core().set_property({"INFERENCE_PRECISION_HINT": "i8"}), "f32, bf16 or f16"),
        (lambda: ov.Core().get_property("CPU", "NOTHING"), "there is no property 'NOTHING'"),
        (lambda: ov.Core().get_property("CPU", "CACHE_DIR"), "CACHE_DIR has no value here"),
        (lambda: ov.Layout("NN"), "'N' names two axes"),
        (lambda: ov.Layout("NCHW").get_index_by_name("D"), "there is no axis 'D'"),
        (lambda: ov.PartialShape([1, -1]).get_shape(), "expected a static shape, got"),
        (lambda: ov.PartialShape([1])[4], "has 1 sizes, none at 4"),
        (lambda: ov.Dimension().get_length(), "expected a static dimension"),
        (lambda: ov.Tensor(np.ones((2, 2))[:, ::2], shared_memory=True), "C-contiguous only"),
        (lambda: ov.Tensor(np.ones(2)).str_data, "expected a tensor of strings, got one of f64"),
        (lambda: ops.relu(np.ones(1, np.float32)).output(1), "has 1 outputs, none at 1"),
        (lambda: ops.split(np.zeros(4), 0, 2) + 1, "has 2 outputs, so say which"),
    ],
)
def test_messages(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Extension", "there are no extensions"),
        ("RemoteTensor", "no remote memory"),
        ("opset17", "opsets go from opset1 to opset16"),
        ("frontend", "converted by OpenVINO's own package"),
        ("nothing", "has no attribute 'nothing'"),
        ("compile_modle", "did you mean 'compile_model'"),
    ],
)
def test_names_that_are_not_there(name: str, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        getattr(ov, name)


def test_ignored_properties_warn_once() -> None:
    _config._told.clear()
    with pytest.warns(UserWarning, match="CACHE_DIR is ignored: kernels are kept on disk"):
        ov.Core().set_property({"CACHE_DIR": "/tmp/x"})
    ov.Core().set_property({"CACHE_DIR": "/tmp/x"})  # warnings are errors in these tests


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import uncork.opset13", "from uncork.openvino import opset13"),
        ("from uncork import opset8", "from uncork.openvino import opset13"),
        ("from uncork.preprocess import PrePostProcessor", r"uncork\.openvino\.preprocess"),
        ("from uncork import Core", "uncork has no 'Core': uncork.openvino.Core, for programs"),
        ("import uncork.properties.hint", r"uncork\.openvino\.properties"),
        ("from uncork.openvino.passes import Manager", "has no 'passes': models are rewritten"),
        ("import uncork.openvino.opset21", "has no 'opset21': opsets go from opset1 to opset16"),
        ("from uncork.openvino.runtime import Core", "moved what was there to the package itself"),
    ],
)
def test_modules_that_lie_elsewhere(line: str, message: str) -> None:
    with pytest.raises(ImportError, match=message):
        exec(line)


def test_modules_that_are_nowhere() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'uncork\.nothing'$"):
        exec("import uncork.nothing")
