"""`uncork.compare`: planted faults are found and the layer is named; rounding is none; a peer that
dies is no end.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests.cli.conftest import Command
from tests.compare._models import FIRST, SECOND, X, named_anew, network, wrong_axis, wrong_weight
from uncork.compare import Comparison, OutputReport, compare
from uncork.compare.peers.base import GivenInput
from uncork.compare.peers.process import Failed, PeerProcess
from uncork.compare.report import conclusion


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return network(tmp_path / "model.xml")


def verdicts(found: Comparison) -> dict[str, str]:
    return {layer.node.name: layer.verdict for layer in found.layers}


def test_the_same_model(model: Path) -> None:
    found = compare(model, str(model), [X])
    assert found.is_same
    assert conclusion(found) in ("the same, bit for bit", "the same, but for rounding")
    assert list(verdicts(found)) == ["first", "relu", "second", "soft", "turned", "sum"]
    assert {*verdicts(found).values(), *(output.verdict for output in found.outputs)} <= {
        "same",
        "rounding",
    }


def test_the_references(model: Path) -> None:
    found = compare(model, "reference", {"x": X})
    assert found.is_same and found.first is None
    assert set(verdicts(found).values()) <= {"same", "rounding"}


@pytest.mark.parametrize("anew", [False, True], ids=["by name", "by structure"])
@pytest.mark.parametrize(("fault", "name"), [(wrong_weight, "second"), (wrong_axis, "soft")])
def test_planted_faults(model: Path, tmp_path: Path, fault: Any, name: str, anew: bool) -> None:
    """The one layer differs, and none behind it: each is run on what the other side gave to it."""
    other = network(tmp_path / "other.xml", named_anew(fault) if anew else fault)
    found = compare(model, str(other), [X])
    assert not found.is_same
    assert found.first is not None and found.first.node.name == name
    assert [layer for layer, verdict in verdicts(found).items() if verdict == "differs"] == [name]
    assert f"the first layer that differs is layer '{name}'" in conclusion(found)
    assert found.outputs[0].verdict == "differs"


def test_the_weight_is_found_where_it_is(model: Path, tmp_path: Path) -> None:
    found = compare(model, str(network(tmp_path / "other.xml", wrong_weight)), [X])
    assert found.first is not None and found.first.difference is not None
    seen = found.first.difference
    hidden = np.maximum(X.astype(np.float64) @ FIRST, 0)
    np.testing.assert_allclose(seen.largest, 0.25 * hidden[..., 2].max(), rtol=1e-5)
    assert seen.where[2] == 1, "the column of the weight"
    assert seen.where[:2] == np.unravel_index(hidden[..., 2].argmax(), (3, 2))
    assert sum(seen.histogram) == 3 * 2 * 4


def test_another_shape(model: Path, tmp_path: Path) -> None:
    other = network(
        tmp_path / "other.xml", lambda parts: type(parts)(parts.second, order=(2, 0, 1))
    )
    found = compare(model, str(other), [X])
    assert found.first is not None and found.first.node.name == "turned"
    assert found.first.reason == "shape [3, 4, 2] here, [4, 3, 2] there"


def test_saved_values(model: Path) -> None:
    hidden = (X @ FIRST).astype(np.float32)
    saved = {
        "first": hidden,
        "relu:0": np.maximum(hidden, 0),
        "y": np.zeros((3, 4, 2), np.float32),
        "of nobody": hidden,
    }
    found = compare(model, "saved.npz", [X], saved=saved)
    assert verdicts(found) == {
        "first": found.layers[0].verdict,
        "relu": "same",
        "second": "unmatched",
        "soft": "unmatched",
        "turned": "differs",
        "sum": "unmatched",
    }
    assert found.layers[0].verdict in ("same", "rounding")


def test_results_count_in_the_conclusion(model: Path) -> None:
    """Without a layer to compare, whether it is the same bit for bit is told by the results."""
    verdicts = {"same": "the same, bit for bit", "rounding": "the same, but for rounding"}
    for verdict, expected in verdicts.items():
        assert (
            conclusion(
                Comparison(
                    uncork.read_model(model), "other.xml", outputs=[OutputReport("y", verdict)]
                )
            )
            == expected
        )


def test_a_value_that_is_nan_on_one_side(model: Path) -> None:
    hidden = (X @ FIRST).astype(np.float32)
    hidden[1, 0, 2] = np.nan
    found = compare(model, "saved.npz", [X], saved={"first": hidden})
    assert found.first is not None and found.first.difference is not None
    assert found.first.reason == "1 of 30 values are NaN or infinite on one side only"
    assert found.first.difference.where == (1, 0, 2)
    assert verdicts(found)["relu"] == "unmatched"


def test_operations_that_are_missing_here(model: Path) -> None:
    """Their layer takes the other side's values, and those behind it are compared."""
    text = model.read_text().replace('type="ReLU"', 'type="NovelReLU"')
    model.write_text(text)
    with pytest.raises(uncork.UnsupportedError):
        uncork.read_model(model)
    hidden = np.maximum(X @ FIRST, 0).astype(np.float32)
    found = compare(
        model,
        "saved.npz",
        [X],
        saved={"relu": hidden, "second": (hidden @ SECOND).astype(np.float32)},
    )
    assert verdicts(found)["relu"] == "unmatched"
    assert found.layers[1].reason == "there is no such operation here"
    assert verdicts(found)["second"] in ("same", "rounding")
    assert found.is_same
    assert (
        found.outputs_note
        == "results of the whole model are not compared: operations are missing here"
    )


def test_nothing_that_both_have(model: Path) -> None:
    found = compare(model, "saved.npz", [X], saved={"nobody": X})
    assert not found.is_same
    assert (
        conclusion(found)
        == "nothing was compared: no layer has a counterpart by its name or its place"
    )


@pytest.mark.parametrize(
    ("against", "message"),
    [
        (
            "tensorflow",
            r"against: expected openvino, reference, onnxruntime:FILE\.onnx, .*, got 'tensorflow'",
        ),
        ("onnxruntime", "got 'onnxruntime'"),
        ("nowhere.xml", r"^nowhere\.xml: cannot be read: No such file or directory$"),
    ],
)
def test_other_sides_that_are_none(model: Path, against: str, message: str) -> None:
    with pytest.raises(uncork.UncorkError, match=message):
        compare(model, against, [X])


def test_another_model_that_cannot_be_read(model: Path, tmp_path: Path) -> None:
    """Its problem is told as it is, without the names of classes."""
    other = tmp_path / "broken.xml"
    other.write_text("<net")
    with pytest.raises(uncork.UncorkError) as caught:
        compare(model, str(other), [X])
    assert str(caught.value).startswith(f"{other}: cannot open the model: ")
    assert "Error" not in str(caught.value) and str(caught.value).count(str(other)) == 1


@pytest.mark.parametrize(
    ("against", "missing", "message"),
    [
        (
            "openvino",
            "openvino",
            "against openvino: needs openvino, which is not installed: pip install openvino",
        ),
        ("torch:model.pt2", "torch", "against torch: needs torch, .*: pip install torch"),
        (
            "onnxruntime:model.onnx",
            "onnxruntime",
            "against onnxruntime: needs .*onnxruntime, which (is|are) not installed: pip install",
        ),
    ],
)
def test_packages_that_are_missing(
    model: Path, monkeypatch: pytest.MonkeyPatch, against: str, missing: str, message: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(uncork.UncorkError, match=message):
        compare(model, against, [X])


@pytest.mark.parametrize("against", ["torch:nowhere.pt2", "onnxruntime:nowhere.onnx"])
def test_files_that_are_missing(model: Path, monkeypatch: pytest.MonkeyPatch, against: str) -> None:
    """No process is started for them, whatever is installed."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("subprocess.Popen", None)
    with pytest.raises(uncork.UncorkError, match=r"^nowhere\.\w+: cannot be read: No such file"):
        compare(model, against, [X])


def test_a_program_of_torch_is_opened_only_with_trust(model: Path, tmp_path: Path) -> None:
    """PyTorch runs pickles of such a file: no process is started for it."""
    program = tmp_path / "program.pt2"
    program.write_bytes(b"PK")
    message = "program.pt2: may run code as PyTorch opens it, since it holds pickles: give --trust"
    with pytest.raises(uncork.InputError, match=message):
        compare(model, f"torch:{program}", [X])


def test_inputs_are_checked(model: Path) -> None:
    with pytest.raises(
        uncork.InputError, match=r"input 'x': expected shape \[\?,\?,6\], got \[3, 2, 5\]"
    ):
        compare(model, "reference", [X[..., :5]])


# ---- the process of a peer


def test_a_peer_that_dies(model: Path) -> None:
    """It is started again, and one tensor after the other tells whether it is the one."""
    peer = PeerProcess("uncork", str(model), [GivenInput("x", ("x",), "f32", X)], None, "other")
    try:
        keys = [tensor.key for tensor in peer.model.tensors if tensor.inputs]
        process = peer._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        values = peer.values(keys)
        assert [value.shape for value in values.values() if not isinstance(value, Failed)] == [
            (3, 2, 5),
            (3, 2, 5),
            (3, 2, 4),
            (3, 2, 4),
            (3, 4, 2),
            (3,),
        ]
    finally:
        peer.close()


def test_the_layer_that_kills_a_peer_is_told(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = PeerProcess._asked

    def asked(self: PeerProcess, *message: Any) -> Any:
        """Dies whenever it is asked for the second product."""
        deadly = (
            [t.key for t in self.model.tensors if t.layer == "second"]
            if message[0] == "values"
            else []
        )
        return (
            Failed("the process ended by signal 11")
            if deadly and deadly[0] in message[1]
            else ask(self, *message)
        )

    monkeypatch.setattr(PeerProcess, "_asked", asked)
    found = compare(model, "reference", [X])
    assert not found.is_same
    assert (
        found.first is not None
        and found.first.reason == "reference: the process ended by signal 11"
    )
    assert [name for name, verdict in verdicts(found).items() if verdict == "failed"] == ["second"]
    assert [
        name for name, verdict in verdicts(found).items() if verdict in ("same", "rounding")
    ] == ["first", "relu", "soft", "turned", "sum"]


# ---- the command


def files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)


def test_the_command(model: Path, tmp_path: Path, command: Command) -> None:
    files(tmp_path)
    same = command("compare", model, "--against", "reference", "-i", "x.npy")
    assert same.status == 0
    assert re.search(r"the same, (but for rounding|bit for bit)\n$", same.out)
    network(tmp_path / "other.xml", wrong_axis)
    other = command(
        "compare", model, "--against", "other.xml", "--random", "--shape", "x=2,3,6", "--seed", "4"
    )
    assert other.status == 1
    assert re.search(r"soft +SoftMax +f32\[2,3,4\] .*differs: \d+ of 24 values\n", other.out)
    assert other.out.endswith(
        "the first layer that differs is layer 'soft' (SoftMax-8, id 6), output 0: 24 of 24 "
        "values\n"
    )
    assert "6 tensors against other.xml: " in other.out
    every = command("compare", model, "--against", model, "-i", "x.npy", "--all")
    assert len(re.findall(r"(?m)^ *\d+  .*(?:same|rounding)$", every.out)) == 6


def test_json(model: Path, tmp_path: Path, command: Command) -> None:
    files(tmp_path)
    network(tmp_path / "other.xml", wrong_weight)
    answer = command("compare", model, "--against", "other.xml", "-i", "x.npy", "--json")
    assert answer.status == 1
    told = answer.json
    assert told["schema"] == "uncork-compare-1"
    assert told["same"] is False
    assert told["first"]["layer"] == "second"
    assert told["first"]["max_abs"] > 0.01
    assert [layer["verdict"] == "differs" for layer in told["layers"]][:3] == [False, False, True]
    assert told["counts"]["differs"] == 1


def test_extract(model: Path, tmp_path: Path, command: Command) -> None:
    """The layer by itself, with its inputs: it runs here as it did, and the expected values are the
    other side's.
    """
    files(tmp_path)
    network(tmp_path / "other.xml", wrong_axis)
    answer = command(
        "compare", model, "--against", "other.xml", "-i", "x.npy", "--extract", "first"
    )
    assert "saved the layer, its inputs and the other side's results in first\n" in answer.out
    compiled = uncork.load(tmp_path / "first" / "layer.xml")
    assert [str(port) for port in compiled.inputs] == ["second f32[?,?,4]"]
    with (
        np.load(tmp_path / "first" / "inputs.npz") as inputs,
        np.load(tmp_path / "first" / "expected.npz") as expected,
    ):
        given, other = inputs["second"], expected["soft"]
    ours = compiled(given)[0]
    np.testing.assert_allclose(ours.sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(other.sum(1), 1, rtol=1e-6)
    again = command("compare", model, "--against", "other.xml", "-i", "x.npy", "--extract", "first")
    assert again.status == 1 and "first/layer.xml" in again.err and "--overwrite" in again.err
    assert (
        command(
            "compare",
            model,
            "--against",
            "other.xml",
            "-i",
            "x.npy",
            "--extract",
            "first",
            "--overwrite",
        ).err
        == ""
    )
    same = command("compare", model, "--against", model, "-i", "x.npy", "--extract", "second")
    assert same.status == 0 and not (tmp_path / "second").exists()
    (tmp_path / "file").write_text("mine")
    assert (
        command(
            "compare", model, "--against", "other.xml", "-i", "x.npy", "--extract", "file"
        ).message
        == "file: cannot be written: it is no folder"
    )


def test_html(model: Path, tmp_path: Path, command: Command) -> None:
    """One file without links; names in it are text, whatever they hold."""
    files(tmp_path)
    odd = model.read_text().replace('name="soft"', 'name="so&lt;script&gt;ft"')
    model.write_text(odd)
    network(tmp_path / "other.xml", wrong_axis)
    (tmp_path / "other.xml").write_text(
        (tmp_path / "other.xml").read_text().replace('name="soft"', 'name="so&lt;script&gt;ft"')
    )
    assert (
        command(
            "compare", model, "--against", "other.xml", "-i", "x.npy", "--html", "r.html"
        ).status
        == 1
    )
    text = (tmp_path / "r.html").read_text()
    assert "so&lt;script&gt;ft" in text and "<script" not in text
    assert not re.search(r"""(src|href)=|url\(|@import""", text)
    assert text.count("<tr") == text.count("</tr>") == 2 + 6 + 2
    assert text.count("<svg") == 6 + 2
    assert '<tr class="differs">' in text
    assert command(
        "compare", model, "--against", "other.xml", "-i", "x.npy", "--html", "r.html"
    ).message.startswith("r.html: ")
    (tmp_path / "r.html").write_text("mine")
    assert (
        command(
            "compare",
            model,
            "--against",
            "other.xml",
            "-i",
            "x.npy",
            "--html",
            "r.html",
            "--overwrite",
        ).status
        == 1
    )
    assert (tmp_path / "r.html").read_text() == "mine"


def test_saved_values_bring_their_inputs(model: Path, tmp_path: Path, command: Command) -> None:
    np.savez(tmp_path / "saved.npz", x=X, first=(X @ FIRST).astype(np.float32))
    answer = command("compare", model, "--against", "saved.npz", "--json")
    assert answer.status == 0, answer.err
    assert answer.json["counts"]["unmatched"] == 5
    np.save(tmp_path / "one.npy", X)
    assert command("compare", model, "--against", "one.npz").status == 1


@pytest.mark.parametrize(
    "words", [["--against", "tensorflow"], [], ["--against", "openvino", "--backend", "gpu"]]
)
def test_command_lines(model: Path, command: Command, words: list[str]) -> None:
    answer = command("compare", model, *words)
    assert answer.status == 2
    assert json.dumps(answer.out) == '""'
