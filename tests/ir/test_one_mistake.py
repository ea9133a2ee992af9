"""One mistake in a file is one problem: what follows from it elsewhere is not reported, and other
mistakes still are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.ir._files import Net, edge, layer, parameter, port, result
from uncork.ir.model import Source


def network() -> uncork.Model:
    """Looked-up rows, two layers of products with a residual around them, a mask, a result:
    everything has readers.
    """
    builder = uncork.Builder("network")
    rng = np.random.default_rng(0)

    def constant(*shape: int) -> Source:
        return builder.constant(rng.standard_normal(shape).astype(np.float32))

    ids, mask = (
        builder.parameter("ids", "i64", [None, 7]),
        builder.parameter("mask", "boolean", [None, 7, 1]),
    )
    (x,) = builder.add(
        "Gather", 8, constant(11, 4), ids, builder.constant(np.array(0)), batch_dims=0
    )
    for width in (6, 5):
        (y,) = builder.add("MatMul", 1, x, constant(4, width), transpose_a=False, transpose_b=False)
        (y,) = builder.add("ReLU", 1, y)
        (y,) = builder.add("MatMul", 1, y, constant(width, 4), transpose_a=False, transpose_b=False)
        (x,) = builder.add("Add", 1, x, y)
    (x,) = builder.add("Select", 1, mask, x, builder.constant(np.float32(0)))
    builder.result(x, "x")
    return builder.model()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "model.xml"
    uncork.write_model(network(), path)
    return path


def problems(path: Path) -> list[str]:
    with pytest.raises(uncork.UncorkError) as caught:
        uncork.load(path)
    return [str(p) for p in caught.value.problems]


def each(pattern: str, new: Callable[[re.Match[str]], str]) -> Callable[[str], list[str]]:
    """The text with each place that matches changed alone."""
    return lambda text: [
        text[: m.start(1)] + new(m) + text[m.end(1) :] for m in re.finditer(pattern, text)
    ]


MISTAKES = {
    "a dimension": each(r"<dim>(\d+)</dim>", lambda m: str(int(m[1]) + 1)),
    "a dimension of text": each(r"<dim>(\d+)</dim>", lambda _: "x"),
    "a precision": each(r'precision="(\w+)"', lambda m: "I32" if m[1] == "FP32" else "FP32"),
    "no precision": each(r'precision="(\w+)"', lambda _: "F99"),
    "a type that is not there": each(r'type="(\w+)" version', lambda _: "Frobnicate"),
    "an id of text": each(r'<layer id="(\d+)"', lambda _: "x"),
    "the shape of a constant": each(
        r'shape="(\d+,\d+)" offset', lambda m: ",".join(reversed(m[1].split(",")))
    ),
    "one dimension more": each(r'shape="(\d+,\d+)" offset', lambda m: m[1] + ",1"),
    "the type of a constant": each(
        r'element_type="(\w+)" shape="[^"]+" offset', lambda m: "f16" if m[1] != "f16" else "i8"
    ),
    "the type of an input": each(
        r'element_type="(\w+)" shape="[^"]*" */?>', lambda m: "f32" if m[1] != "f32" else "i64"
    ),
    "an edge from nowhere": each(r'from-layer="(\d+)"', lambda _: "999"),
    "an edge to no port": each(r'to-port="(\d+)"', lambda _: "77"),
    "an edge of text": each(r'to-layer="(\d+)"', lambda _: "two"),
    "a missing edge": each(r"(<edge [^>]*>)", lambda _: ""),
    "a missing layer": each(
        r'(<layer [^>]*type="(?!Result|Parameter)[\s\S]*?</layer>)', lambda _: ""
    ),
    "a port id of text": each(r'<port id="(\d+)"', lambda _: "x"),
    "an offset": each(r'offset="(\d+)"', lambda _: "999999"),
    "a size": each(r'offset="\d+" size="(\d+)"', lambda _: "1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_mistake_is_one_problem(mistake: str, saved: Path, tmp_path: Path) -> None:
    text = saved.read_text(encoding="utf-8")
    path = tmp_path / "model.xml"
    path.with_suffix(".bin").write_bytes(saved.with_suffix(".bin").read_bytes())
    changed = MISTAKES[mistake](text)
    assert changed, "nothing was changed"
    counts: list[int] = []
    for other in changed:
        path.write_text(other, encoding="utf-8")
        counts.append(_count(path))
        assert counts[-1] < 2, problems(path)
    assert sum(counts) >= len(changed) / 2, "most of these are mistakes"


def _count(path: Path) -> int:
    try:
        uncork.load(path)
    except uncork.UncorkError as error:
        return len(error.problems)
    return 0


def test_two_mistakes_are_two_problems(saved: Path, tmp_path: Path) -> None:
    """The one before does not hide the one behind it, when that is wrong whatever comes in."""
    path = tmp_path / "model.xml"
    path.with_suffix(".bin").write_bytes(saved.with_suffix(".bin").read_bytes())
    text = saved.read_text(encoding="utf-8")
    changed = text.replace('shape="11,4"', 'shape="4,11"', 1).replace(
        'shape="6,4"', 'shape="4,6"', 1
    )
    path.write_text(changed, encoding="utf-8")
    assert len(problems(path)) == 2
    path.write_text(changed.replace('type="Select"', 'type="Selekt"', 1), encoding="utf-8")
    assert len(problems(path)) == 3


def test_readers_that_agree_are_one_mistake_and_others_are_not(tmp_path: Path) -> None:
    """Both inputs of two layers read [2] as [3]; one more reads it as [4]."""
    layers = [parameter(0)]
    for number, size in ((1, 3), (2, 3), (3, 4)):
        layers += [
            layer(
                number,
                "Add",
                [port(0, [size]), port(1, [size])],
                [port(2, [size])],
                auto_broadcast="numpy",
            ),
            result(number + 3, [size]),
        ]
    edges = [edge("0:0", f"{n}:{p}") for n in (1, 2, 3) for p in (0, 1)] + [
        edge(f"{n}:2", f"{n + 3}:0") for n in (1, 2, 3)
    ]
    found = problems(Net(layers, edges).save(tmp_path))
    assert [re.sub(r".*input (\d): the file says (\S+) here.*", r"\1 \2", p) for p in found] == [
        "0 f32[3]",
        "0 f32[4]",
    ]


# ---- weights


def test_missing_weights_are_one_problem(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    path.write_bytes(saved.read_bytes())
    size = saved.with_suffix(".bin").stat().st_size
    (problem,) = problems(path)
    assert problem == (
        f"the weights file '{path.with_suffix('.bin')}' cannot be read: No such file or "
        "directory. The model's 7 constants lie in it and "
        f"need {size:,} bytes: put the file that was saved with the model there, or name another "
        "(weights=, on the command line --weights)"
    )


def test_weights_that_were_cut_are_one_problem(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    path.write_bytes(saved.read_bytes())
    data = saved.with_suffix(".bin").read_bytes()
    path.with_suffix(".bin").write_bytes(data[:100])
    (problem,) = problems(path)
    assert problem.startswith(
        f"the weights file '{path.with_suffix('.bin')}' has 100 bytes, and the model needs "
        f"{len(data):,}: "
    )
    assert re.search(
        r": [67] of its 7 constants lie past the end\. Either the file was cut short, .* or it "
        r"belongs to another model: ",
        problem,
    )
    path.with_suffix(".bin").write_bytes(data[:-1])
    (problem,) = problems(path)
    assert re.match(
        rf"layer '.*: expected bytes \d+ to {len(data)} in 'model.bin', which has "
        rf"{len(data) - 1} bytes\. If the offset",
        problem,
    )


def test_longer_weights_are_warned_of(saved: Path, tmp_path: Path) -> None:
    """OpenVINO takes them without a word, and so does this: nothing says that they are not this
    model's.
    """
    path = tmp_path / "model.xml"
    path.write_bytes(saved.read_bytes())
    data = saved.with_suffix(".bin").read_bytes()
    path.with_suffix(".bin").write_bytes(data + bytes(64))
    uncork.load(path)
    path.with_suffix(".bin").write_bytes(data + bytes(65))
    with pytest.warns(
        UserWarning,
        match=f"has {len(data) + 65:,} bytes, and the model's 7 constants lie in the first "
        f"{len(data):,}: is it",
    ):
        uncork.load(path)


def test_the_repr_of_a_model_is_one_line(saved: Path) -> None:
    model = uncork.read_model(saved)
    assert (
        repr(model) == "<Model 'network': ids i64[?,7], mask boolean[?,7,1] -> x f32[?,7,4]; "
        f"{len(model.nodes)} layers>"
    )
    builder = uncork.Builder("many")
    for number in range(6):
        builder.result(builder.parameter(f"p{number}", "f32", []), f"r{number}")
    text = repr(builder.model())
    assert (
        text
        == "<Model 'many': p0 f32[], p1 f32[], p2 f32[], p3 f32[], ... -> p0 f32[], p1 f32[], p2 "
        "f32[], p3 f32[], ...; 12 layers>"
    )
    assert (
        repr(uncork.Builder("none").model()) == "<Model 'none': no inputs -> no outputs; 0 layers>"
    )
