"""The emitter of transposes by square blocks, which are transposed in registers."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.codegen.emit import I32, Kernel, Value, emitter
from uncork.kernels.movement.spec import TransposeBlocks


@emitter
def emit_transpose_blocks(k: Kernel, spec: TransposeBlocks) -> None:
    """The LLVM text of the kernel: where rows or columns are no whole number of blocks, the last
    ones are in two blocks.
    """
    a = k.named
    side = spec.side

    def matrix(source: Value, target: Value) -> None:
        if not spec.open:
            _blocks(k, a, side, source, target)
            return
        with k.if_else((a["rows"] >= side) & (a["columns"] >= side), likely=True) as (blocks, few):
            with blocks:
                _blocks(k, a, side, source, target)
            with few, k.loop(0, a["columns"]) as column, k.loop(0, a["rows"]) as row:
                k.store(
                    k.load(source + row * a["row"] + column * 4, I32),
                    target + column * a["column"] + row * 4,
                )

    with k.loop(0, a["count_0"]) as i, k.loop(0, a["count_1"]) as j:
        matrix(
            a["source"] + i * a["from_0"] + j * a["from_1"],
            a["target"] + i * a["to_0"] + j * a["to_1"],
        )


def _blocks(k: Kernel, a: dict[str, Value], side: int, source: Value, target: Value) -> None:
    """Transpose one matrix, which has at least a block.

    Blocks follow each other along what is written: as many streams as a block has columns, which
    the processor follows. Along what is read, each store would be so many lines from the one
    before: where that is a power of two, they are all in the few places that a cache has for them.
    """
    with k.loop(0, a["columns"], side) as some_column:
        column = k.minimum(some_column, a["columns"] - side)
        with k.loop(0, a["rows"], side) as some_row:
            row = k.minimum(some_row, a["rows"] - side)
            begin = source + row * a["row"] + column * 4
            rows = [k.load(begin + a["row"] * n, I32, side) for n in range(side)]
            end = target + column * a["column"] + row * 4
            for n, turned in enumerate(columns_of(rows)):
                k.store(turned, end + a["column"] * n)


def columns_of(rows: Sequence[Value]) -> list[Value]:
    """The columns of a block, whose ever smaller quarters change places."""
    side, turned = len(rows), list(rows)
    distance = side // 2
    while distance:
        for n in range(side):
            if not n & distance:
                one, other = turned[n], turned[n + distance]
                # Lanes of the second vector are counted on from those of the first.
                turned[n] = one.kernel.picked(
                    one, other, [side + x - distance if x & distance else x for x in range(side)]
                )
                turned[n + distance] = one.kernel.picked(
                    one, other, [side + x if x & distance else x + distance for x in range(side)]
                )
        distance //= 2
    return turned
