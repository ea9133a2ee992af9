"""`load(tables=...)` and `--table`: constants whose values come from .npy and .safetensors
files.
"""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import uncork
from uncork import Builder, InputError
from uncork.cli import main
from uncork.compiler.tables import read_table

SHAPE = (5000, 8)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """`users` f32 read by 'pick', `items` bf16 by way of a Convert by 'bags'; both zeros in the
    file; and some small constants.
    """
    builder = Builder("tables")
    ids = builder.parameter("ids", "i64", [None])
    users = builder.constant(np.zeros(SHAPE, np.float32), name="users")
    items = builder.constant(np.zeros(SHAPE, np.uint16), "bf16", name="items")
    (wide,) = builder.add("Convert", 1, items, destination_type="f32")
    builder.result(
        builder.add(
            "Gather", 8, users, ids, builder.constant(np.int64(0), name="axis"), name="pick"
        )[0],
        "rows",
    )
    builder.result(
        builder.add(
            "EmbeddingBagOffsetsSum", 3, wide, ids, builder.constant(np.array([0])), name="bags"
        )[0],
        "sums",
    )
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    return tmp_path / "model.xml"


@pytest.fixture
def table(tmp_path: Path) -> np.ndarray:
    values = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
    np.save(tmp_path / "users.npy", values)
    return values


def safetensors(
    path: Path,
    tensors: dict[str, tuple[str, np.ndarray]],
    edit: Callable[[dict], object] = lambda header: None,
) -> Path:
    """A file as the format's page describes it: length of the header, header, tensors."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, (dtype, array) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + array.nbytes],
        }
        data += array.tobytes()
    edit(header)
    text = json.dumps(header).encode()
    text += b" " * (
        -len(text) % 8
    )  # as the package pads it: NumPy copies a table that is not aligned
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.mark.parametrize("name", ["users", "pick"])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_npy_by_constant_and_by_layer(
    name: str, backend: str, model: Path, table: np.ndarray
) -> None:
    compiled = uncork.load(model, tables={name: model.with_name("users.npy")}, backend=backend)
    np.testing.assert_array_equal(compiled([4, 4999])["rows"], table[[4, 4999]])
    np.testing.assert_array_equal(uncork.load(model)([4])["rows"], np.zeros((1, 8)))


def test_array_and_model_in_memory(model: Path, table: np.ndarray) -> None:
    compiled = uncork.compile_model(uncork.read_model(model), tables={"users": table})
    np.testing.assert_array_equal(compiled([7])["rows"], table[[7]])


@pytest.mark.parametrize("way", ["safetensors", "npy of ml_dtypes"])
def test_bf16(way: str, model: Path, table: np.ndarray) -> None:
    bits = (table.view(np.uint32) >> 16).astype(np.uint16)
    if way == "safetensors":
        path = safetensors(
            model.with_name("x.safetensors"),
            {"a": ("U8", np.zeros(3, np.uint8)), "items.weight": ("BF16", bits)},
        )
        text = f"{path}:items.weight"
    else:
        np.save(model.with_name("items.npy"), bits.view("V2"))
        text = str(model.with_name("items.npy"))
    kept = (bits.astype(np.uint32) << 16).view(np.float32)
    for name in ("items", "bags"):  # the layer's table is behind a Convert
        np.testing.assert_array_equal(
            uncork.load(model, tables={name: text})([3])["sums"], kept[[3]]
        )


def test_safetensors_of_one_tensor_needs_no_key(model: Path, table: np.ndarray) -> None:
    path = safetensors(model.with_name("one.safetensors"), {"weight": ("F32", table)})
    np.testing.assert_array_equal(
        uncork.load(model, tables={"users": path})([3])["rows"], table[[3]]
    )


def test_a_file_by_the_safetensors_package(model: Path, table: np.ndarray) -> None:
    package = pytest.importorskip("safetensors.numpy")
    package.save_file({"users": table, "other": table[:3]}, model.with_name("theirs.safetensors"))
    compiled = uncork.load(
        model, tables={"users": f"{model.with_name('theirs.safetensors')}:users"}
    )
    np.testing.assert_array_equal(compiled([3])["rows"], table[[3]])


@pytest.mark.parametrize("suffix", ["npy", "safetensors"])
def test_files_are_mapped(suffix: str, tmp_path: Path) -> None:
    builder = Builder("large")
    large = np.ones((200_000, 32), np.float32)
    users, ids = builder.constant(large, name="users"), builder.parameter("ids", "i64", [None])
    builder.result(builder.add("Gather", 8, users, ids, builder.constant(np.int64(0)))[0], "rows")
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    path = tmp_path / f"users.{suffix}"
    if suffix == "npy":
        np.save(path, large * 2)
    else:
        safetensors(path, {"users": ("F32", large * 2)})
    uncork.load(tmp_path / "model.xml", tables={"users": path})([5])
    tracemalloc.start()
    rows = uncork.load(tmp_path / "model.xml", tables={"users": path})([5])["rows"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (rows == 2).all() and peak < large.nbytes / 20, f"{peak:,} bytes were allocated"


def test_small_constants_are_computed_anew(tmp_path: Path) -> None:
    """What was computed from the old values while the model was read must not stay."""
    builder = Builder("small")
    (doubled,) = builder.add(
        "Multiply",
        1,
        builder.constant(np.ones((4, 2), np.float32), name="t"),
        builder.constant(np.float32(2)),
    )
    (rows,) = builder.add(
        "Gather",
        8,
        doubled,
        builder.parameter("ids", "i64", [1]),
        builder.constant(np.int64(0)),
        name="pick",
    )
    builder.result(rows)
    for name in ("t", "pick"):
        compiled = uncork.compile_model(
            builder.model(), tables={name: np.arange(8, dtype=np.float32).reshape(4, 2)}
        )
        np.testing.assert_array_equal(compiled([3])[0], [[12, 14]])


def test_every_problem_is_listed(model: Path, table: np.ndarray) -> None:
    with pytest.raises(InputError) as caught:
        uncork.load(
            model,
            tables={
                "user": "users.npy",
                "users": table.astype(np.float64),
                "items": model.with_name("none.npy"),
            },
        )
    message = str(caught.value)
    assert (
        "no constant or layer is called 'user'; did you mean 'users'?; tables: 'items' "
        "bf16[5000,8], 'users' f32[5000,8]" in message
    )
    assert (
        "layer 'users' (Const-1, id 1): expected f32[5000,8], the array has f64[5000,8]" in message
    )
    assert "none.npy: cannot be read: No such file or directory" in message


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        (
            "users",
            np.zeros((8, 5000), np.float32),
            r"expected f32\[5000,8\], '.*x.npy' has f32\[8,5000\]",
        ),
        (
            "users",
            np.zeros(SHAPE, np.float16),
            r"expected f32\[5000,8\], '.*x.npy' has f16\[5000,8\]",
        ),
        ("users", np.zeros(SHAPE, ">f4"), r"expected f32\[5000,8\], '.*x.npy' has >f4\[5000,8\]"),
        (
            "users",
            np.zeros(SHAPE, np.float32, "F"),
            "is not in C order, in which rows lie one after the other: save np.ascontiguousarray",
        ),
        (
            "items",
            np.zeros(SHAPE, np.uint16),
            r"expected bf16\[5000,8\], '.*x.npy' has u16\[5000,8\]",
        ),
        (
            "ids",
            np.zeros(SHAPE, np.float32),
            r"layer 'ids' \(Parameter-1, id 0\): expected the name of a constant or of a layer "
            r"that looks up",
        ),
        ("users", np.array([None]), "cannot be mapped as an array of numbers"),
    ],
)
def test_arrays_that_do_not_fit(name: str, array: np.ndarray, message: str, model: Path) -> None:
    np.save(model.with_name("x.npy"), array, allow_pickle=True)
    with pytest.raises(InputError, match=message):
        uncork.load(model, tables={name: model.with_name("x.npy")})


def test_names_that_do_not_tell(model: Path, table: np.ndarray) -> None:
    with pytest.raises(
        InputError, match="constant 'users': is given twice: by 'users' and by 'pick'"
    ):
        uncork.load(model, tables={"users": table, "pick": table})
    builder = Builder("twins")
    ids = builder.parameter("ids", "i64", [1])
    for number in range(2):
        twin = builder.constant(np.full((4, 2), number, np.float32), name="same")
        builder.result(
            builder.add(
                "Gather", 8, twin, ids, builder.constant(np.int64(0)), name=f"pick{number}"
            )[0]
        )
    with pytest.raises(
        InputError,
        match="2 constants have this name: give the name of the layer that looks rows up",
    ):
        uncork.compile_model(builder.model(), tables={"same": table})
    compiled = uncork.compile_model(
        builder.model(), tables={"pick1": np.full((4, 2), 7, np.float32)}
    )
    assert [float(r[0, 0]) for r in compiled([0])] == [0, 7]


def test_four_bits_and_text_come_from_no_file() -> None:
    builder = Builder("packed")
    codes = builder.constant(np.zeros((2000, 8), np.uint8), "u4", name="codes")
    (wide,) = builder.add("Convert", 1, codes, destination_type="f32")
    builder.result(
        builder.add(
            "Gather", 8, wide, builder.parameter("ids", "i64", [1]), builder.constant(np.int64(0))
        )[0]
    )
    with pytest.raises(
        InputError,
        match=r"layer 'codes' .*: is of u4, whose values no such file holds as the model does",
    ):
        uncork.compile_model(builder.model(), tables={"codes": np.zeros((2000, 8), np.uint8)})


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda h: h["users"].update(data_offsets=[0, 160_001]),
            "has a header that does not fit it: bytes 0 to 160001",
        ),
        (
            lambda h: h["users"].update(data_offsets=[160_000, 320_000]),
            "has a header that does not fit it",
        ),
        (
            lambda h: h["users"].update(data_offsets=[-8, 159_992]),
            "has a header with sizes that are none",
        ),
        (lambda h: h["users"].update(shape=[5000, 8.0]), "has a header with sizes that are none"),
        (lambda h: h["users"].update(shape=[2**62, 8]), "has a header that does not fit it"),
        (
            lambda h: h["users"].update(dtype="F4"),
            "is of type F4, which no constant has; known: F64, F32",
        ),
        (lambda h: h["users"].pop("shape"), "has a header without dtype, shape or data_offsets"),
        (lambda h: h.update(users=3), "has a header without dtype, shape or data_offsets"),
        (
            lambda h: h.update(user=h.pop("users")),
            "has no tensor 'users'; did you mean 'user'?; tensors: user",
        ),
    ],
)
def test_broken_safetensors(
    edit: Callable[[dict], object], message: str, model: Path, table: np.ndarray
) -> None:
    path = safetensors(model.with_name("broken.safetensors"), {"users": ("F32", table)}, edit)
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        uncork.load(model, tables={"users": f"{path}:users"})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02",
        struct.pack("<Q", 2**40) + b"{}",
        struct.pack("<Q", 3) + b"{]}",
        struct.pack("<Q", 2) + b"[]",
    ],
)
def test_what_is_no_safetensors_file(data: bytes, model: Path) -> None:
    model.with_name("x.safetensors").write_bytes(data)
    with pytest.raises(InputError, match=r"x.safetensors: is no .safetensors file"):
        uncork.load(model, tables={"users": model.with_name("x.safetensors")})


def test_which_tensor(model: Path, table: np.ndarray) -> None:
    path = safetensors(
        model.with_name("two.safetensors"), {"a": ("F32", table), "b": ("F32", table)}
    )
    with pytest.raises(InputError, match=r"which of its 2 tensors\? Add ':key'; tensors: a, b"):
        uncork.load(model, tables={"users": path})


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00"])
def test_what_is_no_npy_file(data: bytes, model: Path) -> None:
    model.with_name("x.npy").write_bytes(data)
    with pytest.raises(
        InputError,
        match=r"x.npy: (expected a .npy file, or a .safetensors file|cannot be mapped as an array)",
    ):
        uncork.load(model, tables={"users": model.with_name("x.npy")})


def test_a_npy_file_cut_short(model: Path, table: np.ndarray) -> None:
    path = model.with_name("users.npy")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"users.npy: cannot be mapped as an array of numbers"):
        uncork.load(model, tables={"users": path})


def header(text: str) -> bytes:
    """A .npy file with any text where the array is described."""
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode() + bytes(64)


@pytest.mark.parametrize(
    "text",
    [
        "{'descr':'<f4','fortran_order':False,'shape':(%s,)}" % ("9" * 30),
        "{'descr':'<f4','fortran_order':False,'shape':(True,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(-1,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(2**62, 0)}",
        "{'descr':'<f4','fortran_order':False,'shape':(%s)}" % ("1," * 200),
        "{'descr':[1,2],'fortran_order':False,'shape':(1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), L",
        "-" * 9000 + "1",
        "(" * 9000,
        "\\N{",
    ],
)
def test_npy_headers_of_any_text(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(header(text))
    with pytest.raises(InputError, match=r"x.npy: cannot be mapped as an array of numbers: ."):
        read_table(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"shape": [2**62, 0], "data_offsets": [0, 0]}, "has a shape that no array can have"),
        ({"shape": [1] * 100, "data_offsets": [0, 4]}, "has a shape that no array can have"),
        ({"shape": [1], "dtype": [1]}, r"is of type \[1\], which no constant has"),
        ({"shape": [1], "dtype": {"F32": 1}}, "is of type .*, which no constant has"),
        ({"shape": [1], "dtype": None}, "is of type None, which no constant has"),
    ],
)
def test_safetensors_that_no_array_can_be(entry: dict, message: str, tmp_path: Path) -> None:
    text = json.dumps({"a": {"dtype": "F32", "data_offsets": [0, 4], **entry}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(64))
    with pytest.raises(InputError, match=f"x.safetensors:a: {message}"):
        read_table(tmp_path / "x.safetensors")


@pytest.mark.parametrize("suffix", ["npy", "safetensors"])
def test_damaged_tables(suffix: str, model: Path, table: np.ndarray) -> None:
    """Bytes changed, lost and put in, mostly in the header: an array or an InputError, nothing
    else.
    """
    path = model.with_name(f"x.{suffix}")
    np.save(path, table[:9]) if suffix == "npy" else safetensors(
        path, {"users": ("F32", table[:9])}
    )
    whole, chance, refused = path.read_bytes(), random.Random(3), 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 1, 2, 5])):
            place = chance.randrange(1 + min(len(data), chance.choice([12, 140, len(data)])))
            kind = chance.randrange(4)
            if kind == 0:
                data[place : place + 1] = chance.randbytes(1)
            elif kind == 1:
                del data[place : place + chance.choice([1, 3, 1000])]
            elif kind == 2:
                data[place:place] = chance.choice(
                    [
                        b"9" * 20,
                        b"-",
                        b"[",
                        b"(",
                        b"{",
                        b"'",
                        b'"',
                        b"\0",
                        b"\xff",
                        b"\n",
                        b"L",
                        b"\\",
                    ]
                )
            else:
                data[place : place + 1] = chance.choice([b"0", b"9", b",", b":", b"]", b")", b"}"])
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's parser warns of odd text
            try:
                read_table(path)
            except InputError:
                refused += 1
    assert 100 < refused < 400


# ---- the command line


def test_command_line(
    model: Path,
    table: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(model.parent)
    assert (
        main(
            ["run", "model.xml", "-i", "ids=[4999]", "--table", "users=users.npy", "-o", "out.npz"]
        )
        == 0
    )
    with np.load("out.npz") as saved:
        np.testing.assert_array_equal(saved["rows"], table[[4999]])
    capsys.readouterr()
    assert (
        main(
            [
                "run",
                "model.xml",
                "-i",
                "ids=[1]",
                "--table",
                "users=users.npy",
                "--table",
                "users=users.npy",
            ]
        )
        == 1
    )
    assert "table 'users': is given twice" in capsys.readouterr().err
    assert main(["run", "model.xml", "-i", "ids=[1]", "--table", "users.npy"]) == 2
    assert (
        "expected NAME=FILE.npy or NAME=FILE.safetensors:KEY, got 'users.npy'"
        in capsys.readouterr().err
    )


def test_shrinking_a_table_from_a_file(
    model: Path, table: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    assert (
        main(["shrink", "model.xml", "small.xml", "--tables", "f16", "--table", "users=users.npy"])
        == 0
    )
    np.testing.assert_array_equal(
        uncork.load("small.xml")([3])["rows"], table[[3]].astype(np.float16)
    )
