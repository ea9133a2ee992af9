/* VDPBF16PS, VCVTNEPS2BF16 and VCVTNE2PS2BF16, on the vector registers that a signal saves and restores.
 *
 * Their meaning is on their pages in volume 2 of the manual; the exception classes E4 and E4NF are in its section 2.8. Registers
 * are in the XSAVE area that Linux lays on the stack, in the standard format (volume 1, chapter 13): a component whose bit in
 * the header is clear is zeros, whatever its bytes are.
 */
#include "emulator.h"

#include <cpuid.h>
#include <immintrin.h>
#include <stdio.h>
#include <string.h>

union vector {
    uint8_t bytes[64];
    uint16_t halves[32];
    uint32_t words[16];
};

/* ---- The saved registers. */

/* Of the legacy area. Linux tells in the last bytes of it, which the processor leaves alone, what follows. */
enum { XMM = 160, XMM_BYTES = 256, SOFTWARE = 464, HEADER = 512, MAGIC = 0x46505853 };

/* Numbers of components of the state, which are their bits, too. */
enum component { SSE = 1, AVX = 2, MASKS = 5, UPPER_HALVES = 6, UPPER_REGISTERS = 7, COMPONENTS };
enum { ALL_COMPONENTS = 1 << SSE | 1 << AVX | 1 << MASKS | 1 << UPPER_HALVES | 1 << UPPER_REGISTERS };

/* Where they are; asked for once, since a virtual machine takes long to tell. */
static struct { unsigned place, size; } components[COMPONENTS] = {[SSE] = {XMM, XMM_BYTES}};

void prepare_vectors(void) {
    unsigned ecx, edx;
    for (int number = AVX; number < COMPONENTS; number++)
        __cpuid_count(0xD, number, components[number].size, components[number].place, ecx, edx);
}

static uint64_t *header(uint8_t *area) { return (uint64_t *)(area + HEADER); }

static void read_part(uint8_t *area, enum component number, unsigned offset, void *to, unsigned bytes) {
    if (*header(area) >> number & 1)
        memcpy(to, area + components[number].place + offset, bytes);
    else
        memset(to, 0, bytes);
}

static void write_part(uint8_t *area, enum component number, unsigned offset, const void *from, unsigned bytes) {
    if (!(*header(area) >> number & 1))
        memset(area + components[number].place, 0, components[number].size);
    *header(area) |= 1 << number;
    memcpy(area + components[number].place + offset, from, bytes);
}

/* A vector register lies in up to three parts. */
static union vector read_register(uint8_t *area, int number) {
    union vector v;
    if (number < 16) {
        read_part(area, SSE, 16 * number, v.bytes, 16);
        read_part(area, AVX, 16 * number, v.bytes + 16, 16);
        read_part(area, UPPER_HALVES, 32 * number, v.bytes + 32, 32);
    } else {
        read_part(area, UPPER_REGISTERS, 64 * (number - 16), v.bytes, 64);
    }
    return v;
}

static void write_register(uint8_t *area, int number, const union vector *v) {
    if (number < 16) {
        write_part(area, SSE, 16 * number, v->bytes, 16);
        write_part(area, AVX, 16 * number, v->bytes + 16, 16);
        write_part(area, UPPER_HALVES, 32 * number, v->bytes + 32, 32);
    } else {
        write_part(area, UPPER_REGISTERS, 64 * (number - 16), v->bytes, 64);
    }
}

/* The saved state, or NULL where the system keeps none of AVX-512. */
static uint8_t *saved(ucontext_t *context) {
    uint8_t *area = (uint8_t *)context->uc_mcontext.fpregs;
    uint32_t magic;
    uint64_t kept;
    if (!area)
        return NULL;
    memcpy(&magic, area + SOFTWARE, sizeof magic);
    memcpy(&kept, area + SOFTWARE + 8, sizeof kept);
    return magic == MAGIC && (kept & ALL_COMPONENTS) == ALL_COMPONENTS ? area : NULL;
}

/* ---- What the instructions do. */

/* Each step is one fused multiplication and addition, in this order of operands: of several NaN, the first one comes out. Not
 * inlined, so that all of the arithmetic is done under the MXCSR of the caller. */
__attribute__((noinline, target("avx512f"))) static void multiply(union vector *total, const union vector *a, const union vector *b) {
    const __m512i upper = _mm512_set1_epi32(0xFFFF0000);
    __m512i first = _mm512_loadu_si512(a), second = _mm512_loadu_si512(b);
    __m512 sum = _mm512_loadu_ps(total);
    __m512 first_odd = _mm512_castsi512_ps(_mm512_and_si512(first, upper));
    __m512 second_odd = _mm512_castsi512_ps(_mm512_and_si512(second, upper));
    __m512 first_even = _mm512_castsi512_ps(_mm512_slli_epi32(first, 16));
    __m512 second_even = _mm512_castsi512_ps(_mm512_slli_epi32(second, 16));
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(first_odd), "v"(second_odd));
    __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(first_even), "v"(second_even));
    _mm512_storeu_ps(total, sum);
}

static void multiply_pairs(union vector *total, const union vector *a, const union vector *b) {
    unsigned before = _mm_getcsr();
    _mm_setcsr(CONTROL);
    multiply(total, a, b);
    _mm_setcsr(before);
}

/* The manual's convert_fp32_to_bfloat16. */
static uint16_t rounded(uint32_t x) {
    uint32_t exponent = x >> 23 & 0xFF, fraction = x & 0x7FFFFF;
    if (exponent == 0) /* zero or denormal */
        return x >> 16 & 0x8000;
    if (exponent == 0xFF && fraction) /* NaN, which becomes quiet */
        return x >> 16 | 0x40;
    if (exponent == 0xFF)
        return x >> 16;
    return (x + 0x7FFF + (x >> 16 & 1)) >> 16;
}

/* The second operand. What is masked is not read, but by VCVTNE2PS2BF16, which reads all of it. */
static union vector operand(const struct instruction *i, uint8_t *area, uint32_t mask) {
    const uint8_t *memory = (const uint8_t *)(i->memory + i->index);
    union vector v = {0};
    int all = i->kind == VCVTNE2PS2BF16, words = i->bytes / 4;
    if (!i->in_memory)
        return read_register(area, i->second);
    if (i->broadcast) {
        uint32_t word = 0;
        if (mask || all)
            memcpy(&word, memory, 4);
        for (int w = 0; w < words; w++)
            v.words[w] = word;
        return v;
    }
    for (int w = 0; w < words; w++)
        if (all || mask >> w & 1)
            memcpy(&v.words[w], memory + 4 * w, 4);
    return v;
}

int perform_on_vectors(const struct instruction *i, ucontext_t *context) {
    uint8_t *area = saved(context);
    if (!area)
        REFUSE("this system keeps no AVX-512 registers, which a processor without AVX-512 has not (#UD)");
    int words = i->bytes / 4, lanes = i->kind == VCVTNE2PS2BF16 ? 2 * words : words;
    uint64_t mask = ~0ull;
    if (i->mask)
        read_part(area, MASKS, 8 * i->mask, &mask, 8);
    mask &= (1ull << lanes) - 1;
    union vector before = read_register(area, i->destination), second = operand(i, area, mask), result = before;
    if (i->kind == VDPBF16PS) {
        union vector first = read_register(area, i->first);
        multiply_pairs(&result, &first, &second);
    } else if (i->kind == VCVTNEPS2BF16) {
        for (int n = 0; n < words; n++)
            result.halves[n] = rounded(second.words[n]);
    } else {
        union vector first = read_register(area, i->first);
        for (int n = 0; n < words; n++) {
            result.halves[n] = rounded(second.words[n]);
            result.halves[n + words] = rounded(first.words[n]);
        }
    }
    int unit = i->kind == VDPBF16PS ? 4 : 2;
    for (int n = 0; n < lanes; n++)
        if (!(mask >> n & 1))
            memcpy(result.bytes + unit * n, before.bytes + unit * n, unit);
    for (int n = 0; n < lanes && i->zeroing; n++)
        if (!(mask >> n & 1))
            memset(result.bytes + unit * n, 0, unit);
    memset(result.bytes + unit * lanes, 0, sizeof result - unit * lanes);
    write_register(area, i->destination, &result);
    return 0;
}

/* ---- Instructions as bytes. */

/* EVEX.<length>.<prefix>.0F38.W0 <opcode> <ModRM>. What the manual reserves is none of ours. */
int decode_vectors(const uint8_t *code, const greg_t *values, struct instruction *i) {
    enum { PREFIX_F3 = 2, PREFIX_F2 = 3 };
    memset(i, 0, sizeof *i);
    if (code[0] != 0x62 || (code[1] & 0x0F) != 2 || (code[2] & 0x84) != 4)
        return 0;
    int prefix = code[2] & 3, opcode = code[4], modrm = code[5];
    if (opcode == 0x52 && prefix == PREFIX_F3)
        i->kind = VDPBF16PS;
    else if (opcode == 0x72 && prefix == PREFIX_F3)
        i->kind = VCVTNEPS2BF16;
    else if (opcode == 0x72 && prefix == PREFIX_F2)
        i->kind = VCVTNE2PS2BF16;
    else
        return 0;
    int r = !(code[1] & 0x80), x = !(code[1] & 0x40), b = !(code[1] & 0x20), upper = !(code[1] & 0x10);
    int length = code[3] >> 5 & 3;
    i->destination = (modrm >> 3 & 7) | r << 3 | upper << 4;
    i->first = (~code[2] >> 3 & 15) | !(code[3] & 8) << 4;
    i->second = (modrm & 7) | b << 3 | x << 4;
    i->mask = code[3] & 7;
    i->zeroing = code[3] >> 7;
    i->broadcast = code[3] >> 4 & 1;
    i->in_memory = modrm < 0xC0;
    i->bytes = 16 << length;
    if (length == 3 || (i->zeroing && !i->mask) || (i->broadcast && !i->in_memory))
        return 0;
    if (i->kind == VCVTNEPS2BF16 && i->first)
        return 0; /* EVEX.vvvv is not used: all of its bits must be set */
    i->length = 6;
    if (i->in_memory) {
        struct memory_operand operand = {code, 5, x << 3, b << 3, i->broadcast ? 4 : i->bytes};
        decode_memory(&operand, values, i);
    }
    return 1;
}
