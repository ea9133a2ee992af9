"""Writing: what was read and written again is the same model; what cannot be written leaves
everything as it was.
"""

from __future__ import annotations

import builtins
import os
import pickle
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import uncork
from tests.ir._files import Net, assert_same, edge, parameter, relu, result, simple
from tests.ir._models import BUILT, COMMITTED, WHOLE
from uncork.ir.model import Model, Port, XmlElement
from uncork.ir.read import read_structure
from uncork.ops.parameter import Const


def _checked_if_possible(path: Path) -> Model:
    """A model that needs operations which are not there yet can still be read and written."""
    model, findings = read_structure(path)
    assert not findings.problems
    return model if findings.missing else uncork.read_model(path)


@pytest.mark.parametrize("path", WHOLE + COMMITTED, ids=lambda p: p.parent.name)
def test_whole_models_survive(tmp_path: Path, path: Path) -> None:
    model = _checked_if_possible(path)
    again = tmp_path / "again.xml"
    uncork.write_model(model, again)
    assert_same(model, _checked_if_possible(again))
    assert again.with_suffix(".bin").stat().st_size <= path.with_suffix(
        ".bin"
    ).stat().st_size * 1.02 + 64 * len(model.nodes)
    # Written twice it is the same to the byte.
    uncork.write_model(_checked_if_possible(again), tmp_path / "third.xml")
    for suffix in (".xml", ".bin"):
        assert (tmp_path / "third").with_suffix(suffix).read_bytes() == again.with_suffix(
            suffix
        ).read_bytes(), suffix


@pytest.mark.parametrize("name", BUILT)
def test_built_models_survive(tmp_path: Path, name: str) -> None:
    model = BUILT[name]()
    uncork.write_model(model, tmp_path / "model.xml")
    assert_same(model, uncork.read_model(tmp_path / "model.xml"))


def test_the_form_is_that_of_the_serializer(tmp_path: Path) -> None:
    """Port ids count from 0, inputs first; edges name them; the numbers of a constant are where its
    bytes lie.
    """
    uncork.write_model(BUILT["bags"](), tmp_path / "model.xml")
    text = (tmp_path / "model.xml").read_text("utf-8")
    assert text == (Path(__file__).parent / "bags.xml").read_text("utf-8")


def test_equal_constants_are_written_once(tmp_path: Path) -> None:
    builder = uncork.Builder()
    table = np.arange(5000, dtype=np.float32)
    constants = [
        builder.constant(v)
        for v in (
            table,
            table,
            np.int64(3),
            np.int64(3),
            np.array([3]),
            np.array([3, 0], np.int32),
            table[1:],
        )
    ]
    for c in constants:
        builder.result(c)
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    model = uncork.read_model(tmp_path / "model.xml")
    ranges = [
        (int(n.attributes["offset"]), int(n.attributes["size"]))
        for n in model.nodes
        if n.type_name == "Const"
    ]
    assert ranges == [(0, 20000)] * 2 + [(20000, 8)] * 4 + [(20032, 19996)]
    assert (tmp_path / "model.bin").stat().st_size == 20032 + 19996


def test_an_array_in_any_layout(tmp_path: Path) -> None:
    builder = uncork.Builder()
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    for value in (
        values.T,
        values[::-1, ::2],
        np.broadcast_to(values[:1], (1000, 4)),
        values.astype(">f4"),
    ):
        builder.result(builder.constant(value))
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    out = uncork.load(tmp_path / "model.xml")()
    np.testing.assert_array_equal(out[0], values.T)
    np.testing.assert_array_equal(out[1], values[::-1, ::2])
    np.testing.assert_array_equal(out[2], np.broadcast_to(values[:1], (1000, 4)))
    np.testing.assert_array_equal(out[3], values)


@pytest.mark.parametrize(
    "name",
    ["a,b", "a\\", "\\,", "<&>\"'", " x ", "日本\U0001f600", "a\nb\tc\rd", "e\\,f", "x" * 100_000],
)
def test_any_name(tmp_path: Path, name: str) -> None:
    builder = uncork.Builder(name)
    x = builder.parameter(name, "f32", [2])
    (out,) = builder.add("ReLU", 1, x, name=f"{name}/relu", tensor_names=[f"{name}1", f"{name}2"])
    builder.result(out)
    builder.info("what", name)
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    model = uncork.read_model(tmp_path / "model.xml")
    assert_same(builder.model(), model)
    assert model.name == name
    assert uncork.compile_model(model)({name: np.array([-1, 1], np.float32)})[
        f"{name}2"
    ].tolist() == [0, 1]


def test_many_names_and_huge_attributes(tmp_path: Path) -> None:
    names = tuple(f"name {i}" for i in range(20_000))
    builder = uncork.Builder()
    (out,) = builder.add("ReLU", 1, builder.parameter("x", "f32", [2]), tensor_names=names)
    builder.result(out)
    node = replace(builder.model().nodes[1], layer_attributes=(("big", "v" * 2_000_000),))
    model = replace(
        builder.model(), nodes=(builder.model().nodes[0], node, builder.model().nodes[2])
    )
    uncork.write_model(model, tmp_path / "model.xml")
    again = uncork.read_model(tmp_path / "model.xml")
    assert_same(model, again)
    assert again.names_of_output(0)[:20_000] == names


def test_a_name_that_xml_cannot_hold(tmp_path: Path) -> None:
    for name in ("a\0b", "\x1b[31m", "\ud800", "\ufffe"):
        builder = uncork.Builder()
        builder.result(builder.parameter(name, "f32", []))
        with pytest.raises(uncork.ValidationError, match="has a character that XML cannot hold"):
            uncork.write_model(builder.model(), tmp_path / "model.xml")
    assert list(tmp_path.iterdir()) == []


def test_two_names_that_cannot_be_told_apart(tmp_path: Path) -> None:
    model = uncork.read_model(simple().save(tmp_path))
    port = model.nodes[0].outputs[0]
    node = replace(model.nodes[0], outputs=(Port(port.spec, ("a\\", "b\\")),))
    with pytest.raises(uncork.ValidationError, match="ends in a backslash"):
        uncork.write_model(replace(model, nodes=(node, *model.nodes[1:])), tmp_path / "new.xml")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.xml"]


def test_writing_over_the_file_that_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    table = np.arange(300_000, dtype=np.float32).reshape(-1, 3)
    builder = uncork.Builder()
    builder.result(builder.constant(np.int64(1)))
    builder.result(builder.constant(table))
    uncork.write_model(builder.model(), path)
    model = uncork.read_model(path)
    before = path.with_suffix(".bin").read_bytes()
    compiled = uncork.compile_model(model)
    # Reversed results: the table comes first in the new file, at another offset.
    nodes = tuple(sorted(model.nodes, key=lambda n: (n.type_name == "Result", -n.id)))
    turned = replace(model, nodes=nodes, results=model.results[::-1])
    uncork.write_model(turned, path)
    assert path.with_suffix(".bin").read_bytes() != before
    np.testing.assert_array_equal(compiled()[1], table)
    np.testing.assert_array_equal(uncork.load(path)()[0], table)
    # And once more from the model whose file is gone by now.
    uncork.write_model(model, path)
    np.testing.assert_array_equal(uncork.load(path)()[1], table)


# ---- failing


def _old(folder: Path) -> dict[str, bytes]:
    """Two good files, and what they hold."""
    (folder / "model.xml").write_bytes(b"old xml")
    (folder / "model.bin").write_bytes(b"old bin")
    return _contents(folder)


def _contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def _failure(model: Model, path: Path) -> str:
    """What writing fails with; empty when it does not."""
    try:
        uncork.write_model(model, path)
    except uncork.UncorkError as error:
        return str(error)
    return ""


class _Full:
    """A file on a disk that gets full after some writes."""

    def __init__(self, file: Any, left: int) -> None:
        self.file, self.left = file, left

    def write(self, data: Any) -> int:
        if self.left <= 0:
            raise OSError(28, "No space left on device")
        self.left -= 1
        return int(self.file.write(data))

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@pytest.mark.parametrize("left", range(4))
@pytest.mark.parametrize("which", [".bin", ".xml"])
def test_a_full_disk_leaves_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int, which: str
) -> None:
    old = _old(tmp_path)
    model = BUILT["lookup"]()
    real = open

    def failing(file: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        opened = real(file, mode, *rest, **more)
        return _Full(opened, left) if "x" in mode and which in str(file) else opened

    monkeypatch.setattr(builtins, "open", failing)
    error = _failure(model, tmp_path / "model.xml")
    monkeypatch.undo()
    assert error or left > 0
    if error:
        assert error == f"{tmp_path / 'model.xml'}: cannot be written: No space left on device"
        assert _contents(tmp_path) == old
    else:
        assert_same(model, uncork.read_model(tmp_path / "model.xml"))


@pytest.mark.parametrize("call", ["replace", "chmod"])
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("exist", [True, False])
def test_any_failing_step_leaves_the_old_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    links: bool,
    exist: bool,
) -> None:
    old = _old(tmp_path) if exist else {}
    model = BUILT["bags"]()
    real = getattr(os, call)
    count = 0

    def failing(*arguments: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        if count == number + 1:
            raise OSError(5, "Input/output error")
        return real(*arguments, **more)

    def no_link(*_: Any, **__: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, call, failing)
    if not links:
        monkeypatch.setattr(os, "link", no_link)
    error = _failure(model, tmp_path / "model.xml")
    monkeypatch.undo()
    if error:
        assert "cannot be written: Input/output error" in error
        assert _contents(tmp_path) == old
    else:
        assert sorted(p.name for p in tmp_path.iterdir()) == ["model.bin", "model.xml"]
        assert_same(model, uncork.read_model(tmp_path / "model.xml"))


LIMITED = """
import resource, sys
import numpy as np
import uncork
builder = uncork.Builder()
builder.result(builder.constant(np.ones(100_000, np.float32)))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    uncork.write_model(builder.model(), sys.argv[1])
except uncork.UncorkError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of the system")
def test_a_real_limit_of_the_system(tmp_path: Path) -> None:
    old = _old(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "model.xml")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == (
        f"{tmp_path / 'model.xml'}: cannot be written: File too large\n",
        "",
    )
    assert _contents(tmp_path) == old


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    model = BUILT["bags"]()
    with pytest.raises(
        uncork.UncorkError, match=r"model.xml: cannot be written: No such file or directory"
    ):
        uncork.write_model(model, tmp_path / "no" / "model.xml")
    with pytest.raises(uncork.UncorkError, match=r"'.bin' is where the weights go"):
        uncork.write_model(model, tmp_path / "model.bin")
    for taken in ("one.xml", "two.bin"):
        (tmp_path / taken).mkdir()
        with pytest.raises(uncork.UncorkError, match="cannot be written: Is a directory"):
            uncork.write_model(model, (tmp_path / taken).with_suffix(".xml"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.xml", "two.bin"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_modes_of_files(tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    mask = os.umask(0o027)
    try:
        uncork.write_model(BUILT["bags"](), path)
    finally:
        os.umask(mask)
    assert [stat.S_IMODE(p.stat().st_mode) for p in (path, path.with_suffix(".bin"))] == [0o640] * 2
    path.chmod(0o600)
    uncork.write_model(BUILT["bags"](), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, (
        "who could not read the old file cannot read the new one"
    )


def test_a_long_file_name(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 240 + ".xml")
    uncork.write_model(BUILT["bags"](), path)
    assert_same(BUILT["bags"](), uncork.read_model(path))


def test_many_writers_of_one_file(tmp_path: Path) -> None:
    """Whoever comes last wins, and no scratch file of one is another's."""
    path = tmp_path / "model.xml"
    model = BUILT["bags"]()
    threads = [threading.Thread(target=uncork.write_model, args=(model, path)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.bin", "model.xml"]
    assert_same(model, uncork.read_model(path))


def test_runtime_information_with_text_and_children(tmp_path: Path) -> None:
    model = uncork.read_model(simple().save(tmp_path))
    info = XmlElement(
        "rt_info", (), "", (XmlElement("a", (("k", "v"),), "some text <&>", (XmlElement("b"),)),)
    )
    model = replace(model, extras=(info,))
    uncork.write_model(model, tmp_path / "again.xml")
    assert uncork.read_model(tmp_path / "again.xml").extras == (info,)


def test_version_10_stays_version_10(tmp_path: Path) -> None:
    net = Net(
        [parameter(0, name="in"), relu(1, name="rl"), result(2)],
        [edge("0:0", "1:0"), edge("1:1", "2:0")],
        version=10,
    )
    model = uncork.read_model(net.save(tmp_path))
    uncork.write_model(model, tmp_path / "again.xml")
    assert_same(model, uncork.read_model(tmp_path / "again.xml"))


def test_errors_cross_processes(tmp_path: Path) -> None:
    with pytest.raises(uncork.UncorkError) as caught:
        uncork.read_model(tmp_path / "none.xml")
    error = caught.value
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.problems) == (type(error), str(error), error.problems)


def test_constants_of_a_written_model_start_where_processors_like_it(tmp_path: Path) -> None:
    model = BUILT["low_bits"]()
    uncork.write_model(model, tmp_path / "model.xml")
    for node in uncork.read_model(tmp_path / "model.xml").nodes:
        if isinstance(node.operation, Const) and node.operation.value.dtype != object:
            assert node.operation.value.flags.aligned
    maker: Callable[[], Model] = BUILT["sequence"]
    uncork.write_model(maker(), tmp_path / "model.xml")
    offsets = [
        int(n.attributes["offset"])
        for n in uncork.read_model(tmp_path / "model.xml").nodes
        if n.type_name == "Const"
    ]
    assert all(o % 64 == 0 for o in offsets)
