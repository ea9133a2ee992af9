"""Exact sums of products of codes and weights of 8 bits, by the best instructions that the
processor has.

No instruction that saturates is among them: it would lose some of pairs of large products.
"""

from __future__ import annotations

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import I16, I32, Kernel, Value
from uncork.kernels.gemm.dots import FOUR_MIXED, FOUR_SIGNED, PAIRS, SINGLE

#: The highest bit of each of four bytes: flipped, it makes signed bytes of codes less 128.
_HIGHEST = -0x7F7F7F80
#: Instructions by their lanes.
_MIXED = {16: "llvm.x86.avx512.vpdpbusd.512", 8: "llvm.x86.avx512.vpdpbusd.256"}
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
