"""The vector language over LLVM: kernels are written in Python with numbers, vectors and loops.

    @emitter
    def emit_scale(k: Kernel, spec: Scale) -> None:
        source, target, count = k.arguments
        with k.loop(0, count) as i:
            x = k.load(source + i * 4, F32)
            k.store(x * k.constant(2.0, F32), target + i * 4)

    text = emit_scale(Scale(), host_target())

Every kernel is one native function `i64 name(i64 *arguments)`: addresses, sizes and scalars all
travel as 64-bit integers in one block, so that a plan can be a table of (function, arguments).
Vectors have any number of lanes; LLVM splits them for the machine, so one text serves NEON, AVX2
and AVX-512. The returned number says how it went; 0 is well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.scalar_types import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    INDEX_TYPES,
    U8,
    U16,
    U32,
    U64,
    Type,
)
from uncork.kernels.codegen.values import Value, Variable, pieces
from uncork.kernels.codegen.whole_floats import WHOLE, rounds_to_whole, whole_float
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.runtime.target import Target

__all__ = [
    "BF16",
    "BOOL",
    "F16",
    "F32",
    "F64",
    "I8",
    "I16",
    "I32",
    "I64",
    "INDEX_TYPES",
    "U8",
    "U16",
    "U32",
    "U64",
    "Kernel",
    "Type",
    "Value",
    "Variable",
    "emitter",
    "pieces",
]

Spec = TypeVar("Spec", bound=KernelSpec)


class Kernel:
    """One native function under construction. See the module's example."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        target: Target | None = None,
        inside: Kernel | None = None,
        direct: bool = False,
    ) -> None:
        """With `direct` the function takes its arguments as they are, not in a block; with `inside`
        it does so, too, and belongs to that kernel.

        Without a `target` it has nothing that only some processors have.
        """
        self.name = name
        self.target: Target | None = inside.target if inside else target
        self.module: ir.Module = inside.module if inside else ir.Module()
        direct = direct or inside is not None
        word = ir.IntType(64)
        parameters = [word] * len(arguments) if direct else [word.as_pointer()]
        self.function = ir.Function(self.module, ir.FunctionType(word, parameters), name)
        self.function.internal, self.function.unaliased = inside is not None, not direct
        entry = self.function.append_basic_block("entry")
        body = self.function.append_basic_block("body")
        # Variables live in a block of their own that ends in a jump, so they can be added at any
        # time.
        self.builder = ir.IRBuilder(self.function, self.module, entry)
        self.builder.branch(body)
        self.builder.position_at_end(body)
        self.arguments: list[Value] = []
        for index in range(len(arguments)):
            given = self.function.args[index if direct else 0]
            value = given if direct else self.builder.load(self.builder.element_at(given, index))
            self.arguments.append(Value(self, value, I64))
        #: The same by their names.
        self.named = dict(zip(arguments, self.arguments, strict=True))

    @property
    def machine(self) -> Target:
        """The processor that it is for."""
        if self.target is None:
            raise AssertionError(f"{self.name}: a kernel for all processors looks at none")
        return self.target

    def call_address(self, address: Value, arguments: Sequence[Value]) -> Value:
        """Call a function by its address: all arguments and the result are 64-bit words."""
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word] * len(arguments)).as_pointer()
        return Value(
            self,
            self.builder.call(
                self.builder.inttoptr(address.llvm, kind), [a.llvm for a in arguments]
            ),
            I64,
        )

    def call(self, function: Kernel, arguments: Sequence[Value]) -> Value:
        """Call a function made `inside` this kernel; its status."""
        return Value(self, self.builder.call(function.function, [a.llvm for a in arguments]), I64)

    # ---- numbers

    def integer(self, value: int) -> Value:
        """A 64-bit integer."""
        return self.constant(value, I64)

    def constant(self, value: int | float, type_: Type, lanes: int = 1) -> Value:
        """A constant, in every lane."""
        if lanes == 1:
            return Value(self, ir.Constant(type_.llvm, value), type_)
        return Value(self, ir.Filled(ir.VectorType(type_.llvm, lanes), value), type_, lanes)

    def splat(self, value: Value, lanes: int) -> Value:
        """A vector with the same number in every lane."""
        if lanes == 1:
            return value
        vector = ir.VectorType(value.type.llvm, lanes)
        first = self.builder.insert_element(
            ir.Constant(vector, ir.Undefined), value.llvm, ir.Constant(ir.IntType(32), 0)
        )
        picks = ir.Filled(ir.VectorType(ir.IntType(32), lanes), 0)
        return Value(
            self,
            self.builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), picks),
            value.type,
            lanes,
        )

    def picked(self, one: Value, other: Value, lanes: Sequence[int]) -> Value:
        """A vector of lanes of two others; those of the second are counted on from those of the
        first.
        """
        picks = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))
        return Value(
            self, self.builder.shuffle_vector(one.llvm, other.llvm, picks), one.type, len(lanes)
        )

    def side_by_side(self, vectors: Sequence[Value]) -> Value:
        """The lanes of vectors of the same length after each other. What is then computed of them
        is computed in turns, none waiting for the others.
        """
        if len(vectors) == 1:
            return vectors[0]
        half = (len(vectors) + 1) // 2
        low, high = self.side_by_side(vectors[:half]), self.side_by_side(vectors[half:])
        if high.lanes < low.lanes:  # only vectors of one length are picked from: of more lanes
            high = self.picked(high, high, [n % high.lanes for n in range(low.lanes)])
        return self.picked(low, high, range(len(vectors) * vectors[0].lanes))

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """`yes` in the lanes where the condition is true, `no` in the others."""
        return Value(
            self, self.builder.select(condition.llvm, yes.llvm, no.llvm), yes.type, yes.lanes
        )

    def all_of(self, condition: Value) -> Value:
        """Whether every lane is true."""
        bits = self.builder.bitcast(condition.llvm, ir.IntType(condition.lanes))
        return Value(
            self,
            self.builder.icmp_unsigned("==", bits, ir.Constant(ir.IntType(condition.lanes), -1)),
            BOOL,
        )

    def bits_of(self, condition: Value) -> Value:
        """The lanes as bits of an integer, the first lane lowest."""
        bits = self.builder.bitcast(condition.llvm, ir.IntType(condition.lanes))
        return Value(self, self.builder.zext(bits, ir.IntType(64)), I64)

    def trailing_zeros(self, value: Value) -> Value:
        """The number of the lowest bit that is set, of a 64-bit integer that is not 0."""
        function = self.declared("llvm.cttz.i64", ir.IntType(64), [ir.IntType(64), ir.IntType(1)])
        return Value(
            self, self.builder.call(function, [value.llvm, ir.Constant(ir.IntType(1), 1)]), I64
        )

    def ones(self, value: Value) -> Value:
        """How many bits are set, of a 64-bit integer."""
        function = self.declared("llvm.ctpop.i64", ir.IntType(64), [ir.IntType(64)])
        return Value(self, self.builder.call(function, [value.llvm]), I64)

    def minimum(self, a: Value, b: Value) -> Value:
        return self.select(a < b, a, b)

    def maximum(self, a: Value, b: Value) -> Value:
        return self.select(a > b, a, b)

    @property
    def fuses(self) -> bool:
        """Whether the processor multiplies and adds in one instruction."""
        return self.target is not None and (self.target.has("fma") or self.target.arch == "aarch64")

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, rounded once by a processor that `fuses`, else after the product, too (LLVM
        would call a function of C for each number).
        """
        if not self.fuses:
            return a * b + c
        return self._intrinsic("fma", [a, self._like(b, a), self._like(c, a)])

    def dot_pairs(self, total: Value, a: Value, b: Value) -> Value:
        """`total` of 8 or 16 f32 plus, lane by lane, the products of two pairs of bf16, each pair
        in a 32-bit integer (AVX512-BF16; subnormal numbers count as 0).
        """
        pairs = ir.VectorType(BF16.llvm, 2 * total.lanes)
        function = self.declared(
            f"llvm.x86.avx512bf16.dpbf16ps.{F32.bits * total.lanes}",
            total.llvm.type,
            [total.llvm.type, pairs, pairs],
        )
        given = [total.llvm, *(self.builder.bitcast(x.llvm, pairs) for x in (a, b))]
        return Value(self, self.builder.call(function, given), F32, total.lanes)

    def gathered(self, numbers: Sequence[Value]) -> Value:
        """A vector of single numbers."""
        first = numbers[0]
        vector: Any = ir.Constant(ir.VectorType(first.type.llvm, len(numbers)), ir.Undefined)
        for lane, number in enumerate(numbers):
            place = ir.Constant(ir.IntType(32), lane)
            vector = self.builder.insert_element(vector, number.llvm, place)
        return Value(self, vector, first.type, len(numbers))

    def looked_up(self, table: Value, numbers: Value) -> Value:
        """A lookup in a table of 16 f32, by the lowest four bits of 16 integers of 32 bits
        (AVX-512), or of 8 (AVX2).
        """
        if numbers.lanes == 8:
            kind = ir.VectorType(F32.llvm, 8)
            function = self.declared("llvm.x86.avx2.permps", kind, [kind, numbers.llvm.type])
            low, high = (
                Value(self, self.builder.call(function, [half.llvm, numbers.llvm]), F32, 8)
                for half in (table.part(0, 8), table.part(8, 8))
            )
            # The lowest three bits choose within halves; the fourth one, as the sign, of which.
            return self.select((numbers << 28) < 0, high, low)
        function = self.declared(
            "llvm.x86.avx512.permvar.sf.512", table.llvm.type, [table.llvm.type, numbers.llvm.type]
        )
        return Value(self, self.builder.call(function, [table.llvm, numbers.llvm]), F32, 16)

    def to_bf16(self, value: Value) -> Value:
        """f32 as the bits of the nearest bf16, ties to even."""
        target = BF16.llvm if value.lanes == 1 else ir.VectorType(BF16.llvm, value.lanes)
        rounded = self.builder.convert("fptrunc", value.llvm, target)
        bits = U16.llvm if value.lanes == 1 else ir.VectorType(U16.llvm, value.lanes)
        return Value(self, self.builder.bitcast(rounded, bits), U16, value.lanes)

    def reciprocal(self, value: Value, infinite: bool = False) -> Value:
        """1 / value of f32, to within 2 units of the last place. Full AVX-512 vectors are estimated
        and refined: no division. Of infinity it is 0 if the caller says that there may be one.
        """
        guess = self.estimated_reciprocal(value)
        if not self.scales(value.lanes):
            return guess
        error = self.fma(-value, guess, self.constant(1.0, value.type, value.lanes))
        refined = self.fma(guess, error, guess)
        # What is estimated as 0 has no error to refine by.
        return self.select(guess.equals(0.0), guess, refined) if infinite else refined

    def estimated_reciprocal(self, value: Value) -> Value:
        """1 / value of f32, to within 2**-14 of it; of infinity it is 0. Only full AVX-512 vectors
        are estimated, all others divide.
        """
        if not self.scales(value.lanes):
            return self.constant(1.0, value.type, value.lanes) / value
        mask = ir.Constant(ir.IntType(16), -1)
        zero = self.constant(0.0, value.type, 16).llvm
        function = self.declared(
            "llvm.x86.avx512.rcp14.ps.512", zero.type, [zero.type, zero.type, mask.type]
        )

        def estimated(vector: Value) -> Value:
            called = self.builder.call(function, [vector.llvm, zero, mask])
            return Value(self, called, value.type, 16)

        return self._by_registers(estimated, value)

    def _by_registers(self, compute: Callable[..., Value], *values: Value) -> Value:
        """What is computed of vectors of 16 numbers, of whole multiples of these."""
        firsts = range(0, values[0].lanes, 16)
        return self.side_by_side([compute(*(v.part(n, 16) for v in values)) for n in firsts])

    def scales(self, lanes: int) -> bool:
        """Whether the processor multiplies vectors of so many f32 by powers of 2 in one instruction
        (see `scaled`), and estimates reciprocals in one.
        """
        return lanes % 16 == 0 and self.target is not None and self.target.has("avx512f")

    def scaled(self, value: Value, power: Value) -> Value:
        """value * 2**floor(power) of f32, subnormal and infinite results included."""
        mask, rounding = ir.Constant(ir.IntType(16), -1), ir.Constant(ir.IntType(32), 4)
        kind = ir.VectorType(value.type.llvm, 16)
        function = self.declared(
            "llvm.x86.avx512.mask.scalef.ps.512", kind, [kind, kind, kind, mask.type, rounding.type]
        )

        def scaled(number: Value, of_two: Value) -> Value:
            given = [number.llvm, of_two.llvm, number.llvm, mask, rounding]
            return Value(self, self.builder.call(function, given), value.type, 16)

        return self._by_registers(scaled, value, power)

    def permute_two(self, low: Value, high: Value, numbers: Value) -> Value:
        """A vector of lanes picked from two vectors of 16 f32 by their numbers, of which the last 5
        bits count (AVX-512).
        """
        kind = low.llvm.type
        function = self.declared(
            "llvm.x86.avx512.vpermi2var.ps.512", kind, [kind, numbers.llvm.type, kind]
        )
        return Value(
            self, self.builder.call(function, [low.llvm, numbers.llvm, high.llvm]), F32, 16
        )

    def intrinsic(self, name: str, value: Value) -> Value:
        """LLVM's `floor`, `rint`, `sqrt`, `fabs`, ... of a float."""
        if name in WHOLE and not rounds_to_whole(self.target):
            return whole_float(name, value)
        return self._intrinsic(name, [value])

    def _like(self, value: Value, model: Value) -> Value:
        return value if value.lanes == model.lanes else self.splat(value, model.lanes)

    def _intrinsic(self, name: str, values: Sequence[Value]) -> Value:
        first = values[0]
        suffix = f"{'' if first.lanes == 1 else f'v{first.lanes}'}f{first.type.bits}"
        function = self.declared(
            f"llvm.{name}.{suffix}", first.llvm.type, [v.llvm.type for v in values]
        )
        return Value(
            self, self.builder.call(function, [v.llvm for v in values]), first.type, first.lanes
        )

    def call_intrinsic(self, name: str, *arguments: Any) -> None:
        """An instruction of the machine without a result, by LLVM's name for it."""
        self.builder.call(
            self.declared(name, ir.Void, [argument.type for argument in arguments]), arguments
        )

    def declared(self, name: str, result: Any, arguments: Sequence[Any]) -> Any:
        """A function of LLVM by its name."""
        return self.module.globals.get(name) or ir.Function(
            self.module, ir.FunctionType(result, list(arguments)), name
        )

    # ---- memory (addresses are 64-bit integers; any alignment)

    def stack_bytes(self, size: int) -> Value:
        """The address of `size` bytes on the stack, which live as long as this call; they should be
        few.
        """
        return Value(self, self.builder.stack_bytes(size), I64)

    def load(
        self,
        address: Value,
        type_: Type,
        lanes: int = 1,
        mask: Value | None = None,
        fill: int | float = 0,
    ) -> Value:
        """Consecutive numbers from memory; where a mask is false `fill`: that memory is not
        touched.
        """
        pointer = self.pointer(address, type_, lanes)
        if mask is None:
            return Value(self, self.builder.load(pointer, 1), type_, lanes)
        vector = ir.VectorType(type_.llvm, lanes)
        function = self.declared(
            _masked_name("load", type_, lanes),
            vector,
            [pointer.type, ir.IntType(32), mask.llvm.type, vector],
        )
        other = self.constant(fill, type_, lanes).llvm
        given = [pointer, ir.Constant(ir.IntType(32), 1), mask.llvm, other]
        return Value(self, self.builder.call(function, given), type_, lanes)

    def store(
        self,
        value: Value,
        address: Value,
        mask: Value | None = None,
        align: int = 1,
        streaming: bool = False,
    ) -> None:
        """Store numbers in memory, those where a mask is true. `streaming` stores bypass the
        caches; they want an `align` of their size.
        """
        pointer = self.pointer(address, value.type, value.lanes)
        if mask is None:
            self.builder.store(value.llvm, pointer, align, streaming)
            return
        kinds = [value.llvm.type, pointer.type, ir.IntType(32), mask.llvm.type]
        function = self.declared(_masked_name("store", value.type, value.lanes), ir.Void, kinds)
        self.builder.call(
            function, [value.llvm, pointer, ir.Constant(ir.IntType(32), 1), mask.llvm]
        )

    def lanes_below(self, count: Value, lanes: int) -> Value:
        """A mask: true in the first `count` lanes."""
        numbers = ir.Constant(ir.VectorType(ir.IntType(64), lanes), list(range(lanes)))
        return Value(self, numbers, I64, lanes) < self.splat(count, lanes)

    def lane_numbers(self, lanes: int) -> Value:
        """0, 1, 2 .. as i32."""
        numbers = ir.Constant(ir.VectorType(I32.llvm, lanes), list(range(lanes)))
        return Value(self, numbers, I32, lanes)

    def fence(self) -> None:
        """What was stored before, streaming stores too, is seen by others before what is stored
        after.
        """
        self.builder.fence("seq_cst")

    def prefetch(self, address: Value, near: bool = True) -> None:
        """Prefetch the cache line at an address: into every level of the cache where it is to come
        `near`, else not into the first one. Any address is safe.
        """
        byte = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        function = self.declared("llvm.prefetch.p0", ir.Void, [byte, word, word, word])
        # It is read, kept in these levels of the cache, and data.
        flags = [ir.Constant(word, n) for n in (0, 3 if near else 2, 1)]
        self.builder.call(function, [self.builder.inttoptr(address.llvm, byte), *flags])

    def pointer(self, address: Value, type_: Type, lanes: int = 1) -> Any:
        target = type_.llvm if lanes == 1 else ir.VectorType(type_.llvm, lanes)
        return self.builder.inttoptr(address.llvm, target.as_pointer())

    # ---- control

    def variable(self, first: Value) -> Variable:
        return Variable(self, first)

    @contextmanager
    def loop(self, start: Value | int, stop: Value | int, step: Value | int = 1) -> Iterator[Value]:
        """`for i in range(start, stop, step)` over 64-bit integers; `stop` is evaluated once."""
        first = start if isinstance(start, Value) else self.integer(start)
        known = isinstance(start, int) and isinstance(stop, int) and start < stop
        if known and isinstance(step, int) and stop <= start + step:  # one turn
            yield first
            return
        limit = stop if isinstance(stop, Value) else self.integer(stop)
        counter = self.variable(first)
        head, body, end = (self.function.append_basic_block(n) for n in ("head", "body", "end"))
        self.builder.branch(body if known else head)
        self.builder.position_at_end(head)
        self.builder.cbranch((counter.get() < limit).llvm, body, end)
        self.builder.position_at_end(body)
        i = counter.get()
        yield i
        counter.set(i + step)
        self.builder.branch(head)
        self.builder.position_at_end(end)

    def index_at(self, address: Value, type_: Type, size: Value, wraps: bool) -> Value:
        """An index as 64 bits; where it `wraps`, a negative one counts from the end of an axis of
        such a size.
        """
        raw = self.load(address, type_).to(I64)
        return raw + ((raw >> 63) & size) if wraps and type_.kind == "signed" else raw

    def unrolled(self, count: Value | int, times: int, step: int = 1) -> Iterator[Value]:
        """The bodies of a loop by steps that is written out so many times, and of one for what is
        left.
        """
        block = times * step
        whole = count & -block if block & (block - 1) == 0 else count // block * block
        with self.loop(0, whole, block) as first:
            for turn in range(times):
                yield first + turn * step
        if times > 1:
            with self.loop(whole, count, step) as i:
                yield i

    def blocks(
        self, end: Value, size: int, begin: Value | None = None
    ) -> Iterator[tuple[Value, bool]]:
        """The bodies of a loop over whole blocks, and of what is done once with what is left behind
        them, where something is: (where it begins, whether it is a part of a block). `size` is a
        power of two.
        """
        whole = end & -size if begin is None else begin + (end - begin & -size)
        with self.loop(0 if begin is None else begin, whole, size) as place:
            yield place, False
        with self.if_(whole < end):
            yield whole, True

    def vectors(self, count: Value | int, lanes: int) -> Iterator[tuple[Value, int]]:
        """The bodies of two loops over so many numbers, in vectors and then one by one: (number,
        how many).
        """
        whole: Value | int = 0
        if lanes > 1:
            whole = count & -lanes
            with self.loop(0, whole, lanes) as first:
                yield first, lanes
        with self.loop(whole, count) as first:
            yield first, 1

    @contextmanager
    def while_(self, condition: Callable[[], Value]) -> Iterator[None]:
        """`while condition():`"""
        head, body, end = (self.function.append_basic_block(n) for n in ("head", "body", "end"))
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self.builder.cbranch(condition().llvm, body, end)
        self.builder.position_at_end(body)
        yield
        self.builder.branch(head)
        self.builder.position_at_end(end)

    @contextmanager
    def set_bits(self, bits: Value | Variable) -> Iterator[Value]:
        """A loop over the numbers of the bits of a 64-bit integer that are set."""
        left = bits if isinstance(bits, Variable) else self.variable(bits)
        with self.while_(lambda: left.get().equals(0).equals(0)):
            number = self.trailing_zeros(left.get())
            left.set(left.get() & (left.get() - 1))
            yield number

    @contextmanager
    def if_(self, condition: Value, likely: bool | None = None) -> Iterator[None]:
        """`if condition:`"""
        with self.builder.if_then(condition.llvm, likely=likely):
            yield

    @contextmanager
    def if_else(self, condition: Value, likely: bool | None = None) -> Iterator[tuple[Any, Any]]:
        """`with kernel.if_else(c) as (then, otherwise): with then: ...; with otherwise: ...`"""
        with self.builder.if_else(condition.llvm, likely=likely) as branches:
            yield branches

    def either(
        self,
        condition: Value,
        then: Callable[[], object],
        otherwise: Callable[[], object],
        likely: bool | None = None,
    ) -> None:
        """Do one thing where the condition holds, and another where it does not."""
        with self.if_else(condition, likely) as (holds, fails):
            with holds:
                then()
            with fails:
                otherwise()

    def stop_unless(self, condition: Value, status: Value) -> None:
        """Return `status` when the condition does not hold; the code after this is the expected
        way.
        """
        stop, go = self.function.append_basic_block("stop"), self.function.append_basic_block("go")
        self.builder.cbranch(condition.llvm, go, stop, (1_000_000, 1))
        self.builder.position_at_end(stop)
        self.builder.ret(status.llvm)
        self.builder.position_at_end(go)

    def return_(self, status: Value) -> None:
        """Return `status` from inside an `if_`, as the last thing there; the code after the `with`
        block runs where the condition does not hold.
        """
        self.builder.ret(status.llvm)

    def finish(self, status: Value | None = None) -> None:
        """Return `status` from the kernel, by default 0, which means success."""
        self.builder.ret((status or self.integer(0)).llvm)

    def text(self) -> str:
        """The kernel as LLVM assembly."""
        return str(self.module)


def emitter(body: Callable[[Kernel, Spec], Value | None]) -> Callable[[Spec, Target], str]:
    """A function that gives the LLVM text of a spec's kernel, of one that writes what the kernel
    does: it is given the kernel, which has the name and the arguments of the spec, and returns the
    status, if that is not always 0.
    """

    @wraps(body)
    def emit(spec: Spec, target: Target) -> str:
        k = Kernel(spec.name, spec.arguments, target)
        k.finish(body(k, spec))
        return k.text()

    return emit


def _masked_name(kind: str, type_: Type, lanes: int) -> str:
    return f"llvm.masked.{kind}.v{lanes}{'f' if type_.kind == 'float' else 'i'}{type_.bits}.p0"
