"""C that executes tile instructions one after the other, and each form of address that a compiler
may write.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.kernels import _bf16 as bf16

#: What a step may be.
CONFIGURE, RELEASE, ZERO, LOAD, STORE, DOT, CALL, SET_MXCSR, GET_MXCSR, DOT_BYTES, DOT_SIGNED = (
    range(11)
)
#: Where LOW_FORMS find a configuration and rows: they have no register but that of the distance.
LOW, LOW_ROWS = 0x20000000, 0x20000100

_STEPS = """
#define _GNU_SOURCE
#include <immintrin.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

struct step {{
    long kind, tile, first, second;
    void *place;
    long stride;
    void (*function)(void *, long);
}};

__attribute__((target("amx-tile,amx-bf16,amx-int8")))
void run(const struct step *step, long count) {{
    for (const struct step *end = step + count; step < end; step++) {{
        char *place = step->place;
        long stride = step->stride;
        switch (step->kind) {{
        case 0: _tile_loadconfig(place); break;
        case 1: _tile_release(); break;
        case 2: switch (step->tile) {{ {zero} }} break;
        case 3: switch (step->tile) {{ {load} }} break;
        case 4: switch (step->tile) {{ {store} }} break;
        case 5: switch (step->tile * 100 + step->first * 10 + step->second) {{ {dot} }} break;
        case 6: step->function(place, stride); break;
        case 7: _mm_setcsr(stride); break;
        case 8: *(unsigned *)place = _mm_getcsr(); _mm_setcsr(0x1F80); break;
        case 9: switch (step->tile * 100 + step->first * 10 + step->second) {{ {dot_bytes} }} break;
        case 10:
            switch (step->tile * 100 + step->first * 10 + step->second) {{ {dot_signed} }}
            break;
        }}
    }}
}}

void *low_memory(void) {{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    return mmap((void *){low}, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
}}

static void say(int number) {{
    if (write(1, "the handler before\\n", 19) == 19)
        _exit(0);
}}

void handle_before(void) {{ signal(SIGILL, say); }}

/* What the emulator does not know. */
void undefined(void *place, long stride) {{ __asm__ volatile("ud2"); }}
void product_of_bytes(void *place, long stride) {{
    __asm__ volatile("tdpbssd %tmm0, %tmm1, %tmm2");
}}
/* Assemblers refuse to write tdpbf16ps with a tile twice. */
void twice(void *place, long stride) {{ __asm__ volatile(".byte 0xC4, 0xE2, 0x72, 0x5C, 0xC1"); }}

/* Hidden, so that it is found by its distance from the instruction. */
__attribute__((visibility("hidden"))) char near_configurations[2][64];
void *near_memory(void) {{ return near_configurations; }}
"""

_FUNCTION = """
.globl {name}
{name}:
    push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15
    {instructions}
    pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx
    ret
"""


@dataclass(frozen=True)
class Form:
    """An address of memory: `displacement(base, index, scale)`. Its functions are given base and
    index; they use tile 3.
    """

    displacement: int
    base: str | None
    index: str | None
    scale: int = 1

    @property
    def text(self) -> str:
        index = "" if self.index is None else f",%{self.index},{self.scale}"
        base = "" if self.base is None else f"%{self.base}"
        return (
            f"{self.displacement or ''}({base}{index})" if base or index else str(self.displacement)
        )

    def function(self, instruction: str) -> str:
        return (
            f"{instruction}_{self.displacement & 0xFFFFFFFF}_{self.base}_{self.index}_{self.scale}"
        )

    def assembly(self) -> Iterator[str]:
        """One function for each instruction that has such an address."""
        begin = "push %rsi; push %rdi; " + "; ".join(
            f"pop %{r}" if r else "add $8, %rsp" for r in (self.base, self.index)
        )
        yield _FUNCTION.format(
            name=self.function("load"), instructions=f"{begin}; tileloadd {self.text}, %tmm3"
        )
        yield _FUNCTION.format(
            name=self.function("store"), instructions=f"{begin}; tilestored %tmm3, {self.text}"
        )
        yield _FUNCTION.format(
            name=self.function("configure"), instructions=f"{begin}; ldtilecfg {self.text}"
        )


_REGISTERS = ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", *(f"r{n}" for n in range(8, 16))]
_DISPLACEMENTS = [0, 8, -128, 127, 128, -0x12345678, 0x7FFFFF00]
FORMS = [
    Form(_DISPLACEMENTS[n % 7], base, index, 1 << n % 4)
    for n, (base, index) in enumerate(itertools.product(_REGISTERS, [*_REGISTERS, None]))
    if base != index
]
#: Addresses without a base, and with nothing at all.
LOW_FORMS = [Form(LOW_ROWS, None, "rsi", scale) for scale in (1, 2, 4, 8)] + [
    Form(LOW_ROWS, None, None)
]

_FIXED = [
    _FUNCTION.format(name="configure_near_0", instructions="ldtilecfg near_configurations(%rip)"),
    _FUNCTION.format(
        name="configure_near_1", instructions="ldtilecfg near_configurations+64(%rip)"
    ),
    _FUNCTION.format(name="configure_low", instructions=f"ldtilecfg {LOW}"),
    # Through the stack, as compilers keep tiles when they have too few: from tile 3 to tile 4.
    _FUNCTION.format(
        name="over_the_stack",
        instructions="""sub $1100, %rsp
        ldtilecfg (%rdi); tileloadd 64(%rdi,%rsi), %tmm3
        tilestored %tmm3, 8(%rsp,%rsi,2); tileloadd 8(%rsp,%rsi,2), %tmm4
        tilestored %tmm4, 64(%rdi,%rsi); add $1100, %rsp""",
    ),
]


class Step(ctypes.Structure):
    """One of the steps that `run` executes."""

    _fields_ = (
        *((name, ctypes.c_long) for name in ("kind", "tile", "first", "second")),
        ("place", ctypes.c_void_p),
        ("stride", ctypes.c_long),
        ("function", ctypes.c_void_p),
    )


class Steps:
    """Tile instructions in a row, without anything between them. What they touch is kept until they
    have run.
    """

    def __init__(self, code: ctypes.CDLL) -> None:
        self._code = code
        self._steps: list[Step] = []
        self._kept: list[object] = []

    def configure(self, configuration: bytes | np.ndarray) -> Steps:
        return self._add(CONFIGURE, place=np.frombuffer(configuration, np.uint8))

    def release(self) -> Steps:
        return self._add(RELEASE)

    def zero(self, tile: int) -> Steps:
        return self._add(ZERO, tile)

    def load(self, tile: int, place: np.ndarray, stride: int | None = None) -> Steps:
        """Rows from an array, which are its rows unless another distance is given (bytes)."""
        return self._add(
            LOAD, tile, place=place, stride=place.strides[0] if stride is None else stride
        )

    def store(self, tile: int, place: np.ndarray, stride: int | None = None) -> Steps:
        return self._add(
            STORE, tile, place=place, stride=place.strides[0] if stride is None else stride
        )

    def dot(self, tile: int, first: int, second: int) -> Steps:
        return self._add(DOT, tile, first, second)

    def dot_bytes(self, tile: int, first: int, second: int, signed: bool = False) -> Steps:
        """Of bytes, the first ones or the second ones of which have a sign."""
        return self._add(DOT_SIGNED if signed else DOT_BYTES, tile, first, second)

    def call(self, function: str, place: np.ndarray | int = 0, stride: int = 0) -> Steps:
        """A function of this code, by its name."""
        address = ctypes.cast(getattr(self._code, function), ctypes.c_void_p).value
        return self._add(CALL, place=place, stride=stride, function=address)

    def set_mxcsr(self, value: int) -> Steps:
        return self._add(SET_MXCSR, stride=value)

    def get_mxcsr(self, place: np.ndarray) -> Steps:
        """Read it, and leave the usual value."""
        return self._add(GET_MXCSR, place=place)

    def run(self) -> None:
        self._code.run((Step * len(self._steps))(*self._steps), ctypes.c_long(len(self._steps)))

    def _add(
        self,
        kind: int,
        tile: int = 0,
        first: int = 0,
        second: int = 0,
        place: np.ndarray | int = 0,
        stride: int = 0,
        function: int | None = None,
    ) -> Steps:
        self._kept.append(place)
        address = place if isinstance(place, int) else place.ctypes.data
        self._steps.append(Step(kind, tile, first, second, address, stride, function))
        return self


def configuration(*shapes: tuple[int, int], palette: int = 1, start_row: int = 0) -> np.ndarray:
    """What LDTILECFG reads: (rows, bytes of a row) of tile 0 and on."""
    bytes_ = np.zeros(64, np.uint8)
    bytes_[0], bytes_[1] = palette, start_row
    bytes_[16:32].view(np.uint16)[: len(shapes)] = [colsb for _, colsb in shapes]
    bytes_[48 : 48 + len(shapes)] = [rows for rows, _ in shapes]
    return bytes_


def machine_code(folder: Path) -> ctypes.CDLL:
    """The code, built in a folder when it is not there."""

    def cases(template: str) -> str:
        return " ".join(f"case {n}: {template.format(n)} break;" for n in range(8))

    def dots(function: str) -> str:
        return " ".join(
            f"case {100 * c + 10 * a + b}: {function}({c}, {a}, {b}); break;"
            for c, a, b in itertools.permutations(range(8), 3)
        )

    text = _STEPS.format(
        zero=cases("_tile_zero({});"),
        load=cases("_tile_loadd({}, place, stride);"),
        store=cases("_tile_stored({}, place, stride);"),
        dot=dots("_tile_dpbf16ps"),
        dot_bytes=dots("_tile_dpbusd"),
        dot_signed=dots("_tile_dpbsud"),
        low=LOW,
    )
    functions = [*_FIXED, *(function for form in FORMS + LOW_FORMS for function in form.assembly())]
    assembly = "\n".join(
        f'"{line.strip()}\\n"' for line in "".join(functions).splitlines() if line.strip()
    )
    source = folder / "amx_machine_code.c"
    if not source.exists():
        source.write_text(f"{text}\n__asm__(\n{assembly}\n);\n", encoding="utf-8")
    return ctypes.CDLL(str(bf16.built(source.stem, [source], folder)))
