"""Exact sums of products of codes and weights of 8 bits, by the best instructions that the
processor has.

None of them saturates, which would lose some of pairs of large products: the one instruction that
can (pmaddubsw) multiplies codes below 16 only, of which 8 sums of two products stay below 2^15.
"""

from __future__ import annotations

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import I16, I32, Kernel, Value, Variable
from uncork.kernels.gemm.dots import FOUR_MIXED, FOUR_SIGNED, FOUR_SMALL, PAIRS, SINGLE

#: The highest bit of each of four bytes: flipped, it makes signed bytes of codes less 128.
_HIGHEST = -0x7F7F7F80
#: Instructions by their lanes.
_MIXED = {
    16: "llvm.x86.avx512.vpdpbusd.512",
    8: "llvm.x86.avx512.vpdpbusd.256",
    4: "llvm.x86.avx512.vpdpbusd.128",
}
_SMALL = {
    16: "llvm.x86.avx512.pmaddubs.w.512",
    8: "llvm.x86.avx2.pmadd.ub.sw",
    4: "llvm.x86.ssse3.pmadd.ub.sw.128",
}
#: So many results of `small_products` may be added before they are more than 16 bits hold: a byte
#: is at least -128, and a code at most 15.
SMALL_SUMS = (1 << 15) // (2 * 128 * 15)
_PAIRED = {
    16: "llvm.x86.avx512.pmaddw.d.512",
    8: "llvm.x86.avx2.pmadd.wd",
    4: "llvm.x86.sse2.pmadd.wd",
}


def factor(k: Kernel, how: str, address: Value, lanes: int) -> Value:
    """The codes of a step, in every lane."""
    if how == SINGLE:
        return k.splat(k.load(address, I16), lanes)
    word = k.load(address, I32)
    return k.splat(word ^ _HIGHEST if how == FOUR_SIGNED else word, lanes)


def weights(k: Kernel, how: str, address: Value, lanes: int) -> Value:
    """The weights of a step, of a vector of columns."""
    return k.load(address, I16 if how == SINGLE else I32, lanes)


def added(k: Kernel, how: str, total: Value, codes: Value, weights: Value) -> Value:
    """The sums with the products of a step."""
    if how == SINGLE:
        return total + codes.to(I32) * weights.to(I32)
    lanes = total.lanes
    if how == FOUR_SMALL:
        return summed_pairs(k, total, small_products(k, codes, weights))
    if how == PAIRS:
        halves = ir.VectorType(ir.IntType(16), 2 * lanes)
        function = k.declared(_PAIRED[lanes], total.llvm.type, [halves, halves])
        given = [k.builder.bitcast(x.llvm, halves) for x in (codes, weights)]
        return total + Value(k, k.builder.call(function, given), I32, lanes)
    if how == FOUR_MIXED:
        kind = total.llvm.type
        function = k.declared(_MIXED[lanes], kind, [kind, kind, kind])
        return Value(
            k, k.builder.call(function, [total.llvm, codes.llvm, weights.llvm]), I32, lanes
        )
    quarters = ir.VectorType(ir.IntType(8), 4 * lanes)
    function = k.declared(
        f"llvm.aarch64.neon.sdot.v{lanes}i32.v{4 * lanes}i8",
        total.llvm.type,
        [total.llvm.type, quarters, quarters],
    )
    given = [total.llvm, *(k.builder.bitcast(x.llvm, quarters) for x in (codes, weights))]
    return Value(k, k.builder.call(function, given), I32, lanes)


def small_products(k: Kernel, codes: Value, numbers: Value) -> Value:
    """The sums of two products of bytes each, in 16 bits: of codes below 16 and signed numbers."""
    lanes = codes.lanes
    quarters = ir.VectorType(ir.IntType(8), 4 * lanes)
    halves = ir.VectorType(ir.IntType(16), 2 * lanes)
    function = k.declared(_SMALL[lanes], halves, [quarters, quarters])
    given = [k.builder.bitcast(x.llvm, quarters) for x in (codes, numbers)]
    return Value(k, k.builder.call(function, given), I16, 2 * lanes)


def small_sum(k: Kernel, a: Value, b: Value) -> Value:
    """The sum of two such results. It is written as one that saturates, which none of them does,
    because LLVM leaves those in their order: in another one registers do not hold them all.
    """
    kind = a.llvm.type
    function = k.declared(f"llvm.sadd.sat.v{a.lanes}i16", kind, [kind, kind])
    return Value(k, k.builder.call(function, [a.llvm, b.llvm]), I16, a.lanes)


def summed_pairs(k: Kernel, total: Value, halves: Value) -> Value:
    """Sums of 32 bits, with pairs of 16 bits added."""
    return added(k, PAIRS, total, halves, k.constant(1, I16, halves.lanes))


class Adder:
    """Adds products to sums: of bytes by codes below 16 as sums of 16 bits, as many as they hold,
    which `finish` adds to those of 32.
    """

    def __init__(self, k: Kernel, how: str) -> None:
        self.k, self.how = k, how
        self._small: dict[Variable, Value] = {}

    def add(self, total: Variable, codes: Value, numbers: Value) -> None:
        if self.how != FOUR_SMALL:
            total.set(added(self.k, self.how, total.get(), codes, numbers))
            return
        product, before = small_products(self.k, codes, numbers), self._small.get(total)
        self._small[total] = product if before is None else small_sum(self.k, before, product)

    def finish(self) -> None:
        for total, halves in self._small.items():
            total.set(summed_pairs(self.k, total.get(), halves))
