"""Constants: the bytes of every element type, where they may lie, and that they are mapped and not
copied.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.ir._files import (
    Net,
    constant,
    edge,
    layer,
    one_constant,
    parameter,
    port,
    relu,
    result,
    simple,
)
from uncork.ir.model import Source
from uncork.ops.parameter import Const
from uncork.types import Array, ElementType


def value_of(path: Path, layer: int = 0) -> Array:
    operation = uncork.read_model(path).by_id[layer].operation
    assert isinstance(operation, Const)
    return operation.value


#: Bytes by hand; those of the packed types and of the strings are what OpenVINO 2026.4.1 writes.
BYTES = [
    ("f64", "2", "000000000000f03f 00000000000004c0", [1.0, -2.5]),
    ("f32", "2", "0000803f 000020c0", [1.0, -2.5]),
    ("f16", "3", "003c 00c1 007c", [1.0, -2.5, np.inf]),
    ("bf16", "2", "803f 20c0", [0x3F80, 0xC020]),
    ("f8e4m3", "3", "38 7e b8", [0x38, 0x7E, 0xB8]),
    ("f8e5m2", "2", "3c 7b", [0x3C, 0x7B]),
    ("f8e8m0", "1", "7f", [0x7F]),
    ("f4e2m1", "3", "21 0f", [1, 2, 15]),
    ("nf4", "3", "21 0f", [1, 2, 15]),
    ("i64", "2", "ffffffffffffffff 0000000000010000", [-1, 2**40]),
    ("i32", "2", "ffffffff 00000080", [-1, -(2**31)]),
    ("i16", "2", "feff 0080", [-2, -(2**15)]),
    ("i8", "2", "80 7f", [-128, 127]),
    ("i4", "3", "e1 03", [1, -2, 3]),
    ("u64", "1", "ffffffffffffffff", [2**64 - 1]),
    ("u32", "1", "ffffffff", [2**32 - 1]),
    ("u16", "1", "0102", [0x0201]),
    ("u8", "2", "00 ff", [0, 255]),
    ("u6", "4", "123f03", [1, 2, 3, 63]),
    ("u6", "5", "123f03 100000", [1, 2, 3, 63, 1]),
    ("u4", "3", "21 0f", [1, 2, 15]),
    ("u3", "8", "1b1b0f", [0, 1, 2, 3, 4, 5, 6, 7]),
    ("u3", "9", "1b1b0f 400080", [0, 1, 2, 3, 4, 5, 6, 7, 5]),
    ("u2", "5", "39 03", [1, 2, 3, 0, 3]),
    ("u1", "9", "81 80", [1, 0, 0, 0, 0, 0, 0, 1, 1]),
    ("boolean", "4", "00 01 02 ff", [False, True, True, True]),
    (
        "string",
        "4",
        "04000000 00000000 01000000 03000000 09000000 09000000 61 6262 e697a5e69cac",
        ["a", "bb", "日本", ""],
    ),
    ("string", "", "01000000 00000000 02000000 6162", "ab"),
    ("string", "0", "00000000 00000000", []),
    ("string", "0", "", []),
    ("f32", "", "0000803f", 1.0),
    ("f32", "2, 0", "", np.zeros((2, 0))),
    ("i4", "0", "", []),
]


@pytest.mark.parametrize(
    ("element_type", "shape", "data", "expected"), BYTES, ids=[f"{t}[{s}]" for t, s, _, _ in BYTES]
)
def test_bytes(tmp_path: Path, element_type: str, shape: str, data: str, expected: object) -> None:
    raw = bytes.fromhex(data)
    # An odd offset, and other bytes on both sides.
    path = one_constant(element_type, shape, 3, len(raw)).save(
        tmp_path, b"\xaa\xbb\xcc" + raw + b"\xdd"
    )
    value = value_of(path)
    kind = ElementType.parse(element_type)
    assert value.dtype == kind.dtype
    np.testing.assert_array_equal(value, np.array(expected, kind.dtype))
    assert not value.flags.writeable
    uncork.write_model(uncork.read_model(path), tmp_path / "again.xml")
    np.testing.assert_array_equal(value_of(tmp_path / "again.xml"), value)
    if element_type != "boolean" and raw:
        assert (tmp_path / "again.bin").read_bytes() == raw
    (out,) = uncork.load(path)()
    assert out.flags.writeable


def test_every_type_has_its_bytes_above() -> None:
    assert {t for t, _, _, _ in BYTES} == {t.name for t in ElementType}


def test_a_larger_size_than_needed(tmp_path: Path) -> None:
    data = np.arange(4, dtype="<f4").tobytes()
    assert value_of(one_constant("f32", "2", 4, 12).save(tmp_path, data)).tolist() == [1, 2]
    assert value_of(
        one_constant("u4", "3", 0, 16).save(tmp_path, b"\x21\x0f" + bytes(14))
    ).tolist() == [1, 2, 15]
    # OpenVINO gives an empty constant one byte.
    assert value_of(one_constant("f32", "0, 3", 15, 1).save(tmp_path, data)).shape == (0, 3)


def test_ranges_may_overlap(tmp_path: Path) -> None:
    layers = [
        constant(0, "f32", "3", 0, 12),
        constant(1, "f32", "2", 4, 8),
        constant(2, "u8", "12", 0, 12),
    ]
    layers += [result(3, [3]), result(4, [2]), result(5, [12], "U8")]
    path = Net(layers, [edge("0:0", "3:0"), edge("1:0", "4:0"), edge("2:0", "5:0")]).save(
        tmp_path, np.arange(3, dtype="<f4").tobytes()
    )
    a, b, c = uncork.load(path)()
    assert (a.tolist(), b.tolist(), c.tolist()) == (
        [0, 1, 2],
        [1, 2],
        list(np.arange(3, dtype="<f4").tobytes()),
    )


def test_without_constants_no_weights_file_is_needed(tmp_path: Path) -> None:
    assert uncork.load(simple().save(tmp_path))(np.array([-1, 1], np.float32))[0].tolist() == [0, 1]
    # Nor for an empty constant.
    assert uncork.load(one_constant("f32", "0", 0, 0).save(tmp_path))()[0].shape == (0,)


def test_weights_at_another_place(tmp_path: Path) -> None:
    path = one_constant("f32", "1", 0, 4).save(tmp_path)
    (tmp_path / "elsewhere").write_bytes(np.float32(7).tobytes())
    assert uncork.load(path, weights=tmp_path / "elsewhere")()[0].tolist() == [7]
    assert uncork.load(str(path), weights=str(tmp_path / "elsewhere"))()[0].tolist() == [7]


def test_constants_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    path = one_constant("f32", "1000", 1, 4000).save(tmp_path, bytes(4001))
    model = uncork.read_model(path)
    value = model.by_id[0].operation.value
    assert not value.flags.owndata
    assert not value.flags.aligned, "at any offset, without a copy"
    assert model.spec(Source(0, 0)).value is value


SPARSE = """
import resource, sys
import numpy as np
import uncork
compiled = uncork.load(sys.argv[1])
rows = compiled(np.array([0, 999_999_999, 2_999_999_999]))[0]
assert rows.shape == (3, 1) and rows.tolist() == [[0], [0], [7]], rows
try:  # ru_maxrss also counts what the parent had when it forked
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
except OSError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs sparse files")
def test_a_huge_weights_file_costs_no_memory(tmp_path: Path) -> None:
    """12 GB of table, of which three rows are looked up: it is neither read nor copied."""
    rows = 3_000_000_000
    layers = [
        parameter(0, [-1], "I64"),
        constant(1, "f32", f"{rows}, 1", 16, 4 * rows),
        constant(2, "i64", "", 0, 8),
    ]
    inputs = [port(0, [rows, 1]), port(1, [-1], "I64"), port(2, [], "I64")]
    layers += [
        layer(3, "Gather", inputs, [port(3, [-1, 1])], version="opset8", batch_dims=0),
        result(4, [-1, 1]),
    ]
    path = Net(
        layers, [edge("1:0", "3:0"), edge("0:0", "3:1"), edge("2:0", "3:2"), edge("3:3", "4:0")]
    ).save(tmp_path, bytes(8))
    try:
        with open(path.with_suffix(".bin"), "r+b") as file:
            file.truncate(16 + 4 * rows)
            file.seek(16 + 4 * (rows - 1))
            file.write(np.float32(7).tobytes())
    except OSError:
        pytest.skip("no sparse files here")
    if os.stat(path.with_suffix(".bin")).st_blocks * 512 > 2**30:
        pytest.skip("no sparse files here")
    done = subprocess.run(
        [sys.executable, "-c", SPARSE, str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * (1 if sys.platform == "darwin" else 1024) < 600e6


def test_relu_of_a_constant_does_not_change_it(tmp_path: Path) -> None:
    net = Net(
        [constant(0, "f32", "2", 0, 8), relu(1), result(2)],
        [edge("0:0", "1:0"), edge("1:1", "2:0")],
    )
    compiled = uncork.load(net.save(tmp_path, np.array([-1, 1], "<f4").tobytes()))
    compiled()[0][:] = 9
    assert compiled()[0].tolist() == [0, 1]
    assert (tmp_path / "model.bin").read_bytes() == np.array([-1, 1], "<f4").tobytes()
