"""Every model that can be called has a profile: the tool that looks, and models with bodies."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from tools import profiles

import uncork
from tests.ir.test_taken_branches import add_if, arange, branch, compared, relu, squeezed
from uncork.compiler.compiled_model import CompiledModel
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.ops._body import BodyMap, JoinedOutput, SlicedInput, Slicing

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/model.xml"))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uncork.compiler.measured_steps._SECONDS", 0.0)


def model_of_data() -> uncork.Model:
    """An If of data around an If of sizes, beside a loop over an If of sizes."""
    b = uncork.Builder("bodies")
    x, c = b.parameter("x", "f32", [None, None]), b.parameter("c", "boolean", [])

    def inner(b: uncork.Builder, given: list[Source]) -> list[Source]:
        one = compared(b, "Equal", given[0], 1, 1)
        return add_if(b, one, given, branch(squeezed), branch(relu))

    b.result(add_if(b, c, [x], branch(inner), branch(relu))[0], "y")
    body = uncork.Builder("body")
    part = body.parameter("part", "f32", [1, None])
    one = compared(body, "Equal", part, 1, 1)
    turned = branch(lambda b, g: b.add("Negative", 1, g[0]))
    body.result(add_if(body, one, [part], turned, branch(relu))[0], "y")
    joined = BodyMap(
        GraphBody(body.model()),
        (SlicedInput(0, 0, Slicing(0)),),
        (JoinedOutput(0, 0, Slicing(0)),),
    )
    b.result(b.add_with_bodies("TensorIterator", 1, x, bodies={"body": joined})[0], "z")
    return b.model()


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("condition", [True, False])
def test_layers_with_bodies_have_profiles(columns: int, condition: bool) -> None:
    compiled = uncork.compile_model(model_of_data())
    given = arange(4, columns), np.array(condition)
    expected = given[0][:, 0] if columns == 1 and condition else np.maximum(given[0], 0)
    np.testing.assert_array_equal(compiled(*given)["y"], expected)
    kinds = {step.operation for step in compiled.profile(*given).steps}
    assert {"If-8", "TensorIterator-1"} <= kinds
    np.testing.assert_array_equal(compiled(*given)["y"], expected)  # and calls go on


def test_a_taken_branch_has_a_profile_of_its_layers() -> None:
    b = uncork.Builder()
    x = b.parameter("x", "f32", [None, None])
    one = compared(b, "Equal", x, 1, 1)
    b.result(add_if(b, one, [x], branch(squeezed), branch(relu))[0], "y")
    compiled = uncork.compile_model(b.model())
    for columns, layer in ((1, "<then_body> Squeeze"), (3, "<else_body> ReLU")):
        (step,) = compiled.profile(arange(4, columns)).steps
        assert layer in step.layer


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_examples_have_profiles(path: Path) -> None:
    compiled = uncork.load(path)
    shapes = [[dim.low or 2 for dim in port.shape] for port in compiled.inputs]
    given = [
        np.zeros(s, port.element_type.dtype)
        for s, port in zip(shapes, compiled.inputs, strict=True)
    ]
    assert compiled.profile(*given).steps


def test_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "bodies"
    folder.mkdir()
    uncork.write_model(model_of_data(), folder / "model.xml")
    given = [arange(4, 1), np.array(True)]
    np.savez(folder / "inputs.npz", **{f"run0/{n}": array for n, array in enumerate(given)})
    np.savez(tmp_path / "case.npz", **{f"in_{n}": array for n, array in enumerate(given)})
    with zipfile.ZipFile(tmp_path / "corpus.zip", "w") as archive:
        for case in ("first", "second"):  # of the same types: one of them is taken
            archive.write(folder / "model.xml", f"{case}/model.xml")
            archive.write(folder / "model.bin", f"{case}/model.bin")
            archive.write(tmp_path / "case.npz", f"{case}/case.npz")
    words = [str(folder), str(tmp_path / "corpus.zip")]
    assert profiles.main(words) == 0
    assert capsys.readouterr().out == "2 models profiled, 0 could not be\n"

    def broken(self: CompiledModel, *inputs: object) -> object:
        raise AssertionError("no")

    monkeypatch.setattr(CompiledModel, "profile", broken)
    assert profiles.main(words) == 1
    printed = capsys.readouterr().out
    assert "corpus.zip first:" in printed and "AssertionError: no" in printed
    assert printed.endswith("2 models profiled, 2 could not be\n")
