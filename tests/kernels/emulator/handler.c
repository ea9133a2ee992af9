/* The handler of SIGILL, and what instructions of all kinds share. */
#include "emulator.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[KINDS] = {"LDTILECFG",  "TILERELEASE", "TILEZERO",      "TILELOADD",     "TILESTORED",
                                         "TDPBF16PS",  "TDPBUSD",     "TDPBSUD",       "VDPBF16PS",     "VCVTNEPS2BF16",
                                         "VCVTNE2PS2BF16"};

_Thread_local char broken[200];
static struct sigaction previous;
static atomic_long counts[KINDS];

/* Register numbers of the encoding, as places in ucontext. */
static const int registers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

int decode_memory(const struct memory_operand *operand, const greg_t *values, struct instruction *i) {
    const uint8_t *code = operand->code;
    int modrm = code[operand->modrm], at = operand->modrm + 1;
    int mod = modrm >> 6, base = modrm & 7;
    int has_sib = base == 4, displacement_bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    int relative = 0; /* to the next instruction */
    if (has_sib) {
        int scale = code[at] >> 6, index = (code[at] >> 3 & 7) | operand->extend_index;
        base = code[at] & 7;
        at++;
        if (index != 4) /* which stands for none */
            i->index = (uint64_t)values[registers[index]] << scale;
    }
    if (mod == 0 && base == 5) { /* no base */
        displacement_bytes = 4;
        relative = !has_sib;
    } else {
        i->memory = values[registers[base | operand->extend_base]];
    }
    if (displacement_bytes == 1) {
        i->memory += (int64_t)(int8_t)code[at] * operand->unit;
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

static int decode(const greg_t *values, struct instruction *i) {
    const uint8_t *code = (const uint8_t *)values[REG_RIP];
    return decode_tiles(code, values, i) || decode_vectors(code, values, i);
}

static int perform(const struct instruction *i, ucontext_t *context) {
    return i->kind >= VDPBF16PS ? perform_on_vectors(i, context) : perform_on_tiles(i);
}

/* To whoever handled SIGILL before. The default is taken up again, and meets the same instruction when the handler is left. */
static void pass_on(int number, siginfo_t *info, void *context) {
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(number, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
        previous.sa_handler(number);
    else
        signal(SIGILL, SIG_DFL);
}

/* Also the instructions that follow are executed while they are ours: kernels have many in a row, and a signal is slow. */
static void handle(int number, siginfo_t *info, void *context) {
    greg_t *values = ((ucontext_t *)context)->uc_mcontext.gregs;
    struct instruction i;
    int before = errno, executed = 0;
    for (; decode(values, &i); executed++) {
        if (perform(&i, context)) {
            dprintf(STDERR_FILENO, "emulator: %s: %s\n", names[i.kind], broken);
            if (i.kind == LDTILECFG) { /* #GP, which Linux tells as SIGSEGV */
                raise(SIGSEGV);
                abort();
            }
            executed = 0;
            break;
        }
        counts[i.kind]++;
        values[REG_RIP] += i.length;
    }
    if (!executed)
        pass_on(number, info, context);
    errno = before;
}

/* Begin to emulate, in all threads. Returns 0, or the system's error number. */
int emulator_install(void) {
    static int installed;
    if (installed)
        return 0;
    /* Not deferred: an instruction that a handler before us cannot execute either shall end the process and not hang it. */
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    prepare_vectors();
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGILL, &action, &previous))
        return errno;
    installed = 1;
    return 0;
}

/* How many instructions of a kind were executed, by all threads; -1 when there is no such kind. */
long emulator_count(int kind) {
    return kind >= 0 && kind < KINDS ? atomic_load(&counts[kind]) : -1;
}
