"""StringTensorPack-15, StringTensorUnpack-15: strings from the UTF-8 bytes of all of them in a row,
and back.

    Pack:     output[i..] = symbols[begins[i..] : ends[i..]]
    Unpack:   symbols = the bytes of all strings in row-major order
              begins and ends tell where each lies

Pages: operation-specs/type/string-tensor-pack-15, string-tensor-unpack-15. Ranges may overlap and
leave bytes out. Refused: a range outside symbols or that ends before it begins, bytes that are not
UTF-8, and texts of 2**31 bytes or more, whose ends are no i32.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from uncork.ops._common.indices import refuse_first
from uncork.ops._common.shapes import require_rank
from uncork.ops._operation import FOLD_LIMIT, Operation, register
from uncork.ops._ports import I32_I64, STRING, Input, Output
from uncork.types import DYNAMIC, Array, Dimension, ElementType, PartialShape, TensorSpec


@register("StringTensorPack", 15)
class StringTensorPack15(Operation):
    """`begins` and `ends` of one shape, `symbols [n]`."""

    begins = Input(I32_I64, "I")
    ends = Input(I32_I64, "I")
    symbols = Input(frozenset({ElementType.u8}))
    output = Output(ElementType.string)

    def infer(self, begins: TensorSpec, ends: TensorSpec, symbols: TensorSpec) -> PartialShape:
        require_rank(self, "symbols", symbols, 1)
        return self.wanted(
            begins.shape.merge(ends.shape),
            "expected begins and ends of one shape, got {} and {}",
            begins.shape,
            ends.shape,
        )

    def reference(self, begins: Array, ends: Array, symbols: Array) -> Array:
        refuse_first(
            self,
            "begins",
            begins,
            (begins < 0) | (begins > len(symbols)),
            f"0 to {len(symbols)}, the number of symbols",
        )
        refuse_first(
            self,
            "ends",
            ends,
            (ends < begins) | (ends > len(symbols)),
            f"its begin to {len(symbols)}, the number of symbols",
        )
        text = symbols.tobytes()
        output = np.empty(begins.shape, object)
        for place in np.ndindex(*begins.shape):
            try:
                output[place] = text[int(begins[place]) : int(ends[place])].decode("utf-8")
            except UnicodeDecodeError as error:
                self.refuse(
                    "input 'symbols': string {} (bytes {} to {}) is not UTF-8: {}",
                    list(place),
                    begins[place],
                    ends[place],
                    error.reason,
                )
        return output


@register("StringTensorUnpack", 15)
class StringTensorUnpack15(Operation):
    """`data` of any shape -> `begins` and `ends` of that shape, `symbols [n]`."""

    data = Input(STRING)
    begins = Output(ElementType.i32)
    ends = Output(ElementType.i32)
    symbols = Output(ElementType.u8)

    def infer(self, data: TensorSpec) -> list[PartialShape]:
        size = DYNAMIC
        if data.value is not None and data.value.size <= FOLD_LIMIT:
            size = Dimension.of(sum(len(text) for text in self.encoded(data.value)))
        return [data.shape, data.shape, PartialShape([size])]

    def encoded(self, data: Array) -> Iterator[bytes]:
        """Every string in UTF-8."""
        for text in data.ravel().tolist():
            try:
                yield text.encode("utf-8")
            except UnicodeEncodeError:
                self.refuse(
                    "input 'data': {!r} has half of a surrogate pair and cannot be "
                    "written as UTF-8",
                    text,
                )

    def reference(self, data: Array) -> list[Array]:
        sizes = np.array([len(text) for text in self.encoded(data)], np.int64)
        ends = np.cumsum(sizes)
        if sizes.sum() >= 2**31:
            self.refuse("input 'data': expected less than 2**31 bytes of text, got {}", sizes.sum())
        symbols = np.frombuffer(b"".join(self.encoded(data)), np.uint8)
        return [(ends - sizes).reshape(data.shape), ends.reshape(data.shape), symbols]
