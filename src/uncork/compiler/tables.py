"""Tables from files: a constant of a model whose values are those of a .npy or .safetensors file,
mapped unless it is small.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Union

import numpy as np
from msgspec.structs import replace

from uncork import files
from uncork.compiler.arguments import did_you_mean
from uncork.errors import InputError, Problem, UncorkError, ValidationError
from uncork.ir.model import Model, Node
from uncork.ir.validate import infer
from uncork.ops.parameter import Const
from uncork.passes.quantized_tables import LOOKUPS
from uncork.types import Array, ElementType, PartialShape, TensorSpec

#: What gives a table: the path of a file, with `:key` after the name of a .safetensors file of
#: several, or an array.
Table = Union[str, "os.PathLike[str]", Array]
#: What replaces a constant: a table, or some rows of it, `{"rows": ids, "values": table}`.
GivenTable = Union[Table, Mapping[str, Any]]

#: Element types by their names in .safetensors files.
_SAFETENSORS = {
    **{
        "F64": ElementType.f64,
        "F32": ElementType.f32,
        "F16": ElementType.f16,
        "BF16": ElementType.bf16,
        "BOOL": ElementType.boolean,
    },
    **{"F8_E4M3": ElementType.f8e4m3, "F8_E5M2": ElementType.f8e5m2},
    **{
        f"{letter}{bits}": ElementType.parse(f"{letter}{bits}")
        for letter in "IU"
        for bits in (8, 16, 32, 64)
    },
}
#: A header longer than this is not one: it lists tensors, and the largest models have some
#: thousands.
_LONGEST_HEADER = 100_000_000
_LAYERS_OF_A_TABLE = frozenset({"Convert", "Subtract", "Multiply"})


def with_tables(model: Model, tables: Mapping[str, GivenTable], mmap: bool = True) -> Model:
    """The model with the values of constants taken from files, by the name of the constant or of
    the layer that looks rows up.

    `mmap`: tables that are not small are mapped, not copied.

    Raises InputError that lists every name that is not there, every file that cannot be read and
    every table whose element type or shape is not the constant's.
    """
    if not isinstance(tables, Mapping):
        raise InputError(
            f"expected a mapping such as {{'users': 'users.npy'}}, got {repr(tables)[:80]}",
            "tables",
        )
    new: dict[int, Node] = {}
    names: dict[int, str] = {}
    problems: list[Problem] = []
    for name, table in tables.items():
        try:
            node = _constant(model, name)
            if node.id in new:
                raise InputError(
                    f"is given twice: by '{names[node.id]}' and by '{name}'",
                    f"constant '{node.name}'",
                )
            new[node.id], names[node.id] = _filled(node, table, mmap), name
        except UncorkError as error:
            problems += error.at(f"table '{name}'").problems
    InputError.when_any("", problems)
    model, found = infer(
        replace(model, nodes=tuple(new.get(node.id, node) for node in model.nodes))
    )
    ValidationError.when_any(model.source, found)
    return model


def _constant(model: Model, name: str) -> Node:
    """The constant that a name means."""
    constants = [
        node for node in model.nodes if node.name == name and isinstance(node.operation, Const)
    ]
    InputError.when(
        len(constants) > 1,
        f"{len(constants)} constants have this name: give the name of the layer that looks rows up",
    )
    if constants:
        return constants[0]
    node = next((node for node in model.nodes if node.name == name), None)
    if node is None:
        lookups = [n for n in model.nodes if type(n.operation) in LOOKUPS]
        known = [n.name for n in model.nodes if isinstance(n.operation, Const)] + [
            n.name for n in lookups
        ]
        tables = ", ".join(
            sorted(
                {
                    _described(_source(model, n))
                    for n in lookups
                    if isinstance(_source(model, n).operation, Const)
                }
            )
        )
        raise InputError(
            f"no constant or layer is called '{name}'{did_you_mean(name, known)}; tables: "
            f"{tables or 'none'}"
        )
    result = _source(model, node) if type(node.operation) in LOOKUPS else node
    InputError.when(
        not isinstance(result.operation, Const),
        "expected the name of a constant or of a layer that looks up rows of one (Gather, "
        "EmbeddingBag...)",
        node.label,
    )
    return result


def _source(model: Model, lookup: Node) -> Node:
    """Where a look-up's table comes from: a constant, also behind the layers that compute the table
    from it.
    """
    node = model.by_id[lookup.inputs[0].node]
    while node.type_name in _LAYERS_OF_A_TABLE:
        node = model.by_id[node.inputs[0].node]
    return node


def _described(node: Node) -> str:
    return f"'{node.name}' {node.outputs[0].spec}"


def _filled(node: Node, table: GivenTable, mmap: bool) -> Node:
    """The node of a constant with the values of a table in place of its own."""
    constant = node.operation
    assert isinstance(constant, Const)
    if isinstance(table, Mapping):
        rows = _rows(node, constant, table)
        shape = PartialShape([len(rows), *constant.shape.static[1:]])
        values = _values(node, TensorSpec(constant.element_type, shape), table["values"], mmap)
        array = constant.value.copy()
        array[rows] = values
    else:
        array = _values(node, TensorSpec(constant.element_type, constant.shape), table, mmap)
    filled = Const.of_array(constant.element_type, array)
    return replace(node, operation=filled, outputs=(replace(node.outputs[0], spec=filled.infer()),))


def _rows(node: Node, constant: Const, table: Mapping[str, Any]) -> Array:
    """The numbers of the rows that are given."""
    InputError.when(
        set(table) != {"rows", "values"},
        f"expected a table, or {{'rows': ids, 'values': array}}, got keys "
        f"{', '.join(map(repr, table)) or 'none'}",
    )
    InputError.when(not constant.shape.rank, "has no rows: give the whole of it", node.label)
    rows, count = np.asarray(table["rows"]), constant.shape.static[0]
    InputError.when(
        rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size),
        f"expected whole numbers in one dimension, got {rows.dtype}{list(rows.shape)}",
        "rows",
    )
    wrong = rows[(rows < 0) | (rows >= count)]
    if wrong.size:
        raise InputError(f"expected numbers from 0 to {count - 1}, got {wrong[0]}", "rows")
    rows = rows.astype(np.int64)
    known, often = np.unique(rows, return_counts=True)
    if len(known) < len(rows):
        raise InputError(f"row {known[often.argmax()]} is given {often.max()} times", "rows")
    return rows


def _values(node: Node, expected: TensorSpec, table: Table, mmap: bool) -> Array:
    """The values of a table, of just the type and shape that are expected."""
    if isinstance(table, np.ndarray):
        where, (element_type, array) = "the array", _typed(table)
    elif not isinstance(table, (str, os.PathLike)):
        raise InputError(
            f"expected an array, the path of a file, or {{'rows': ids, 'values': array}}, got "
            f"{repr(table)[:80]}"
        )
    else:
        where, (element_type, array) = f"'{os.fspath(table)}'", read_table(table, mmap)
    InputError.when(
        expected.element_type.is_packed or expected.element_type is ElementType.string,
        f"is of {expected.element_type}, whose values no such file holds as the model does",
        node.label,
    )
    if expected.element_type is ElementType.bf16 and array.dtype == np.dtype(
        "V2"
    ):  # what is left of ml_dtypes' type in a .npy file
        element_type, array = ElementType.bf16, array.view(np.uint16)
    if element_type is not expected.element_type or array.shape != expected.shape.static:
        got = f"{element_type or array.dtype.str}[{','.join(map(str, array.shape))}]"
        raise InputError(f"expected {expected}, {where} has {got}", node.label)
    InputError.when(
        not array.flags.c_contiguous,
        f"{where} is not in C order, in which rows lie one after the other: save "
        "np.ascontiguousarray(table)",
        node.label,
    )
    return array


def _typed(array: Array) -> tuple[ElementType | None, Array]:
    return ElementType.of_dtype(
        array.dtype
    ) if array.dtype.kind in "fiub" and array.dtype.isnative else None, array


# ---- files


def read_table(path: str | os.PathLike[str], mmap: bool = True) -> tuple[ElementType | None, Array]:
    """An array and its element type (None when it has none): all of a .npy file, or a tensor of a
    .safetensors file.

    `mmap`: it shows the mapped file, unless that is small.
    Raises InputError, with the file, when it cannot be read or the key is not there.
    """
    text = os.fspath(path)
    file, separator, key = text.rpartition(".safetensors:")
    try:
        if separator and not os.path.isfile(text):
            return _read_safetensors(Path(file + ".safetensors"), key, mmap)
        if text.endswith(".safetensors"):
            return _read_safetensors(Path(text), "", mmap)
        return _read_npy(Path(text), mmap)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", text) from None


def _read_npy(path: Path, mmap: bool) -> tuple[ElementType | None, Array]:
    with files.opened(path) as file:
        InputError.when(
            file.read(6) != b"\x93NUMPY",
            "expected a .npy file, or a .safetensors file with ':key' where it has several tensors",
            str(path),
        )
        file.seek(0)
        try:
            shape, in_columns, dtype = _npy_header(file)
            if min(shape, default=0) < 0:
                raise ValueError(f"its shape is {shape}")
            if dtype.hasobject:
                raise ValueError("it holds Python objects")
            array = _shown(path, file.tell(), dtype, shape[::-1] if in_columns else shape, mmap)
        except OSError:
            raise
        except Exception as error:
            # Python objects, a file that is too short, and a header of any text, which NumPy gives
            # to Python's own parser: each kind of damage has an error of its own there.
            reason = (str(error).splitlines() or [""])[0][:200] or type(error).__name__
            raise InputError(
                f"cannot be mapped as an array of numbers: {reason}", str(path)
            ) from None
    return _typed(array.T if in_columns else array)


def _npy_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """The header of a .npy file: the shape, whether it is in Fortran order, and the dtype."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"its format has version {version[0]}.{version[1]}, expected 1.0 or 2.0")


def _shown(
    path: Path, first: int, dtype: np.dtype[Any], shape: tuple[int, ...], mmap: bool
) -> Array:
    """The array that begins at a byte of a file. Raises ValueError when the file is too short for
    it.
    """
    data = files.data_of(path, mmap)
    count = math.prod(shape)
    if len(data) < first + count * dtype.itemsize:
        raise ValueError(f"it ends before the {count:,} values that its header says")
    return (
        np.frombuffer(data, dtype, count, first).reshape(shape) if count else np.empty(shape, dtype)
    )


def _read_safetensors(path: Path, key: str, mmap: bool) -> tuple[ElementType | None, Array]:
    """A tensor of a .safetensors file and its element type. The format is 8 bytes with the length
    of a JSON header, the header, and the tensors; offsets count from the header's end.
    """
    with files.opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        InputError.when(
            size < 8 or length > min(size - 8, _LONGEST_HEADER),
            f"is no .safetensors file: its header cannot have {length} bytes in a file of {size}",
            str(path),
        )
        try:
            header = json.loads(file.read(length))
            tensors = {
                str(name): tensor for name, tensor in header.items() if name != "__metadata__"
            }
        except (ValueError, AttributeError, RecursionError):
            raise InputError(
                "is no .safetensors file: its header is not JSON of the form that it should have",
                str(path),
            ) from None
    if not key and len(tensors) == 1:
        (key,) = tensors
    if key not in tensors:
        asked = (
            f"has no tensor '{key}'{did_you_mean(key, list(tensors))}"
            if key
            else f"which of its {len(tensors)} tensors? Add ':key'"
        )
        raise InputError(f"{asked}; tensors: {', '.join(list(tensors)[:20]) or 'none'}", str(path))
    element_type, shape, start, end = _described_tensor(tensors[key], f"{path}:{key}")
    InputError.when(
        not (0 <= start <= end <= size - 8 - length)
        or end - start != math.prod(shape) * element_type.dtype.itemsize,
        f"has a header that does not fit it: bytes {start} to {end} for "
        f"{element_type}{list(shape)}",
        f"{path}:{key}",
    )
    try:
        if start == end:
            return element_type, np.empty(shape, element_type.dtype)
        return element_type, _shown(path, 8 + length + start, element_type.dtype, shape, mmap)
    except (
        ValueError,
        OverflowError,
    ) as error:  # more dimensions, or larger ones, than NumPy has; or it was cut meanwhile
        raise InputError(
            f"has a shape that no array can have: {str(shape)[:100]}: {error}", f"{path}:{key}"
        ) from None


def _described_tensor(tensor: Any, where: str) -> tuple[ElementType, tuple[int, ...], int, int]:
    """(element type, shape, first byte, byte after the last) as the header says."""
    try:
        name, shape, (start, end) = tensor["dtype"], tensor["shape"], tensor["data_offsets"]
        numbers: Sequence[Any] = [*shape, start, end]
    except (TypeError, KeyError, ValueError):
        raise InputError("has a header without dtype, shape or data_offsets", where) from None
    InputError.when(
        any(type(n) is not int or not 0 <= n < 2**63 for n in numbers)
        or not isinstance(shape, list),
        f"has a header with sizes that are none: {str(numbers)[:100]}",
        where,
    )
    InputError.when(
        not isinstance(name, str) or name not in _SAFETENSORS,
        f"is of type {str(name)[:20]}, which no constant has; known: {', '.join(_SAFETENSORS)}",
        where,
    )
    return _SAFETENSORS[name], tuple(shape), start, end
