"""Selection of the loop nest that normalises: groups of channels or each pixel over channels, with
what follows element by element, NormalizeL2, GRN, LRN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from uncork.internal_ops.blocks import BlockedNormalization
from uncork.internal_ops.channel_norm import ChannelNormalization
from uncork.internal_ops.fused import product_of
from uncork.kernels.epilogue import CHANNEL, ELEMENT, NUMBER, Epilogue
from uncork.kernels.extents import (
    KernelDeclined,
    certainly,
    compute_nothing_of,
    decline_if,
    extents,
    product,
)
from uncork.kernels.kernel_plan import In, Out, Scratch, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.axes import BLOCK, AxisGroup, Groups, literal
from uncork.kernels.loops.language import SCALAR_OP
from uncork.kernels.loops.nest_call import Call, View, computed_type, row_bytes
from uncork.kernels.loops.spec import AGAIN, MASKED
from uncork.kernels.runtime.target import Target
from uncork.kernels.select_epilogue import epilogue_of
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axes
from uncork.ops.batch_norm import GroupNormalization
from uncork.ops.mvn import MVN6
from uncork.ops.normalization import GRN, LRN, NormalizeL2
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec

#: Windows of LRN of up to so many cells are written out.
_WRITTEN_OUT = 9
#: Pixels that are normalised over blocks of channels beside each other.
_PIXELS = 4
#: Sums of pixels that run beside each other.
_CHAINS = 4
Specs = Sequence[TensorSpec]
Rule = Callable[[Operation, Specs, tuple[SizeLike, ...], str, Target], Selection]


def select_normalising(layer: Layer) -> Selection:
    operation, inputs, target = layer.operation, layer.inputs, layer.target
    given = [spec for spec in inputs if spec is not None]
    name = given[0].element_type.name
    shape = extents(given[0])
    if isinstance(operation, NormalizeL2):
        layer.constant(1, "axes")  # wrong ones are refused, however little there is to compute
    compute_nothing_of(shape, "normalise")
    return _RULES[operation.type_name](operation, given, shape, name, target)


def _group(
    operation: Operation, inputs: Specs, shape: tuple[SizeLike, ...], name: str, target: Target
) -> Selection:
    """GroupNormalization by two passes over each group, its mean, then the mean of the squared
    distances from it, and a third that ends with the epilogue.
    """
    norm = product_of(operation)
    if isinstance(norm, ChannelNormalization):
        return _channels(operation, norm, inputs, shape, name, target)
    assert isinstance(norm, GroupNormalization)
    end, positions = epilogue_of(operation, inputs, inputs[0], 1)
    groups, inner = norm.num_groups, product(shape[2:])
    channels = shape[1] // groups
    decline_if(
        any(not certainly(product(extents(spec)), 1) and spec.rank != 1 for spec in inputs[1:3]),
        "no kernel for such a scale or bias",
    )
    length = channels * inner
    kept = AxisGroup("n", shape[0], False), AxisGroup("g", groups, False)
    whole_group = Groups((*kept, AxisGroup("r", length, True)))
    lines = [
        *whole_group.summed("s", "F[{e}]"),
        "m = s / number(count)",
        *whole_group.summed("q", "(F[{e}] - m) * (F[{e}] - m)"),
        f"d = 1.0 / sqrt(q / number(count) + {literal(norm.epsilon)})",
        "c:",
        "  w = W[g, c] * d",
        "  b = B[g, c]",
        "  x*:",
        "    value_0 = (X[n, g, c, x] - m) * w + b",
        *(f"    {line}" for line in _end_lines(end, "g, c", "n, g, c, x")),
    ]
    text = "\n  ".join(["n g:", *lines])
    whole = (shape[0], groups, channels, inner)
    lie = {CHANNEL: (groups, channels), ELEMENT: whole, NUMBER: (1,)}
    views = {"F": View(In(0), name, (shape[0], groups, length))}
    views |= _views(name, name, lie) | _end_views(end, positions, inputs, lie)
    sizes = {"n": shape[0], "g": groups, "r": length, "c": channels, "x": inner}
    sizes |= {"count": length, "blocks": length // BLOCK}
    return Call(
        "group_normalise", text, sizes, views, target, 4, product(shape) // 6, shared=("g", "n")
    ).native()


def _channels(
    operation: Operation,
    norm: ChannelNormalization,
    inputs: Specs,
    shape: tuple[SizeLike, ...],
    name: str,
    target: Target,
) -> Selection:
    """ChannelNormalization of some vectors of pixels at a time, channel by channel."""
    end, positions = epilogue_of(operation, inputs, inputs[0], 1)
    channels, inner = shape[1], product(shape[2:])
    g = Groups(
        (
            AxisGroup("n", shape[0], False),
            AxisGroup("c", channels, True),
            AxisGroup("x", inner, False),
        )
    )
    less = "X[{e}] - m" if norm.centred else "X[{e}]"
    mean = [*g.summed("s", "X[{e}]"), "m = s / number(count)"] if norm.centred else []
    lines = [
        *mean,
        *g.summed("q", f"({less}) * ({less})"),
        f"d = 1.0 / sqrt(q / number(count) + {literal(norm.epsilon)})",
        "c:",
        f"  value_0 = ({less.replace('{e}', g.element)}) * (W[c] * d) + B[c]",
        *(f"  {line}" for line in _end_lines(end, "c", g.element)),
    ]
    text = "\n  ".join(["n x*:", *lines])
    lie = {CHANNEL: (channels,), ELEMENT: (shape[0], channels, inner), NUMBER: (1,)}
    views = _views(name, name, lie) | _end_views(end, positions, inputs, lie)
    sizes = g.sizes | {"count": channels, "blocks": channels // BLOCK}
    return Call(
        *("channel_normalise", text, sizes, views, target, 4, product(shape) // 6),
        shared=("n", "x"),
    ).native()


def _blocked(
    operation: Operation, inputs: Specs, shape: tuple[SizeLike, ...], name: str, target: Target
) -> Selection:
    """A normalisation over blocks of channels, with what ends it."""
    assert isinstance(operation, BlockedNormalization)
    plain = [spec for spec in operation.plain(inputs) if spec is not None]
    norm = product_of(operation.operation)
    end, positions = epilogue_of(operation.operation, plain, plain[0], 1)
    if isinstance(norm, ChannelNormalization):
        return _blocked_channels(norm, end, positions, inputs, shape, name, target)
    return _blocked_groups(norm, end, positions, inputs, shape, name, target)


def _blocked_channels(
    norm: ChannelNormalization,
    end: Epilogue,
    positions: Sequence[int],
    inputs: Specs,
    shape: tuple[SizeLike, ...],
    name: str,
    target: Target,
) -> Selection:
    """ChannelNormalization over blocks of channels, of some pixels at a time: sums of each lane,
    and of the lanes of a pixel. Blocks of several vectors are summed pixel by pixel.
    """
    images, blocks, *pixels, block = shape
    assert isinstance(blocks, int) and isinstance(block, int)
    inner, held, lanes = product(pixels), computed_type(name), min(block, target.lanes)
    by_vectors = lanes == block
    # Of a whole vector the lanes of a pixel are neighbours of those of the next one.
    lie: dict[str, tuple[SizeLike, ...]] = {
        CHANNEL: (blocks, block),
        ELEMENT: (images, blocks, inner * block) if by_vectors else (images, blocks, inner, block),
        NUMBER: (1,),
    }
    at = {
        "c": f"c, x % {block}" if by_vectors else "c, l",
        "e": "n, c, x" + ", l" * (not by_vectors),
    }
    less = f"X[{at['e']}] - m" if norm.centred else f"X[{at['e']}]"
    loops, of_lanes = ("c", "lane_sum({})") if by_vectors else ("c l*", "{}")

    def mean(value: str, term: str) -> list[str]:
        total = of_lanes.format(f"{value}_sum")
        return [f"{loops}: {value}_sum = sum({term})", f"{value} = {total} / number(terms)"]

    lines = [
        *(mean("m", f"X[{at['e']}]") if norm.centred else []),
        *mean("q", f"({less}) * ({less})"),
        f"d = 1.0 / sqrt(q + {literal(norm.epsilon)})",
        f"{loops}:",
        f"  value_0 = ({less}) * (W[{at['c']}] * d) + B[{at['c']}]",
        *(f"  {line}" for line in _end_lines(end, at["c"], at["e"])),
    ]
    text = "\n  ".join(["n x*:" if by_vectors else "n x:", *lines])
    views = _views(name, held, lie) | _end_views(end, positions, inputs, lie)
    sizes: dict[str, SizeLike] = dict(zip("ncxl", lie[ELEMENT], strict=False))
    unroll, cost = _PIXELS if by_vectors else 1, product(shape) // 6
    return Call(
        *("channel_normalise_blocks", text, sizes | {"terms": blocks * block}, views, target),
        *(unroll, cost),
        shared=("n", "x"),
        tail=AGAIN if by_vectors else MASKED,
        lanes=lanes,
    ).native()


def _blocked_groups(
    norm: Operation,
    end: Epilogue,
    positions: Sequence[int],
    inputs: Specs,
    shape: tuple[SizeLike, ...],
    name: str,
    target: Target,
) -> Selection:
    """GroupNormalization over blocks of channels, as `_group` makes it, or MVN of the pixels of
    each channel. Sums are those of each channel first, and then those of groups: of so many whole
    blocks as hold whole groups.
    """
    images, blocks, *pixels, block = shape
    assert isinstance(norm, (GroupNormalization, MVN6))
    assert isinstance(blocks, int) and isinstance(block, int)
    plain = isinstance(norm, MVN6)
    each = 1 if isinstance(norm, MVN6) else blocks * block // norm.num_groups
    epsilon = norm.eps if isinstance(norm, MVN6) else norm.epsilon
    inner = product(pixels)
    unit, held = math.lcm(each, block), computed_type(name)
    whole = (images, blocks * block // unit, unit // block, inner, block)
    channel, member = f"{block}*c + l", f"{each}*g + i"

    def by_groups(total: str, made: str) -> list[str]:
        """The lines that give all channels of a group what is made of the sum of their sums."""
        return [
            "g:",
            f"  i*: {total} = sum(S[{member}])",
            *(f"  {line}" for line in made.split("; ")),
        ]

    squared = "(X[n, u, c, {x}, l] - m) * (X[n, u, c, {x}, l] - m)"
    deviation = f"1.0 / sqrt(total / number(terms) + {literal(epsilon)})"
    lines = [
        "c:",
        "  l*:",
        *(f"    {line}" for line in _in_chains("s", "X[n, u, c, {x}, l]", inner)),
        f"    S[{channel}] = s",
        *by_groups("total", f"mean = total / number(terms); i*: M[{member}] = mean"),
        "c:",
        "  l*:",
        f"    m = M[{channel}]",
        *(f"    {line}" for line in _in_chains("q", squared, inner)),
        f"    S[{channel}] = q",
        *by_groups("total", f"deviation = {deviation}; i*: S[{member}] = deviation"),
        "c:",
        "  l*:",
        f"    m = M[{channel}]",
        f"    w = {'' if plain else 'W[u, c, l] * '}S[{channel}]",
        *(["    b = B[u, c, l]"] * (not plain)),
        "    x:",
        f"      value_0 = (X[n, u, c, x, l] - m) * w{'' if plain else ' + b'}",
        *(f"      {line}" for line in _end_lines(end, "u, c, l", "n, u, c, x, l")),
    ]
    text = "\n  ".join(["n u:", *lines])
    lie = {CHANNEL: (whole[1], whole[2], block), ELEMENT: whole, NUMBER: (1,)}
    views = {
        "X": View(In(0), name, whole),
        "S": View(Scratch(), held, (unit,)),
        "M": View(Scratch(row_bytes(unit, held)), held, (unit,)),
        "Y": View(Out(0), name, whole),
    }
    if not plain:
        views |= {"W": View(In(1), held, lie[CHANNEL]), "B": View(In(2), held, lie[CHANNEL])}
    views |= _end_views(end, positions, inputs, lie)
    sizes: dict[str, SizeLike] = dict(zip("nucxl", whole, strict=True))
    sizes |= {"g": unit // each, "i": each, "terms": each * inner}
    sizes |= _chains_of(inner)
    cost, scratch = product(shape) // 6, 2 * row_bytes(unit, held)
    return Call(
        *("group_normalise_blocks", text, sizes, views, target, 1, cost, scratch),
        shared=("u", "n"),
        lanes=min(block, target.lanes),
    ).native()


def _chains_of(count: SizeLike) -> dict[str, SizeLike]:
    """What `_in_chains` counts of so many terms."""
    return {"count": count, "some": count // _CHAINS, "parts": count // BLOCK}


def _in_chains(name: str, term: str, count: SizeLike) -> list[str]:
    """The lines that sum so many terms, which have their number as `{x}`, in some chains: an
    addition waits for the one before it. Sums of many numbers are those of blocks, which lose less.
    """

    def over(bounds: str, mark: str) -> tuple[str, str]:
        """A loop over so many turns of all chains, and the sum of these."""
        own = [f"{name}{mark}{number}" for number in range(_CHAINS)]
        terms = [term.replace("{x}", f"{_CHAINS}*{name}{mark} + {n}") for n in range(_CHAINS)]
        sums = "; ".join(f"{o} = sum({t})" for o, t in zip(own, terms, strict=True))
        return f"{name}{mark}={bounds}: {sums}", " + ".join(own)

    rest = term.replace("{x}", f"{name}_rest")
    last = f"{name}_rest={_CHAINS}*some..count: {name}_of_rest = sum({rest})"
    if isinstance(count, int) and count <= _CHAINS * BLOCK:
        line, total = over("0..some", "_in")
        return [line, last, f"{name} = {total} + {name}_of_rest"]
    turns = BLOCK // _CHAINS
    first = f"{turns}*{name}_part"
    block, of_block = over(f"{first}..{first}+{turns}", "_in")
    line, total = over(f"{turns}*parts..some", "_behind")
    return [
        f"{name}_part=0..parts:",
        f"  {block}",
        f"  {name}_of_parts = sum({of_block})",
        line,
        last,
        f"{name} = {name}_of_parts + {total} + {name}_of_rest",
    ]


def _views(name: str, held: str, lie: Mapping[str, tuple[SizeLike, ...]]) -> dict[str, View]:
    """The views of data and result, which are of one type, and of factors and summands of channels,
    of another; `lie` has the sizes of each kind.
    """
    return {
        "X": View(In(0), name, lie[ELEMENT]),
        "W": View(In(1), held, lie[CHANNEL]),
        "B": View(In(2), held, lie[CHANNEL]),
        "Y": View(Out(0), name, lie[ELEMENT]),
    }


def _end_views(
    end: Epilogue,
    positions: Sequence[int],
    inputs: Specs,
    lie: Mapping[str, tuple[SizeLike, ...]],
) -> dict[str, View]:
    """The views of the operands of an epilogue, which are the inputs at these positions; `lie` has
    the sizes of each kind.
    """
    return {
        f"E{index}": View(In(position), inputs[position].element_type.name, lie[kind])
        for index, (kind, position) in enumerate(zip(end.operands, positions, strict=True))
    }


def _end_lines(end: Epilogue, channel: str, element: str) -> list[str]:
    """The lines of a nest of groups that make the result of `value_0`, and store it, where operands
    are read at these indices.
    """
    read = {CHANNEL: channel, ELEMENT: element, NUMBER: "0"}
    given = ["value_0", *(f"E{n}[{read[kind]}]" for n, kind in enumerate(end.operands))]
    lines: list[str] = []
    for number, op in enumerate(end.ops, 1):
        words = [given[n] for n in op.arguments] + [_number(n) for n in op.constants]
        lines.append(f"value_{number} = {SCALAR_OP}{op.op}({', '.join(words)})")
        given.append(f"value_{number}")
    return [*lines, f"Y[{element}] = value_{len(end.ops)}"]


def _number(number: float) -> str:
    """A number of an operation as the language writes it: infinity is what no f64 holds."""
    decline_if(math.isnan(number), "no kernel for NaN among the numbers of an operation")
    return repr(number).replace("inf", "1e999")


def _norm(
    operation: Operation, inputs: Specs, shape: tuple[SizeLike, ...], name: str, target: Target
) -> Selection:
    """GRN and NormalizeL2: the input divided by the root of a sum of squares."""
    if isinstance(operation, GRN):
        axes: tuple[int, ...] = (1,)
        total = f"s + {literal(operation.bias)}"
    else:
        assert isinstance(operation, NormalizeL2)
        axes = _axes(operation, inputs[1], len(shape))
        small = literal(operation.eps)
        total = f"s + {small}" if operation.eps_mode == "add" else f"larger(s, {small})"
    g = Groups.of(shape, axes)
    x = f"X[{g.element}]"
    text = (
        f"{g.kept}:\n  {g.reduced}: s = sum({x} * {x})\n  d = 1.0 / sqrt({total})\n  "
        f"{g.reduced}: Y[{g.element}] = {x} * d"
    )
    return g.nest("normalise", text, name, target, 0.15, vectors=4).native()


def _axes(operation: Operation, axes: TensorSpec, rank: int) -> tuple[int, ...]:
    if axes.value is None:
        raise KernelDeclined("axes are known at the call only")
    return normalised_axes(operation, axes.value, rank)


def _window(
    operation: Operation, inputs: Specs, shape: tuple[SizeLike, ...], name: str, target: Target
) -> Selection:
    """LRN: squares summed over a window along some axes; all axes before and between the others are
    loops.
    """
    lrn = cast("LRN", operation)
    along = _axes(lrn, inputs[1], len(shape))
    radius = lrn.size // 2
    groups: list[tuple[str, SizeLike, bool]] = []
    for axis, size in enumerate(shape):
        if groups and axis not in along and not groups[-1][2]:
            groups[-1] = (groups[-1][0], groups[-1][1] * size, False)
        else:
            groups.append(("abcdef"[len(groups)] if len(groups) < 6 else "", size, axis in along))
    decline_if(not groups or len(groups) > 5, "no kernel for such axes")
    taps = [f"{name}{name}" for name, _, windowed in groups if windowed]
    count = (2 * radius + 1) ** len(taps)
    written_out = count <= _WRITTEN_OUT
    loops = " ".join(f"{tap}={2 * radius + 1}" if written_out else tap for tap in taps)
    cell = (
        "pad(X["
        + ", ".join(f"{n} + {n}{n} - {radius}" if windowed else n for n, _, windowed in groups)
        + "], 0.0)"
    )
    element = ", ".join(n for n, _, _ in groups)
    base = f"{literal(lrn.bias)} + {literal(lrn.alpha / lrn.size ** len(along))} * s"
    lines = [" ".join(n for n, _, _ in groups) + "*:"]
    lines += [
        f"  {loops}: s = sum({cell} * {cell})" if taps else f"  s = X[{element}] * X[{element}]"
    ]
    lines += [f"  t = {base}", f"  Y[{element}] = X[{element}] / {_power('t', lrn.beta, name)}"]
    sizes = {n: size for n, size, _ in groups} | dict.fromkeys(taps, 2 * radius + 1)
    whole = tuple(size for _, size, _ in groups)
    views = {"X": View(In(0), name, whole), "Y": View(Out(0), name, whole)}
    cost = product(shape) * count // 8
    return Call(
        "normalise_windows",
        "\n".join(lines),
        sizes,
        views,
        target,
        1,
        cost,
        shared=[n for n, _, windowed in groups if not windowed],
    ).native()


def _power(value: str, exponent: float, name: str) -> str:
    """The expression of a power of a value, by square roots where these give it."""
    known = {
        1.0: value,
        0.5: f"sqrt({value})",
        0.75: f"(sqrt({value}) * sqrt(sqrt({value})))",
        0.25: f"sqrt(sqrt({value}))",
    }
    if exponent in known:
        return known[exponent]
    decline_if(
        name == "f64" or not math.isfinite(exponent),
        f"no kernel for powers of {exponent} of {name}",
    )
    return f"exp({literal(exponent)} * log({value}))"


_RULES: dict[str, Rule] = {
    "BlockedNormalization": _blocked,
    "ChannelNormalization": _group,
    "FusedNormalization": _group,
    "GroupNormalization": _group,
    "GRN": _norm,
    "LRN": _window,
    "NormalizeL2": _norm,
}
