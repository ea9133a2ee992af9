"""The texts that a model becomes as C: `layout.h`, what `image.c` has, and assembly with its code,
words and constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from uncork.compiler.image import format
from uncork.kernels.runtime import (
    layout,
    loop_layout,
    processor,
    thread_pool,
    turns_layout,
    wasm,
)
from uncork.kernels.runtime.target import LEVELS, Target
from uncork.types import ElementType, PartialShape

#: Element types of arrays in the order of `model_type`, as NumPy writes them.
_TYPES = (
    "|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8",
)  # fmt: skip
#: The macros that C compilers define for an architecture.
_DEFINED = {"x86_64": "__x86_64__", "aarch64": "__aarch64__", "wasm32": "__wasm__"}
#: Where code begins: instructions of aarch64 count in pages.
_CODE_PAGE = 4096


def plans_of(description: format.Description) -> Iterator[format.Plan]:
    """The plans of all images."""
    for image in description.images:
        yield from (*image.plans, *image.initial)


def _only_for(image: format.Image) -> str:
    """The line of C that begins what only the compilers for an image read."""
    windows = LEVELS[image.level].system == "windows"
    return f"#if defined({_DEFINED[image.arch]}) && {'' if windows else '!'}defined(_WIN32)"


def shares(plan: format.Plan) -> bool:
    """Whether threads share steps of a plan."""
    return bool({"pool", "sched_yield"} & set(plan.symbols))


# ---- numbers that the runtime knows


def _enum(prefix: str, names: Sequence[str]) -> str:
    return "".join(f"#define {prefix}_{name.upper()} {i}\n" for i, name in enumerate(names))


def layout_text(description: format.Description, data: memoryview) -> str:
    """layout.h: orders of words, statuses, and how much of everything the model has."""
    plans = list(plans_of(description))
    statuses = (
        "OK", "OTHER_ARGUMENTS", "CHECK_FAILED", "GUARD_FAILED", "NO_MEMORY", "OVERFLOW",
    )  # fmt: skip
    pool = ("LOCK", "BEGUN", "ENDED", "SIGNALS")
    threads = description.images[0].arch != "wasm32" and any(map(shares, plans))
    counts = {
        "INPUTS": len(description.inputs),
        "OUTPUTS": len(description.outputs),
        "VARIABLES": len(description.variables.reads) if description.variables else 0,
        "GROWN": len(description.variables.grown) if description.variables else 0,
        "ARGUMENTS": max(len(plan.arguments) + plan.nothing for plan in plans),
        "RESULTS": max(len(plan.results) for plan in plans),
        "MADE": max(_made(plan, data) for plan in plans),
        "THREADS": int(threads),
    }
    misfits = " || ".join(f"(status) == {status}" for status in turns_layout.MISFITS)
    types = ", ".join(f'"{name}"' for name in ("", *_TYPES))
    return (
        "/* Orders of words, see layout.py of uncork and its neighbours; numbers of the model. */\n"
        "#ifndef UNCORK_LAYOUT_H\n#define UNCORK_LAYOUT_H\n\n"
        + _enum("HEAD", layout.HEAD)
        + _enum("CONTEXT", layout.CONTEXT)
        + f"#define CONTEXT_WORDS {len(layout.CONTEXT)}\n"
        + "".join(f"#define CALL_{name} ({getattr(layout, name)})\n" for name in statuses)
        + _enum("BIND", ("SHAPE", "I64", "I32"))
        + _enum("ROOM", loop_layout.ROOM)
        + f"#define TURNS_STATUS {turns_layout.TURNS_HEAD.index('status')}\n"
        + f"#define IMAGE_MISFIT(status) ({misfits})\n"
        + _enum("POOL", thread_pool.POOL)
        + "".join(f"#define POOL_{name}_AT {getattr(thread_pool, name)}\n" for name in pool)
        + f"#define POOL_BYTES {thread_pool.BYTES}\n#define LINE {layout.ALIGNMENT}\n\n"
        + "".join(f"#define IMAGE_{name} {count}\n" for name, count in counts.items())
        + f"#define IMAGE_TYPES {{{types}}}\n\n#endif\n"
    )


def _made(plan: format.Plan, data: memoryview) -> int:
    """How many arrays a call of a plan makes."""
    return int(format.array(data, plan.words, np.int64)[layout.HEAD.index("made")])


# ---- image.c


def _text(text: str) -> str:
    """A text as a literal of C."""
    coded = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'"{coded}"'


def _array(declaration: str, rows: Sequence[str]) -> str:
    """An array of C, which has one row at least."""
    return f"static const {declaration}[] = {{{', '.join(rows) or '0'}}};\n"


def _symbols(level: int, plan: int, kind: str) -> tuple[str, str, str]:
    """The names of a plan's words, their relocations and bases."""
    words, relocated, bases = (
        f"model_{part}_{level}_{kind}{plan}" for part in ("words", "relocated", "bases")
    )
    return words, relocated, bases


def image_text(description: format.Description, data: memoryview) -> str:
    """image.c: everything that is no bytes of the compiled file."""
    parts = ['#include "image.h"\n#include "processor.h"\n\n']
    for direction, ports in (("input", description.inputs), ("output", description.outputs)):
        rows = ", ".join(map(_port, ports)) or "{0}"
        parts.append(f"const model_port model_{direction}_ports[] = {{{rows}}};\n")
    parts += _variables(description)
    for number, image in enumerate(description.images):
        parts.append(f"\n{_only_for(image)}\n{_image(number, image, data)}#endif\n")
    parts.append("\nstatic const struct image *const images[] = {\n")
    for number, image in enumerate(description.images):
        parts.append(f"{_only_for(image)}\n  &image_{number},\n#endif\n")
    return "".join((*parts, "  0\n};\n", _CHOICE))


_CHOICE = """
const struct image *model_image(void) {
  const struct image *const *image = images;
  while (*image && !runs_here(*image)) image++;
  return *image;
}

int model_inputs(void) { return IMAGE_INPUTS; }
int model_outputs(void) { return IMAGE_OUTPUTS; }

const model_port *model_input(int number) {
  return number >= 0 && number < IMAGE_INPUTS ? model_input_ports + number : 0;
}

const model_port *model_output(int number) {
  return number >= 0 && number < IMAGE_OUTPUTS ? model_output_ports + number : 0;
}
"""


def _variables(description: format.Description) -> Iterator[str]:
    known = description.variables or format.Variables((), ())
    outputs = len(description.outputs)
    becomes = {one.variable: outputs + n for n, one in enumerate(known.assigned)}
    grows = {one.variable: one for one in known.grown}
    rows: list[str] = []
    computed = 0
    for number, read in enumerate(known.reads):
        dtype = ElementType.parse(read.element_type).dtype
        begin = read.begin
        begins, value = -1, "{0}"
        if begin is None:
            begins, computed = computed, computed + 1
        else:
            sizes = ", ".join(map(str, begin.shape)) or "0"
            # Bytes of a static array may be read as numbers where that begins at one.
            data = ", ".join(map(str, begin.data)) or "0"
            yield f"static const _Alignas(64) unsigned char begin_{number}[] = {{{data}}};\n"
            value = (
                f"{{(void *)begin_{number}, {len(begin.data)}, {1 + _TYPES.index(dtype.str)}, "
                f"{len(begin.shape)}, {{{sizes}}}}}"
            )
        grown = _grown(grows.get(read.variable))
        assigns = becomes.get(read.variable, -1)
        rows.append(f"{{{_text(read.variable)}, {begins}, {assigns}, {grown}, {value}}}")
    table = ", ".join(rows) or "{0}"
    yield f"const struct image_variable model_variables[] = {{{table}}};\n"


def _grown(one: format.Grown | None) -> str:
    """How a variable grows: its axis, the input that picks rows, their axis, and what it may do."""
    if one is None:
        return "-1, -1, 0, 0, 0, 0"
    picked = one.picked or format.Picked(-1, 0, 1, False)
    flags = int(picked.opset == 8), int(picked.strict), int(one.shape_is_read)
    return ", ".join(map(str, (one.axis, picked.input, picked.axis, *flags)))


def _port(port: format.Port) -> str:
    element_type, shape = ElementType.parse(port.element_type), PartialShape.parse(port.shape)
    sizes = [-1 if not d.is_static else int(d) for d in shape] if shape.rank is not None else []
    rank = -1 if shape.rank is None else shape.rank
    texts = ", ".join(map(_text, (port.names[0], port.element_type, port.shape)))
    known = ", ".join(map(str, sizes)) or "0"
    return f"{{{texts}, {1 + _TYPES.index(element_type.dtype.str)}, {rank}, {{{known}}}}}"


def _image(number: int, image: format.Image, data: memoryview) -> str:
    target = Target.of(image.arch, "", ",".join(image.features))
    places = sorted(
        filter(None, (processor.place_of(image.arch, feature) for feature in target.needs))
    )
    kept = processor.kept_states(target.needs) if image.arch == "x86_64" else 0
    parts = [
        _array(
            f"struct image_feature features_{number}",
            [f"{{{a}u, {b}, {c}, {d}}}" for a, b, c, d in places] or ["{0}"],
        ),
        _functions(number, image, data)
        if image.arch == "wasm32"
        else f"extern const unsigned char model_code_{number}[];\n",
    ]
    for kind, plans in (("", image.plans), ("i", image.initial)):
        written = _functions_of(image, data) if image.arch == "wasm32" else None
        made = [_plan(number, index, kind, plan, data, written) for index, plan in enumerate(plans)]
        parts += (text for text, _ in made)
        parts.append(
            _array(
                f"struct image_plan plans_{number}_{kind or 'p'}",
                [row for _, row in made] or ["{0}"],
            )
        )
    parts.append(
        f"static const struct image image_{number} = {{{_text(image.level)}, features_{number}, "
        f"{len(places)}, {kept:#x}u, model_code_{number}, {image.functions.get('serve', 0)}, "
        f"{len(image.plans)}, {len(image.initial)}, plans_{number}_p, plans_{number}_i}};\n"
    )
    return "".join(parts)


def _plan(
    level: int,
    index: int,
    kind: str,
    plan: format.Plan,
    data: memoryview,
    functions: Mapping[int, str] | None,
) -> tuple[str, str]:
    """What a plan needs to be declared, and the plan; with `functions` its words, too."""
    own = f"{level}_{kind}{index}"
    words, relocated, bases = _symbols(level, index, kind)
    parts = [f"extern const int64_t {words}[];\nextern const uint32_t {relocated}[], {bases}[];\n"]
    if functions is not None:
        parts = _data(words, relocated, bases, plan, data, list(functions))

    def numbers(name: str, values: Sequence[int]) -> str:
        parts.append(_array(f"int32_t {name}_{own}", list(map(str, values))))
        return f"{{{len(values)}, {name}_{own}}}"

    def of(declaration: str, name: str, rows: Sequence[str]) -> str:
        parts.append(_array(f"{declaration}{name}_{own}", rows))
        return f"{name}_{own}"

    def arrays(name: str, known: Sequence[format.Result]) -> tuple[str, str]:
        rows: list[str] = []
        for number, result in enumerate(known):
            sizes, rank = "0", -1
            if result.sizes is not None:
                rank = len(result.sizes)
                sizes = of("int64_t ", f"{name}_sizes{number}", list(map(str, result.sizes)))
            rows.append(f"{{{result.number}, {int(result.is_given)}, {rank}, {sizes}}}")
        return str(len(rows)), of("struct image_result ", name, rows or ["{0}"])

    extended = [format.Result(number, True, sizes) for number, sizes in plan.extended]
    result_count, results = arrays("results", plan.results)
    owners = [-1] * _made(plan, data)
    for number, result in reversed(list(enumerate(plan.results))):
        if not result.is_given:
            owners[result.number] = number
    conditions = [
        f"{{{_text(c.text)}, {_text(c.where)}, {int(c.is_guard)}}}" for c in plan.conditions
    ]
    steps = [_text(step.layer) for step in plan.steps if step.kernel not in ("view", "")]
    fields = (
        words,
        str(plan.words.bytes // 8),
        relocated,
        bases,
        str(plan.relocated.bytes // 4),
        str(len(plan.symbols)),
        of("char *const ", "symbols", list(map(_text, plan.symbols))),
        numbers("contexts", plan.contexts),
        numbers("turns", plan.turns),
        numbers("rooms", plan.rooms),
        str(len(plan.arguments)),
        str(plan.nothing),
        result_count,
        str(len(conditions)),
        str(len(steps)),
        results,
        numbers("made", owners),
        of("struct image_condition ", "conditions", conditions or ["{0}"]),
        of("char *const ", "steps", steps),
        *arrays("extended", extended),
    )
    row = f"{{{', '.join(fields)}}}"
    return "".join(parts), row


# ---- WebAssembly


def functions_of(image: format.Image, data: memoryview) -> dict[int, bytes]:
    """The objects of functions, by where they begin among the code."""
    code = bytes(data[image.code.offset : image.code.offset + image.code.bytes])
    begins = {
        int(word)
        for plan in (*image.plans, *image.initial)
        for word in format.array(data, plan.words, np.int64)[
            format.array(data, plan.relocated, np.uint32)[
                format.array(data, plan.bases, np.uint32) == 2
            ]
        ]
    }
    ends = [*sorted(begins)[1:], len(code)]
    return {begin: code[begin:end] for begin, end in zip(sorted(begins), ends, strict=True)}


def _functions_of(image: format.Image, data: memoryview) -> dict[int, str]:
    return {begin: wasm.symbol_in(part) for begin, part in functions_of(image, data).items()}


def _functions(number: int, image: format.Image, data: memoryview) -> str:
    """The table of functions, by number."""
    names = list(_functions_of(image, data).values())
    declared = "".join(f"extern int64_t {name}(int64_t);\n" for name in names)
    return (
        f"{declared}static int64_t (*const model_code_{number}[])(int64_t) = "
        f"{{{', '.join(names)}}};\n"
    )


def _data(
    words: str,
    relocated: str,
    bases: str,
    plan: format.Plan,
    data: memoryview,
    begins: Sequence[int],
) -> list[str]:
    """The words of a plan, where assembly does not take them from a file; functions are numbers."""
    values = format.array(data, plan.words, np.int64).copy()
    places, kinds = (format.array(data, s, np.uint32) for s in (plan.relocated, plan.bases))
    for place in places[kinds == 2]:
        values[place] = begins.index(int(values[place]))
    return [
        _array(f"int64_t {words}", [_number(int(value)) for value in values]),
        _array(f"uint32_t {relocated}", list(map(str, places))),
        _array(f"uint32_t {bases}", list(map(str, kinds))),
    ]


def _number(value: int) -> str:
    """A number of 64 bits; C has no literal for the least one."""
    return f"(-{-(value + 1)}LL - 1)" if value < 0 else f"{value}LL"


# ---- assembly


def parts_text(number: int, image: format.Image) -> str:
    """The code of an image and the words of its plans."""
    sections = [
        (name, section)
        for kind, plans in (("", image.plans), ("i", image.initial))
        for index, plan in enumerate(plans)
        for name, section in zip(
            _symbols(number, index, kind), (plan.words, plan.relocated, plan.bases), strict=True
        )
    ]
    return (
        f"{_SECTIONS}{_only_for(image)}\n"
        + _assembly(sections, [(f"model_code_{number}", image.code)])
        + "#endif\n"
        + _NO_STACK
    )


def constants_text(description: format.Description) -> str:
    """The constants of all images."""
    return _SECTIONS + _assembly([("model_constants", description.constants)]) + _NO_STACK


#: What assembly calls sections and symbols: on Windows, then elsewhere.
_SECTIONS = """#if defined(_WIN32)
#define DATA .section .rdata,"dr"
#define CODE .text
#define OWN(name) .globl name
#else
#define DATA .section .rodata
#define CODE .section .text.uncork,"ax",%progbits
#define OWN(name) .globl name; .hidden name; .type name, %object
#endif
"""
#: No stack that may be executed: linkers suppose it of assembly that does not say so.
_NO_STACK = '#if !defined(_WIN32)\n.section .note.GNU-stack,"",%progbits\n#endif\n'


def _assembly(
    data: Sequence[tuple[str, format.Section]], code: Sequence[tuple[str, format.Section]] = ()
) -> str:
    """Sections of the compiled file as data that is only read, and as code."""
    lines: list[str] = []
    for kind, alignment, sections in (
        ("DATA", layout.ALIGNMENT, data),
        ("CODE", _CODE_PAGE, code),
    ):
        for name, section in sections:
            lines += (
                kind,
                f".balign {alignment}",
                f"OWN({name})",
                f"{name}:",
                f'.incbin "model.uncork", {section.offset}, {section.bytes}'
                if section.bytes
                else ".byte 0",
            )
    return "\n".join(lines) + "\n"
