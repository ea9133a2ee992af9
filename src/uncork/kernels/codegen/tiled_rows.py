"""The loop nest over rows cut into tiles: images, rows, tiles of pixels, groups of outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from uncork.kernels.codegen.emit import Kernel, Value

#: Writes the computation of a tile for one group of outputs: the kind of tile, by its place in
#: `widths`, the tile's places in the source and in the target, and the number of the group.
TileBody = Callable[[int, Value, Value, Value], None]


def tiled_rows(
    k: Kernel,
    a: Mapping[str, Value],
    widths: Sequence[int],
    inside: bool,
    target: Value | None,
    steps: tuple[int, Value | int],
    tile: TileBody,
    begin_group: Callable[[Value], None] | None = None,
) -> None:
    """Write the nest, by the kernel's arguments `a`; each row has `tiles_0` tiles of the first of
    the `widths`, then `tiles_1` of the next.

    `target` is where the result begins; without one, places in it count from 0. A pixel takes
    `steps` in the source and in the target. Groups are the innermost loop when `inside`, so that
    the source is read once; else each group has all rows before the next, so that the weights are,
    and `begin_group` writes what comes before them.
    """

    def row(image: Value, y: Value, group: Value | None) -> None:
        source = a["source"] + image * a["source_image"] + y * a["source_row"]
        first = image * a["target_image"]
        first = (first if target is None else target + first) + y * a["target_row"]
        x = k.variable(k.integer(0))
        for kind, width in enumerate(widths):
            with k.loop(0, a[f"tiles_{kind}"]):
                seen, made = source + x.get() * steps[0], first + x.get() * steps[1]
                if group is None:
                    with k.loop(0, a["groups"]) as number:
                        tile(kind, seen, made, number)
                else:
                    tile(kind, seen, made, group)
                x.set(x.get() + width)

    with k.loop(0, a["images"]) as image:
        if inside:
            with k.loop(0, a["rows"]) as y:
                row(image, y, None)
        else:
            with k.loop(0, a["groups"]) as group:
                if begin_group is not None:
                    begin_group(group)
                with k.loop(0, a["rows"]) as y:
                    row(image, y, group)
