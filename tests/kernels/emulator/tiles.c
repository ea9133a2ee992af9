/* LDTILECFG, TILERELEASE, TILEZERO, TILELOADD, TILESTORED, TDPBF16PS, TDPBUSD and TDPBSUD, on tiles that are kept for each thread.
 *
 * Their meaning is on the instructions' pages in volume 2 of the manual, with the tile helpers in volume 1, chapter "Programming
 * with Intel AMX", and the exception classes AMX-E1 to AMX-E6 in volume 2, section 2.10: use without configuration and shapes
 * that do not fit are refused. Of what happens only in a kernel or a virtual machine (permission to use tiles, restarts after
 * page faults) nothing is known here.
 */
#include "emulator.h"

#include <stdio.h>
#include <string.h>
#include <xmmintrin.h>

/* Palette 1, the only one besides 0 ("no tiles"). */
enum { TILES = 8, MAX_ROWS = 16, ROW_BYTES = 64 };

union row {
    uint8_t bytes[ROW_BYTES];
    uint32_t words[ROW_BYTES / 4];
    float numbers[ROW_BYTES / 4];
    int8_t with_sign[ROW_BYTES];
};

struct tile {
    unsigned rows, colsb; /* both 0: not to be used */
    _Alignas(64) union row row[MAX_ROWS];
};

struct tile_file {
    int configured;
    unsigned start_row;
    struct tile tile[TILES];
};

/* Reached first in the middle of a kernel, never in the middle of malloc: memory for it may be taken in the handler. */
static _Thread_local struct tile_file tile_file;

/* ---- The rules. Each function returns 0, or 1 with the broken rule in `broken`. */

/* "All bytes are zero." */
static int zeros(const uint8_t *bytes, int first, int end) {
    while (first < end)
        if (bytes[first++])
            return 0;
    return 1;
}

/* LDTILECFG, AMX-E1: what raises #GP. */
static int check_configuration(const uint8_t *memory) {
    if (memory[0] > 1)
        REFUSE("palette %u, and there are only 0 and 1", memory[0]);
    if (memory[0] == 0)
        return 0;
    if (!zeros(memory, 2, 16) || !zeros(memory, 16 + 2 * TILES, 48) || !zeros(memory, 48 + TILES, 64))
        REFUSE("reserved bytes must be 0");
    for (int t = 0; t < TILES; t++) {
        unsigned rows = memory[48 + t], colsb = memory[16 + 2 * t] | memory[17 + 2 * t] << 8;
        if (rows > MAX_ROWS)
            REFUSE("tmm%d has %u rows, at most %d are allowed", t, rows, MAX_ROWS);
        if (colsb > ROW_BYTES)
            REFUSE("tmm%d has %u bytes a row, at most %d are allowed", t, colsb, ROW_BYTES);
        if (!rows != !colsb)
            REFUSE("tmm%d has %u rows of %u bytes: both must be 0 or none", t, rows, colsb);
    }
    return 0;
}

/* What is common to AMX-E3, E4 and E5. */
static int check_tile(const struct tile_file *file, int tile) {
    if (!file->configured)
        REFUSE("tiles are not configured (#UD)");
    if (!file->tile[tile].rows)
        REFUSE("tmm%d has no rows in the configuration (#UD)", tile);
    return 0;
}

static int check_words(const struct tile_file *file, int tile) {
    if (check_tile(file, tile))
        return 1;
    if (file->tile[tile].colsb % 4)
        REFUSE("tmm%d has %u bytes a row, not a multiple of 4 (#UD)", tile, file->tile[tile].colsb);
    return 0;
}

/* TILELOADD, TILESTORED: AMX-E3. */
static int check_move(const struct tile_file *file, int tile) {
    if (check_words(file, tile))
        return 1;
    if (file->start_row >= file->tile[tile].rows)
        REFUSE("start_row is %u, and tmm%d has %u rows (#UD)", file->start_row, tile, file->tile[tile].rows);
    return 0;
}

/* Products: AMX-E4. c: rows x columns, a: rows x words (of pairs, or of four bytes), b: words x columns. */
static int check_product(const struct tile_file *file, int c, int a, int b) {
    const struct tile *tile = file->tile;
    if (c == a || c == b || a == b)
        REFUSE("tmm%d, tmm%d, tmm%d: three different tiles are needed (#UD)", c, a, b);
    if (check_words(file, c) || check_words(file, a) || check_words(file, b))
        return 1;
    if (tile[c].rows != tile[a].rows)
        REFUSE("tmm%d has %u rows and tmm%d %u (#UD)", c, tile[c].rows, a, tile[a].rows);
    if (tile[c].colsb != tile[b].colsb)
        REFUSE("tmm%d has %u bytes a row and tmm%d %u (#UD)", c, tile[c].colsb, b, tile[b].colsb);
    if (tile[a].colsb / 4 != tile[b].rows)
        REFUSE("tmm%d has %u words a row and tmm%d %u rows (#UD)", a, tile[a].colsb / 4, b, tile[b].rows);
    return 0;
}

/* ---- What the instructions do. */

static void configure(struct tile_file *file, const uint8_t *memory) {
    memset(file, 0, sizeof *file);
    if (memory[0] == 0)
        return;
    file->configured = 1;
    file->start_row = memory[1];
    for (int t = 0; t < TILES; t++) {
        file->tile[t].colsb = memory[16 + 2 * t] | memory[17 + 2 * t] << 8;
        file->tile[t].rows = memory[48 + t];
    }
}

/* Rows before start_row stay; of the others, what is not read becomes 0. */
static void load(struct tile_file *file, struct tile *tile, uint64_t memory, uint64_t stride) {
    union row rows[MAX_ROWS] = {0};
    memcpy(rows, tile->row, file->start_row * sizeof(union row));
    for (unsigned r = file->start_row; r < tile->rows; r++)
        memcpy(rows[r].bytes, (const void *)(memory + r * stride), tile->colsb);
    memcpy(tile->row, rows, sizeof rows);
}

static void store(const struct tile_file *file, const struct tile *tile, uint64_t memory, uint64_t stride) {
    for (unsigned r = file->start_row; r < tile->rows; r++)
        memcpy((void *)(memory + r * stride), tile->row[r].bytes, tile->colsb);
}

/* A word holds two bf16, which are the upper halves of f32; the even one is in the lower half. */
static inline float number(uint32_t bits) {
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/* The sums of the even and of the odd products are kept apart, joined at the end and then added to c. Not inlined, so that all of
 * the arithmetic is done under the MXCSR of the caller. */
__attribute__((noinline, target("avx2,fma"))) static void multiply(struct tile *c, const struct tile *a, const struct tile *b) {
    unsigned columns = c->colsb / 4, pairs = a->colsb / 4;
    for (unsigned m = 0; m < c->rows; m++) {
        float even[ROW_BYTES / 4] = {0}, odd[ROW_BYTES / 4] = {0};
        for (unsigned k = 0; k < pairs; k++) {
            uint32_t factors = a->row[m].words[k];
            float first = number(factors << 16), second = number(factors & 0xFFFF0000);
            for (unsigned n = 0; n < columns; n++) {
                uint32_t word = b->row[k].words[n];
                even[n] = __builtin_fmaf(first, number(word << 16), even[n]);
                odd[n] = __builtin_fmaf(second, number(word & 0xFFFF0000), odd[n]);
            }
        }
        for (unsigned n = 0; n < columns; n++)
            c->row[m].numbers[n] += even[n] + odd[n];
    }
}

/* Four bytes by four, of which those of a or those of b have a sign, added to c in 32 bits, which wrap around. */
static void multiply_bytes(struct tile *c, const struct tile *a, const struct tile *b, int first_has_sign) {
    unsigned columns = c->colsb / 4, words = a->colsb / 4;
    for (unsigned m = 0; m < c->rows; m++)
        for (unsigned k = 0; k < words; k++)
            for (unsigned n = 0; n < columns; n++)
                for (unsigned i = 0; i < 4; i++) {
                    const union row *left = &a->row[m], *right = &b->row[k];
                    unsigned x = 4 * k + i, y = 4 * n + i;
                    c->row[m].words[n] += (uint32_t)(first_has_sign ? left->with_sign[x] * right->bytes[y]
                                                                    : left->bytes[x] * right->with_sign[y]);
                }
}

static void multiply_as_tiles(struct tile *c, const struct tile *a, const struct tile *b) {
    unsigned before = _mm_getcsr();
    _mm_setcsr(CONTROL);
    multiply(c, a, b);
    _mm_setcsr(before);
}

int perform_on_tiles(const struct instruction *i) {
    struct tile_file *file = &tile_file;
    struct tile *tile = &file->tile[i->destination];
    switch (i->kind) {
    case LDTILECFG:
        if (check_configuration((const uint8_t *)(i->memory + i->index)))
            return 1;
        configure(file, (const uint8_t *)(i->memory + i->index));
        return 0; /* start_row stays: the only kind that sets it */
    case TILERELEASE:
        memset(file, 0, sizeof *file);
        return 0;
    case TILEZERO:
        if (check_tile(file, i->destination))
            return 1;
        memset(tile->row, 0, sizeof tile->row);
        break;
    case TILELOADD:
        if (check_move(file, i->destination))
            return 1;
        load(file, tile, i->memory, i->index);
        break;
    case TILESTORED:
        if (check_move(file, i->destination))
            return 1;
        store(file, tile, i->memory, i->index);
        break;
    default:
        if (check_product(file, i->destination, i->first, i->second))
            return 1;
        if (i->kind == TDPBF16PS)
            multiply_as_tiles(tile, &file->tile[i->first], &file->tile[i->second]);
        else
            multiply_bytes(tile, &file->tile[i->first], &file->tile[i->second], i->kind == TDPBSUD);
    }
    file->start_row = 0;
    return 0;
}

/* ---- Instructions as bytes. */

/* VEX.128.<prefix>.0F38.W0 <opcode> <ModRM>. */
int decode_tiles(const uint8_t *code, const greg_t *values, struct instruction *i) {
    enum { NONE, PREFIX_66, PREFIX_F3, PREFIX_F2 };
    memset(i, 0, sizeof *i);
    if (code[0] != 0xC4 || (code[1] & 0x1F) != 2 || (code[2] & 0x84) != 0)
        return 0;
    struct memory_operand operand = {code, 4, !(code[1] & 0x40) << 3, !(code[1] & 0x20) << 3, 1};
    int prefix = code[2] & 3, second = ~code[2] >> 3 & 15, in_registers = code[4] >= 0xC0;
    if (!(code[1] & 0x80) || (in_registers && !(code[1] & 0x20)) || (code[3] != 0x5C && code[3] != 0x5E && second)) /* no tile 8 or above */
        return 0;
    i->length = 5;
    i->destination = code[4] >> 3 & 7;
    i->first = code[4] & 7;
    i->second = second;
    if (code[3] == 0x49 && prefix == NONE && code[4] == 0xC0) {
        i->kind = TILERELEASE;
        return 1;
    }
    if (code[3] == 0x49 && prefix == NONE && !in_registers && i->destination == 0) {
        i->kind = LDTILECFG;
        decode_memory(&operand, values, i);
        return 1;
    }
    if (code[3] == 0x49 && prefix == PREFIX_F2 && in_registers && i->first == 0) {
        i->kind = TILEZERO;
        return 1;
    }
    if (code[3] == 0x4B && (prefix == PREFIX_F2 || prefix == PREFIX_F3) && !in_registers) {
        i->kind = prefix == PREFIX_F2 ? TILELOADD : TILESTORED;
        return decode_memory(&operand, values, i); /* without SIB there is no such instruction */
    }
    i->kind = code[3] == 0x5C ? TDPBF16PS : prefix == PREFIX_66 ? TDPBUSD : TDPBSUD;
    int known = prefix == PREFIX_F3 || (code[3] == 0x5E && prefix == PREFIX_66);
    return (code[3] == 0x5C || code[3] == 0x5E) && known && in_registers && second < TILES;
}
