/* Executes Intel AMX's tile instructions on an x86-64 Linux that has none of them.
 *
 * A processor without AMX raises #UD, which a process gets as SIGILL. The handler here looks at the instruction, does what it
 * would have done to tiles that it keeps for each thread, and goes on behind it. It knows LDTILECFG, TILERELEASE, TILEZERO,
 * TILELOADD, TILESTORED and TDPBF16PS, and passes everything else on to the handler that was there before.
 *
 * The meaning is that of Intel's Software Developer's Manual: the instructions' pages in volume 2, the tile helpers in volume 1,
 * chapter "Programming with Intel AMX", and the exception classes AMX-E1 to AMX-E6 in volume 2, section 2.10. What the manual
 * forbids (use without configuration, shapes that do not fit) ends with a message that names the rule, never with numbers.
 * Of what happens only in a kernel or a virtual machine (permission to use tiles, restarts after page faults) it knows nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#include <xmmintrin.h>

/* The order is that of KINDS in _amx.py. */
enum kind { LDTILECFG, TILERELEASE, TILEZERO, TILELOADD, TILESTORED, TDPBF16PS, KINDS };

static const char *const names[KINDS] = {"LDTILECFG", "TILERELEASE", "TILEZERO", "TILELOADD", "TILESTORED", "TDPBF16PS"};

/* Palette 1, the only one besides 0 ("no tiles"). */
enum { TILES = 8, MAX_ROWS = 16, ROW_BYTES = 64 };

union row {
    uint8_t bytes[ROW_BYTES];
    uint32_t words[ROW_BYTES / 4];
    float numbers[ROW_BYTES / 4];
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

struct instruction {
    enum kind kind;
    int length;             /* bytes */
    int destination;        /* the tile of every kind that has one: ModRM.reg */
    int first, second;      /* TDPBF16PS: ModRM.rm, VEX.vvvv */
    uint64_t memory, index; /* the address without the index; the index as scaled, which is the distance of rows */
};

/* Reached first in the middle of a kernel, never in the middle of malloc: memory for it may be taken in the handler. */
static _Thread_local struct tile_file tile_file;
static _Thread_local char broken[200];
static struct sigaction previous;
static atomic_long counts[KINDS];

/* ---- The rules. Each function returns 0, or 1 with the broken rule in `broken`. */

#define REFUSE(...) return snprintf(broken, sizeof broken, __VA_ARGS__), 1

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

/* TDPBF16PS: AMX-E4. c: rows x columns, a: rows x pairs, b: pairs x columns. */
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
        REFUSE("tmm%d has %u pairs a row and tmm%d %u rows (#UD)", a, tile[a].colsb / 4, b, tile[b].rows);
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

/* Whatever the process has set: round to nearest even, denormals are zeros as operands and as results, no exceptions. */
static void multiply_as_tiles(struct tile *c, const struct tile *a, const struct tile *b) {
    enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZEROS = 0x0040, ALL_MASKED = 0x1F80 };
    unsigned before = _mm_getcsr();
    _mm_setcsr(FLUSH_TO_ZERO | DENORMALS_ARE_ZEROS | ALL_MASKED);
    multiply(c, a, b);
    _mm_setcsr(before);
}

static int perform(const struct instruction *i) {
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
        multiply_as_tiles(tile, &file->tile[i->first], &file->tile[i->second]);
    }
    file->start_row = 0;
    return 0;
}

/* ---- Instructions as bytes. */

/* Register numbers of the encoding, as places in ucontext. */
static const int registers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/* The memory operand behind ModRM (code[4]): sets memory, index and length. Returns whether it has a SIB byte. */
static int decode_memory(const uint8_t *code, const greg_t *values, struct instruction *i) {
    int extend_index = !(code[1] & 0x40) << 3, extend_base = !(code[1] & 0x20) << 3;
    int mod = code[4] >> 6, rm = code[4] & 7, at = 5;
    int has_sib = rm == 4, base = rm, displacement_bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    int relative = 0; /* to the next instruction */
    if (has_sib) {
        int scale = code[5] >> 6, index = (code[5] >> 3 & 7) | extend_index;
        base = code[5] & 7;
        at++;
        if (index != 4) /* which stands for none */
            i->index = (uint64_t)values[registers[index]] << scale;
    }
    if (mod == 0 && base == 5) { /* no base */
        displacement_bytes = 4;
        relative = !has_sib;
    } else {
        i->memory = values[registers[base | extend_base]];
    }
    if (displacement_bytes == 1) {
        i->memory += (int64_t)(int8_t)code[at];
    } else if (displacement_bytes == 4) {
        int32_t displacement;
        memcpy(&displacement, code + at, 4);
        i->memory += (int64_t)displacement;
    }
    i->length = at + displacement_bytes;
    if (relative)
        i->memory += values[REG_RIP] + i->length;
    return has_sib;
}

/* VEX.128.<prefix>.0F38.W0 <opcode> <ModRM>: returns whether it is one of ours. */
static int decode(const uint8_t *code, const greg_t *values, struct instruction *i) {
    enum { NONE, PREFIX_66, PREFIX_F3, PREFIX_F2 };
    memset(i, 0, sizeof *i);
    if (code[0] != 0xC4 || (code[1] & 0x1F) != 2 || (code[2] & 0x84) != 0)
        return 0;
    int prefix = code[2] & 3, second = ~code[2] >> 3 & 15, in_registers = code[4] >= 0xC0;
    if (!(code[1] & 0x80) || (in_registers && !(code[1] & 0x20)) || (code[3] != 0x5C && second)) /* no tile 8 or above */
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
        decode_memory(code, values, i);
        return 1;
    }
    if (code[3] == 0x49 && prefix == PREFIX_F2 && in_registers && i->first == 0) {
        i->kind = TILEZERO;
        return 1;
    }
    if (code[3] == 0x4B && (prefix == PREFIX_F2 || prefix == PREFIX_F3) && !in_registers) {
        i->kind = prefix == PREFIX_F2 ? TILELOADD : TILESTORED;
        return decode_memory(code, values, i); /* without SIB there is no such instruction */
    }
    i->kind = TDPBF16PS;
    return code[3] == 0x5C && prefix == PREFIX_F3 && in_registers && second < TILES;
}

/* ---- The handler. */

/* To whoever handled SIGILL before. The default is taken up again, and meets the same instruction when the handler is left. */
static void pass_on(int number, siginfo_t *info, void *context) {
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(number, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
        previous.sa_handler(number);
    else
        signal(SIGILL, SIG_DFL);
}

static void handle(int number, siginfo_t *info, void *context) {
    greg_t *values = ((ucontext_t *)context)->uc_mcontext.gregs;
    struct instruction i;
    int before = errno;
    if (!decode((const uint8_t *)values[REG_RIP], values, &i)) {
        pass_on(number, info, context);
    } else if (perform(&i)) {
        dprintf(STDERR_FILENO, "AMX emulator: %s: %s\n", names[i.kind], broken);
        if (i.kind != LDTILECFG) {
            pass_on(number, info, context);
        } else { /* #GP, which Linux tells as SIGSEGV */
            raise(SIGSEGV);
            abort();
        }
    } else {
        counts[i.kind]++;
        values[REG_RIP] += i.length;
    }
    errno = before;
}

/* Begin to emulate, in all threads. Returns 0, or the system's error number. */
int amx_emulator_install(void) {
    static int installed;
    if (installed)
        return 0;
    /* Not deferred: an instruction that a handler before us cannot execute either shall end the process and not hang it. */
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGILL, &action, &previous))
        return errno;
    installed = 1;
    return 0;
}

/* How many instructions of a kind were executed, by all threads; -1 when there is no such kind. */
long amx_emulator_count(int kind) {
    return kind >= 0 && kind < KINDS ? atomic_load(&counts[kind]) : -1;
}
