/* Executes Intel's instructions on bf16 and on tiles on an x86-64 Linux whose processor has none of them: the products of tiles of AMX,
 * those of bytes as well (tiles.c), and the products and conversions of AVX512-BF16 (vectors.c), these on a processor with AVX-512.
 *
 * A processor without them raises #UD, which a process gets as SIGILL. The handler (handler.c) looks at the instruction, does
 * what it would have done, and goes on behind it; everything else it passes on to the handler that was there before.
 *
 * The meaning is that of Intel's Software Developer's Manual. What the manual forbids ends with a message that names the rule,
 * never with numbers.
 */
#ifndef EMULATOR_H
#define EMULATOR_H

#define _GNU_SOURCE
#include <stdint.h>
#include <ucontext.h>

/* The order is that of KINDS in _bf16.py. */
enum kind {
    LDTILECFG, TILERELEASE, TILEZERO, TILELOADD, TILESTORED, TDPBF16PS, TDPBUSD, TDPBSUD,
    VDPBF16PS, VCVTNEPS2BF16, VCVTNE2PS2BF16,
    KINDS
};

struct instruction {
    enum kind kind;
    int length;        /* bytes */
    int destination;   /* the tile or vector of every kind that has one: ModRM.reg */
    int first, second; /* of products of tiles: ModRM.rm, VEX.vvvv; of vectors: EVEX.vvvv, ModRM.rm */
    /* What is in memory: the address without the index; the index as scaled, which is the distance of a tile's rows. */
    uint64_t memory, index;
    /* Of vectors. */
    int in_memory, broadcast, mask, zeroing;
    int bytes; /* of a whole vector: 16, 32 or 64 */
};

/* The ModRM byte and what follows, as a place in memory. */
struct memory_operand {
    const uint8_t *code; /* the instruction */
    int modrm;           /* where its ModRM byte is */
    int extend_index, extend_base; /* 8 where the registers are those from r8 on */
    int unit;            /* of which a displacement of one byte is a multiple */
};

/* The broken rule, of a function that returned 1. */
extern _Thread_local char broken[200];
#define REFUSE(...) return snprintf(broken, sizeof broken, __VA_ARGS__), 1

enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZEROS = 0x0040, ALL_MASKED = 0x1F80 };
/* What the instructions count with, whatever the process has set: round to nearest even, denormals are zeros as operands and as
 * results, no exceptions. */
enum { CONTROL = FLUSH_TO_ZERO | DENORMALS_ARE_ZEROS | ALL_MASKED };

/* Sets memory, index and length; returns whether there is a SIB byte. */
int decode_memory(const struct memory_operand *operand, const greg_t *values, struct instruction *i);

/* Whether the code begins with an instruction of tiles, or of vectors; if so, with which one. */
int decode_tiles(const uint8_t *code, const greg_t *values, struct instruction *i);
int decode_vectors(const uint8_t *code, const greg_t *values, struct instruction *i);

/* Before the first of vectors. */
void prepare_vectors(void);

/* Execute it: 0, or 1 with the broken rule. */
int perform_on_tiles(const struct instruction *i);
int perform_on_vectors(const struct instruction *i, ucontext_t *context);

#endif
