"""Types and constants of LLVM's assembly, by the names that llvmlite gives them."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence


class LLVMType:
    """A type, and its text. Equal types are one object."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def as_pointer(self) -> Pointer:
        """The type of a pointer to this type. It names what it points to: LLVM 15 wants that, and
        later ones take it.
        """
        return _pointer(self)

    def constant(self, value: float) -> str:
        """The text of a constant."""
        raise TypeError(f"{self.text} has no numbers")


class Integer(LLVMType):
    """An integer type of some bits; instructions tell whether it is signed."""

    __slots__ = ("width",)

    def __init__(self, width: int) -> None:
        super().__init__(f"i{width}")
        self.width = width

    def constant(self, value: float) -> str:
        return str(int(value))


class Float(LLVMType):
    """A floating-point type; `code` is that of `struct`, empty for bfloat."""

    __slots__ = ("code",)

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code

    def constant(self, value: float) -> str:
        """The bits of the number as a double: LLVM wants it to be exact."""
        rounded = struct.unpack(self.code, struct.pack(self.code, value))[0]
        return f"0x{struct.unpack('Q', struct.pack('d', rounded))[0]:x}"


class Vector(LLVMType):
    """A vector type: so many elements of one type."""

    __slots__ = ("count", "element")

    def __init__(self, element: LLVMType, count: int) -> None:
        super().__init__(f"<{count} x {element}>")
        self.element, self.count = element, count


class Pointer(LLVMType):
    """A pointer type, by the type of what it points to."""

    __slots__ = ("pointee",)

    def __init__(self, pointee: LLVMType) -> None:
        super().__init__(f"{pointee}*")
        self.pointee = pointee


class FunctionType(LLVMType):
    """A function type: the types of the result and of the arguments."""

    __slots__ = ("arguments", "result")

    def __init__(self, result: LLVMType, arguments: Sequence[LLVMType]) -> None:
        super().__init__(f"{result} ({', '.join(map(str, arguments))})")
        self.result, self.arguments = result, tuple(arguments)


class Pair(LLVMType):
    """The type of a pair of numbers that one instruction gives."""

    __slots__ = ("elements",)

    def __init__(self, first: LLVMType, second: LLVMType) -> None:
        super().__init__(f"{{{first}, {second}}}")
        self.elements = first, second


IntType = functools.cache(Integer)
VectorType = functools.cache(Vector)
_pointer = functools.cache(Pointer)
Half, Single, Double, BrainFloat = (
    Float("half", "e"),
    Float("float", "f"),
    Float("double", "d"),
    Float("bfloat", ""),
)
Void = LLVMType("void")


class Ref:
    """An operand of instructions: its type, and its name in the text."""

    __slots__ = ("name", "type")

    def __init__(self, type_: LLVMType, name: str) -> None:
        self.type, self.name = type_, name

    def __str__(self) -> str:
        return f"{self.type.text} {self.name}"


class _Undefined:
    """The class of `Undefined`, a constant that may have any value."""


Undefined = _Undefined()


def Constant(type_: LLVMType, value: object) -> Ref:
    """A constant: a number, for a vector one of each lane, or `Undefined`."""
    if isinstance(value, _Undefined):
        return Ref(type_, "undef")
    if isinstance(type_, Vector):
        assert isinstance(value, Sequence)
        # 0.0 and -0.0 are equal, but not the same: texts tell them apart.
        texts = tuple(
            item.name if isinstance(item, Ref) else type_.element.constant(item) for item in value
        )
        assert len(texts) == type_.count
        return _vector(type_, texts)
    assert isinstance(value, (int, float))
    return Ref(type_, type_.constant(value))


def Filled(type_: Vector, value: float) -> Ref:
    """A constant with the same number in every lane."""
    return _filled(type_, type_.element.constant(value))


@functools.lru_cache(maxsize=4096)
def _filled(type_: Vector, text: str) -> Ref:
    return _vector(type_, (text,) * type_.count)


@functools.lru_cache(maxsize=4096)
def _vector(type_: Vector, texts: tuple[str, ...]) -> Ref:
    """A constant vector. The texts of long vectors are kept: to write them again and again would be
    much of the time.
    """
    zero = type_.element.constant(0)
    element = type_.element.text
    text = (
        "zeroinitializer"
        if all(text == zero for text in texts)
        else f"<{', '.join(f'{element} {text}' for text in texts)}>"
    )
    return Ref(type_, text)
