"""The format of compiled files (`model.uncork`): what lies where, and what is checked before
anything of it is used.

A file is a head, sections, and a description of them. Numbers are little-endian.

    head         magic, version of the format, bytes of the file, where the description begins and
                 its bytes, SHA-256 of all that is not constants (`HEAD`, then 32 bytes)
    constants    arrays that kernels read, at a cache line
    images       for each target: the code of all its functions, at a page; for each plan the words
                 of a call, then the numbers of those that are addresses, then their bases
    source       model.xml and model.bin, where they were asked for
    description  msgpack of `Description`: names, types, shapes, what lies where

A word that is an address holds what is added to its base: the words themselves (0), the constants
(1), the code (2), or a symbol of the plan (3 and up), which is a function of the process or one of
its objects, by name.
"""

import hashlib
import os
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
import numpy as np
from msgspec import Struct

from uncork import files
from uncork.compiled_head import COMPILED
from uncork.errors import ReadError, UncorkError
from uncork.ir.graph import XmlElement
from uncork.types import Array

#: The version of the format; another one is refused.
VERSION = 1
#: Magic, version, reserved, bytes of the file, offset and bytes of the description.
HEAD = struct.Struct("<8sIIQQQ")
_DIGEST = 32
#: Where sections begin, and arrays of constants: at multiples of so many bytes.
LINE = 64
#: Where code begins, which may be mapped: at multiples of so many bytes, by architecture; elsewhere
#: systems have pages of up to so many.
_PAGES, _LARGEST_PAGE = {"x86_64": 4096}, 65536
_PIECE = 1 << 24


class Section(Struct, frozen=True):
    """A run of bytes of the file."""

    offset: int
    bytes: int


class Port(Struct, frozen=True):
    """An input or an output: its names, element type and shape as text."""

    names: tuple[str, ...]
    element_type: str
    shape: str


class Argument(Struct, frozen=True):
    """What a call is given: the type of the array as NumPy writes it, and its sizes, None for
    any.
    """

    dtype: str
    shape: tuple[int | None, ...]


class Result(Struct, frozen=True):
    """A result: which of the arrays that the call makes, or where `is_given` which of its inputs,
    and sizes to give it: a number, or where below 0, one more than the slot of the context.
    """

    number: int
    is_given: bool = False
    sizes: tuple[int, ...] | None = None


class Condition(Struct, frozen=True):
    """What sizes of a call must keep: as text, the layer that looks at it, and whether it only
    decides which plan is used.
    """

    text: str
    where: str
    is_guard: bool


class Step(Struct, frozen=True):
    """A layer as the plan runs it: see `compiler.plan.Step`."""

    layer: str
    operation: str
    kernel: str
    outputs: str
    place: str
    note: str


class Plan(Struct, frozen=True):
    """A plan of a model for one target."""

    words: Section
    relocated: Section
    bases: Section
    symbols: tuple[str, ...]
    contexts: tuple[int, ...]
    turns: tuple[int, ...]
    rooms: tuple[int, ...]
    arguments: tuple[Argument, ...]
    #: Objects None that follow the inputs.
    nothing: int
    results: tuple[Result, ...]
    conditions: tuple[Condition, ...]
    steps: tuple[Step, ...]
    #: Bytes of a buffer by its slot of the context, and the layer that needs it.
    buffers: tuple[tuple[int, str], ...]
    #: For variables that grow: the input that is its storage, and its least sizes, as of results.
    extended: tuple[tuple[int, tuple[int, ...]], ...] = ()
    threads: int = 1


class Picked(Struct, frozen=True):
    """The rows of a variable that go on: an input of the model tells which, along an axis, as a
    Gather of this type, opset and strictness takes them.
    """

    input: int
    axis: int
    opset: int
    strict: bool


class Grown(Struct, frozen=True):
    """A variable that grows along an axis, in a storage with a length."""

    variable: str
    axis: int
    picked: Picked | None = None
    shape_is_read: bool = False


class Begin(Struct, frozen=True):
    """The value that a variable begins with: its sizes and its bytes."""

    shape: tuple[int, ...]
    data: bytes


class Read(Struct, frozen=True):
    """A variable that is read or assigned, and the layer that does: its id, element type and shape
    as text; what it begins with, where no layer computes that; the type that rows of f32 are kept
    in, where that is another.
    """

    variable: str
    layer: str
    element_type: str
    shape: str
    begin: Begin | None = None
    coding: str = ""


class Variables(Struct, frozen=True):
    """The variables of a model. Its plans take more after its own inputs: the values that `reads`
    read, but those of variables that grow, then the storages of these, then their lengths. They
    give more after its own outputs: the values of the variables `assigned`, then the new lengths.
    The initial plans take the inputs and give what those of `reads` begin with that layers compute.
    """

    reads: tuple[Read, ...]
    assigned: tuple[Read, ...]
    grown: tuple[Grown, ...] = ()


class Weights(Struct, frozen=True):
    """What the constants are: bytes of the weights of the model, bytes of the constants by their
    kind (`origins.KINDS`), and how many of these hold values that others hold, too.
    """

    model: int
    kinds: dict[str, int]
    repeated: int


class Image(Struct, frozen=True):
    """What a file has for one target: features that the processor must have, the code, the entry
    for calls from Python and the functions of threads as offsets in it, and plans.
    """

    level: str
    arch: str
    features: tuple[str, ...]
    code: Section
    functions: dict[str, int]
    plans: tuple[Plan, ...]
    #: Plans of what the variables begin with.
    initial: tuple[Plan, ...] = ()


class Description(Struct, frozen=True):
    """All that a file says of itself."""

    name: str
    uncork: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: Section
    #: SHA-256 of the constants, which `uncork check` looks at: loading does not read them.
    constants_digest: str
    images: tuple[Image, ...]
    variables: Variables | None = None
    #: What the model says beside its layers, such as the names of classes.
    extras: tuple[XmlElement, ...] = ()
    #: SHA-256 of the files that it was made of, by name.
    sources: dict[str, str] = {}
    #: The files themselves.
    source: dict[str, Section] = {}
    #: The options that it was compiled with, as `compile_model` takes them.
    settings: dict[str, Any] = {}
    weights: Weights | None = None


class Writer:
    """Writes a file: sections one behind the other, the description, then the head."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0
        self._digest = hashlib.sha256()
        self._write(bytes(HEAD.size + _DIGEST), digested=False)

    def _write(self, data: Any, digested: bool = True) -> None:
        self._file.write(data)
        size = memoryview(data).nbytes
        self._at += size
        if digested:
            self._digest.update(data)

    def section(self, parts: Iterator[Any] | list[Any], alignment: int = LINE) -> Section:
        """A section of these bytes."""
        self._write(bytes(-self._at % alignment), digested=False)
        first = self._at
        for part in parts:
            self._write(part)
        return Section(first, self._at - first)

    def code(self, code: bytes, arch: str) -> Section:
        """The section of the code of an image."""
        return self.section([code], _PAGES.get(arch, _LARGEST_PAGE))

    def constants(self, arrays: list[Array]) -> tuple[Section, str]:
        """The section of constants, which has a digest of its own."""
        self._write(bytes(-self._at % LINE), digested=False)
        first, digest = self._at, hashlib.sha256()
        for array in arrays:
            for begin in range(0, array.nbytes, _PIECE):
                piece = np.ascontiguousarray(array[begin : begin + _PIECE])
                digest.update(piece.data)
                self._write(piece, digested=False)
        return Section(first, self._at - first), digest.hexdigest()

    def finish(self, description: Description) -> None:
        """Write the description and the head."""
        section = self.section([msgspec.msgpack.encode(description)])
        head = HEAD.pack(COMPILED, VERSION, 0, self._at, section.offset, section.bytes)
        self._digest.update(head)
        self._file.seek(0)
        self._file.write(head + self._digest.digest())


def is_compiled(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a compiled one."""
    return head[: len(COMPILED)] == COMPILED


def read(path: str | os.PathLike[str] | BinaryIO) -> tuple[Description, Any]:
    """What a file says of itself, and its bytes, which are mapped; it may be open already.
    Everything but the constants is held against its digest.

    Raises ReadError for a file that is not whole, of another version, or changed.
    """
    try:
        try:
            if isinstance(path, (str, os.PathLike)):
                with files.opened(path) as file:
                    data = files.MappedFile.of(path, file)
            else:
                path.flush()
                data = files.MappedFile.of(name_of(path), path)
        except ValueError:  # an empty file cannot be mapped
            raise ReadError("is empty") from None
        view = memoryview(data)
        description = _described(view)
        if digest_of(view, description) != bytes(view[HEAD.size : HEAD.size + _DIGEST]):
            raise _damaged("its digest is another one")
        for image in description.images:
            if not all(0 <= offset < image.code.bytes for offset in image.functions.values()):
                raise _damaged("a function lies outside of the code")
            for plan in (*image.plans, *image.initial):
                _check(view, image, plan, description)
        return description, data
    except OSError as error:
        raise ReadError(files.why_not(error, name_of(path)), name_of(path)) from None
    except UncorkError as error:
        raise error.at(name_of(path)) from None


def name_of(file: str | os.PathLike[str] | BinaryIO) -> str:
    """What errors call a compiled file: its path, where one that is open was opened by it."""
    path = file if isinstance(file, (str, os.PathLike)) else getattr(file, "name", None)
    return os.fspath(path) if isinstance(path, (str, os.PathLike)) else "the compiled file"


def _damaged(why: str) -> ReadError:
    return ReadError(f"is damaged: {why}: copy it again, or compile the model again")


def _described(view: memoryview) -> Description:
    """The description of a file, all of whose sections lie within it. Raises ReadError."""
    ReadError.when(
        len(view) < HEAD.size + _DIGEST or not is_compiled(bytes(view[:8])),
        "is no compiled model: expected a file that `uncork compile` wrote",
    )
    _, version, _, size, offset, count = HEAD.unpack_from(view, 0)
    ReadError.when(
        version != VERSION,
        f"has version {version} of the format, this uncork reads {VERSION}: compile the model "
        "again",
    )
    ReadError.when(
        size != len(view), f"is not whole: it has {len(view):,} bytes of {size:,}: copy it again"
    )
    if not _lies_within(Section(offset, count), size):
        raise _damaged("its description lies outside of it")
    try:
        description = msgspec.msgpack.decode(view[offset : offset + count], type=Description)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise _damaged(str(error)) from None
    if not all(_lies_within(section, size) for section in _sections(description)):
        raise _damaged("a part lies outside of it")
    return description


def _lies_within(section: Section, size: int) -> bool:
    return 0 <= section.offset <= size and 0 <= section.bytes <= size - section.offset


def _sections(description: Description) -> Iterator[Section]:
    """All sections but the constants, in the order in which they are written; these last."""
    for image in description.images:
        yield image.code
        for plan in (*image.plans, *image.initial):
            yield from (plan.words, plan.relocated, plan.bases)
    yield from description.source.values()
    yield description.constants


def digest_of(view: memoryview, description: Description | None = None) -> bytes:
    """The digest that a file should have. Raises ReadError for a description that is none."""
    digest = hashlib.sha256()
    *digested, _ = _sections(_described(view) if description is None else description)
    *_, offset, count = HEAD.unpack_from(view, 0)
    own = Section(offset, count)
    for first, size in sorted({(s.offset, s.bytes) for s in (*digested, own)}):
        digest.update(view[first : first + size])
    digest.update(view[: HEAD.size])
    return digest.digest()


def source_of(path: str | os.PathLike[str]) -> tuple[bytes, bytes | None]:
    """The model that a compiled file was made of, and its weights. Raises ReadError where they are
    not inside.
    """
    description, data = read(path)
    ReadError.when(
        not description.source,
        "is a compiled model, which has no layers: give the .xml that it was made of, or "
        "compile it with its source (--with-source)",
        str(path),
    )
    parts = [
        bytes(memoryview(data)[section.offset : section.offset + section.bytes])
        for section in description.source.values()
    ]
    return parts[0], parts[1] if len(parts) > 1 else None


def constants_digest(view: memoryview, description: Description) -> str:
    """The digest of the constants as they are."""
    section = description.constants
    return hashlib.sha256(view[section.offset : section.offset + section.bytes]).hexdigest()


def array(view: Any, section: Section, dtype: Any) -> Array:
    """A section as an array."""
    result: Array = np.frombuffer(
        view, dtype, section.bytes // np.dtype(dtype).itemsize, section.offset
    )
    return result


def _check(view: Any, image: Image, plan: Plan, description: Description) -> None:
    """Raise ReadError where a word would be an address outside of what it is in."""
    words = array(view, plan.words, np.int64)
    relocated, bases = array(view, plan.relocated, np.uint32), array(view, plan.bases, np.uint32)
    limits = np.full(3 + len(plan.symbols), 1 << 16, np.int64)
    limits[:3] = plan.words.bytes, description.constants.bytes, image.code.bytes
    well = (
        plan.words.offset % 8 == 0
        and relocated.size == bases.size
        and words.size > 0
        and (not relocated.size or (int(relocated.max()) < words.size))
        and (not bases.size or int(bases.max()) < limits.size)
        and all(0 <= n <= words.size - 8 for n in (*plan.contexts, *plan.turns, *plan.rooms))
        and len(plan.contexts) > 0
        and 0 <= plan.nothing < 1 << 16
    )
    if well:
        added = words[relocated]
        well = bool(np.all((added >= 0) & (added <= limits[bases])))
    if not well:
        raise _damaged("a plan of it reaches outside of it")


def digest_of_file(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with files.opened(path) as file:
        for piece in iter(lambda: file.read(_PIECE), b""):
            digest.update(piece)
    return digest.hexdigest()
