"""LLVM's assembly, written as text: what of `llvmlite.ir` kernels need, by its names, in a tenth of
the time.

A function's variables (`alloca`) are read and written by `get` and `set`. Inside a block they are
names, so that LLVM is not given a load and a store for each; memory sees what a block has left in
them when it ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from uncork.kernels.codegen.llvm_types import (
    BrainFloat,
    Constant,
    Double,
    Filled,
    FunctionType,
    Half,
    IntType,
    LLVMType,
    Pair,
    Pointer,
    Ref,
    Single,
    Undefined,
    Vector,
    VectorType,
    Void,
)
from uncork.kernels.codegen.words import FOLDED, WORD, folded

__all__ = [
    "BrainFloat",
    "Constant",
    "Double",
    "Filled",
    "Function",
    "FunctionType",
    "Half",
    "IRBuilder",
    "IntType",
    "Module",
    "Ref",
    "Single",
    "Undefined",
    "VectorType",
    "Void",
]

_BIT = IntType(1)
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


class Module:
    """Functions, in the order in which they were made, and metadata."""

    def __init__(self) -> None:
        self.globals: dict[str, Function] = {}
        self._metadata: dict[str, str] = {}

    def metadata(self, text: str) -> str:
        """The name of metadata."""
        return self._metadata.setdefault(text, f"!{len(self._metadata)}")

    def __str__(self) -> str:
        lines = [line for function in self.globals.values() for line in function.lines()]
        lines += [f"{name} = {text}" for text, name in self._metadata.items()]
        return "\n".join(lines) + "\n"


class Block:
    """Instructions that run one after the other."""

    __slots__ = ("changed", "ended", "known", "lines", "name", "words")

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []
        self.ended = False
        #: What variables hold here, and which of them memory does not hold yet.
        self.known: dict[str, Ref] = {}
        self.changed: dict[str, None] = {}
        #: Words that were computed here, by what computes them.
        self.words: dict[tuple[str, str, str], Ref] = {}


class Function(Ref):
    """A function of the module or, without blocks, the declaration of one from elsewhere."""

    __slots__ = ("args", "blocks", "internal", "names", "signature", "unaliased", "variables")

    def __init__(self, module: Module, signature: FunctionType, name: str) -> None:
        super().__init__(signature.as_pointer(), f'@"{name}"')
        self.signature = signature
        self.args = [Ref(type_, f"%a{index}") for index, type_ in enumerate(signature.arguments)]
        self.blocks: list[Block] = []
        self.variables: list[str] = []
        #: Numbers that values and blocks have been named by.
        self.names = 0
        #: It is called from this module only, and stays a function of its own.
        self.internal = False
        #: The first argument is an address that nothing else leads to.
        self.unaliased = False
        module.globals[name] = self

    def append_basic_block(self, name: str) -> Block:
        """A new basic block, the last one of the function so far."""
        self.names += 1
        block = Block(f"{name}{self.names}")
        self.blocks.append(block)
        return block

    def lines(self) -> Iterator[str]:
        """The lines of the function's text."""
        result = self.signature.result
        if not self.blocks:
            yield f"declare {result} {self.name}({', '.join(map(str, self.signature.arguments))})"
            return
        arguments = [
            f"{a.type}{' noalias' if self.unaliased and not n else ''} {a.name}"
            for n, a in enumerate(self.args)
        ]
        before, after = ("internal ", " noinline") if self.internal else ("", "")
        yield f"define {before}{result} {self.name}({', '.join(arguments)}){after} {{"
        for index, block in enumerate(self.blocks):
            yield f"{block.name}:"
            if index == 0:
                yield from self.variables
            yield from block.lines
        yield "}"


class IRBuilder:
    """Writes instructions at the end of a block."""

    def __init__(self, function: Function, module: Module, block: Block) -> None:
        self.function, self.module, self.block = function, module, block

    def position_at_end(self, block: Block) -> None:
        """Write the instructions that follow at the end of this block."""
        self.block = block

    # ---- variables

    def alloca(self, type_: LLVMType) -> Ref:
        """A new variable on the stack."""
        self.function.names += 1
        name = f"%v{self.function.names}"
        self.function.variables.append(f"  {name} = alloca {type_}")
        return Ref(type_, name)

    def stack_bytes(self, size: int) -> Ref:
        """The address of bytes that live as long as the call, at the beginning of a cache line."""
        function = self.function
        function.names += 2
        place, address = f"%v{function.names - 1}", f"%v{function.names}"
        function.variables += [
            f"  {place} = alloca [{size} x i8], align 64",
            f"  {address} = ptrtoint [{size} x i8]* {place} to i64",
        ]
        return Ref(IntType(64), address)

    def get(self, variable: Ref) -> Ref:
        """What a variable holds."""
        value = self.block.known.get(variable.name)
        if value is None:
            type_ = variable.type.text
            value = self.block.known[variable.name] = self._value(
                variable.type, f"load {type_}, {type_}* {variable.name}"
            )
        return value

    def set(self, variable: Ref, value: Ref) -> None:
        """Have a variable hold a value."""
        self.block.known[variable.name] = value
        self.block.changed[variable.name] = None

    # ---- the ends of blocks

    def branch(self, target: Block) -> None:
        """End the block with a jump to another block."""
        self._keep()
        self._end(f"br label %{target.name}")

    def cbranch(
        self, condition: Ref, yes: Block, no: Block, weights: tuple[int, int] | None = None
    ) -> None:
        """End the block with a jump to one of two blocks; `weights` say how often to which."""
        self._keep()
        text = f"br i1 {condition.name}, label %{yes.name}, label %{no.name}"
        if weights is not None:
            taken, other = weights
            metadata = f'!{{!"branch_weights", i32 {taken}, i32 {other}}}'
            text += f", !prof {self.module.metadata(metadata)}"
        self._end(text)

    def ret(self, value: Ref) -> None:
        """Leave the function."""
        self._end(f"ret {value}")

    def _keep(self) -> None:
        block = self.block
        for name in block.changed:
            value = block.known[name]
            block.lines.append(f"  store {value.type.text} {value.name}, {value.type.text}* {name}")

    def _end(self, text: str) -> None:
        assert not self.block.ended, "the block has ended"
        self.block.lines.append("  " + text)
        self.block.ended = True

    @contextlib.contextmanager
    def if_then(self, condition: Ref, likely: bool | None) -> Iterator[None]:
        """A block that runs under a condition."""
        then, end = (
            self.function.append_basic_block("then"),
            self.function.append_basic_block("end"),
        )
        self.cbranch(condition, then, end, _weights(likely))
        with self._inside(then, end):
            yield
        self.block = end

    @contextlib.contextmanager
    def if_else(self, condition: Ref, likely: bool | None = None) -> Iterator[tuple[Any, Any]]:
        """Two blocks, as contexts, of which one runs."""
        then, other, end = (
            self.function.append_basic_block(name) for name in ("then", "else", "end")
        )
        self.cbranch(condition, then, other, _weights(likely))
        yield self._inside(then, end), self._inside(other, end)
        self.block = end

    @contextlib.contextmanager
    def _inside(self, block: Block, end: Block) -> Iterator[None]:
        self.block = block
        yield
        if not self.block.ended:
            self.branch(end)

    # ---- instructions

    def _value(self, type_: LLVMType, text: str) -> Ref:
        function = self.function
        function.names += 1
        name = f"%v{function.names}"
        self.block.lines.append(f"  {name} = {text}")
        return Ref(type_, name)

    def _do(self, text: str) -> None:
        self.block.lines.append("  " + text)

    def binary(self, word: str, a: Ref, b: Ref) -> Ref:
        """An instruction with two operands of one type, which is the type of its result."""
        if a.type is WORD and word in FOLDED:
            return folded(self, word, a, b)
        return self._value(a.type, f"{word} {a.type.text} {a.name}, {b.name}")

    # ---- words

    def word(self, word: str, a: Ref, b: Ref) -> Ref:
        """The result of an instruction with two words as operands; this block has each such
        instruction once.
        """
        key = word, a.name, b.name
        result = self.block.words.get(key)
        if result is None:
            result = self._value(WORD, f"{word} i64 {a.name}, {b.name}")
            self.block.words[key] = result
        return result

    def convert(self, word: str, a: Ref, type_: LLVMType) -> Ref:
        """An instruction that makes a value of another type."""
        return self._value(type_, f"{word} {a.type.text} {a.name} to {type_.text}")

    def fneg(self, a: Ref) -> Ref:
        return self._value(a.type, f"fneg {a}")

    def not_(self, a: Ref) -> Ref:
        """The bitwise complement of a value."""
        ones = Filled(a.type, -1) if isinstance(a.type, Vector) else Constant(a.type, -1)
        return self.binary("xor", a, ones)

    def xor(self, a: Ref, b: Ref) -> Ref:
        return self.binary("xor", a, b)

    def compare(self, kind: str, operator: str, a: Ref, b: Ref) -> Ref:
        """A comparison; `kind` is "float" (false where one is NaN), "signed" or "unsigned"."""
        word = _COMPARISONS[operator]
        if kind == "float":
            word = f"fcmp o{word}"
        else:
            word = f"icmp {word}" if operator in ("==", "!=") else f"icmp {kind[0]}{word}"
        type_ = VectorType(_BIT, a.type.count) if isinstance(a.type, Vector) else _BIT
        return self._value(type_, f"{word} {a.type.text} {a.name}, {b.name}")

    def icmp_unsigned(self, operator: str, a: Ref, b: Ref) -> Ref:
        return self.compare("unsigned", operator, a, b)

    def select(self, condition: Ref, yes: Ref, no: Ref) -> Ref:
        return self._value(yes.type, f"select {condition}, {yes}, {no}")

    def bitcast(self, a: Ref, type_: LLVMType) -> Ref:
        return a if a.type is type_ else self.convert("bitcast", a, type_)

    def zext(self, a: Ref, type_: LLVMType) -> Ref:
        return a if a.type is type_ else self.convert("zext", a, type_)

    def inttoptr(self, a: Ref, type_: LLVMType) -> Ref:
        return self.convert("inttoptr", a, type_)

    def element_at(self, pointer: Ref, number: int) -> Ref:
        """The address of a word among those that begin at an address."""
        return self._value(
            pointer.type, f"getelementptr {_pointee(pointer)}, {pointer}, i64 {number}"
        )

    def elements_at(self, pointer: Ref, numbers: Ref, type_: LLVMType) -> Ref:
        """A vector of addresses, of the type `type_`: those of the elements with these numbers,
        counted from an address.
        """
        return self._value(type_, f"getelementptr {_pointee(pointer)}, {pointer}, {numbers}")

    def load(self, pointer: Ref, align: int | None = None) -> Ref:
        """The value at an address."""
        end = "" if align is None else f", align {align}"
        return self._value(_pointee(pointer), f"load {_pointee(pointer)}, {pointer}{end}")

    def store(self, value: Ref, pointer: Ref, align: int, streaming: bool = False) -> None:
        """Store a value at an address."""
        end = f", !nontemporal {self.module.metadata('!{i32 1}')}" if streaming else ""
        self._do(f"store {value}, {pointer}, align {align}{end}")

    def load_atomic(self, pointer: Ref, ordering: str, align: int) -> Ref:
        return self._value(
            _pointee(pointer),
            f"load atomic {_pointee(pointer)}, {pointer} {ordering}, align {align}",
        )

    def store_atomic(self, value: Ref, pointer: Ref, ordering: str, align: int) -> None:
        self._do(f"store atomic {value}, {pointer} {ordering}, align {align}")

    def cmpxchg(self, pointer: Ref, old: Ref, new: Ref, ordering: str, failed: str) -> Ref:
        """Compare and exchange: what was there, and whether it was `old`."""
        return self._value(
            Pair(old.type, _BIT), f"cmpxchg {pointer}, {old}, {new} {ordering} {failed}"
        )

    def fence(self, ordering: str) -> None:
        self._do(f"fence {ordering}")

    def extract_value(self, pair: Ref, number: int) -> Ref:
        """One number of a pair."""
        assert isinstance(pair.type, Pair)
        return self._value(pair.type.elements[number], f"extractvalue {pair}, {number}")

    def insert_element(self, vector: Ref, value: Ref, place: Ref) -> Ref:
        return self._value(vector.type, f"insertelement {vector}, {value}, {place}")

    def extract_element(self, vector: Ref, place: Ref) -> Ref:
        assert isinstance(vector.type, Vector)
        return self._value(vector.type.element, f"extractelement {vector}, {place}")

    def shuffle_vector(self, a: Ref, b: Ref, picks: Ref) -> Ref:
        assert isinstance(a.type, Vector) and isinstance(picks.type, Vector)
        return self._value(
            VectorType(a.type.element, picks.type.count), f"shufflevector {a}, {b}, {picks}"
        )

    def call(self, function: Ref, arguments: Sequence[Ref]) -> Ref:
        """Call a function, or one at an address."""
        signature = _pointee(function)
        assert isinstance(signature, FunctionType)
        result = signature.result
        text = (
            f"call {result.text} "
            f"{function.name}({', '.join([f'{a.type.text} {a.name}' for a in arguments])})"
        )
        if result is not Void:
            return self._value(result, text)
        self._do(text)
        return Ref(Void, "")

    def with_overflow(self, word: str, a: Ref, b: Ref) -> Ref:
        """`sadd`, `ssub` or `smul` of two integers: the result, and whether it did not fit."""
        name = f"llvm.{word}.with.overflow.{a.type}"
        signature = FunctionType(Pair(a.type, _BIT), [a.type, b.type])
        return self.call(
            self.module.globals.get(name) or Function(self.module, signature, name), [a, b]
        )


def _pointee(pointer: Ref) -> LLVMType:
    assert isinstance(pointer.type, Pointer)
    return pointer.type.pointee


def _weights(likely: bool | None) -> tuple[int, int] | None:
    return None if likely is None else (99, 1) if likely else (1, 99)
