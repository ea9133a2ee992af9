/* The runtime of a compiled model: copies of a plan's words are put where they are, and called. It
   does what uncork's native entry does, over the tables of kernels/runtime/layout.py. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "system.h"
#if IMAGE_THREADS
#include "threads.h"
#endif

/* Memory that grows; what was in it goes. */
struct memory {
  void *data;
  int64_t bytes;
};

/* A plan with memory of its own for a call. */
struct call {
  const struct image_plan *plan;
  int64_t *words;
  struct memory *working;  /* by context */
  model_tensor *made;
};

/* What a variable holds, and the memory for what it holds next. */
struct value {
  model_tensor now, next;
  struct memory memories[2];
  int other;
  int64_t length;  /* of one that grows: so much of it is there */
};

struct model_instance {
  const struct image *image;
  struct call *calls, *initial;
  struct memory own[IMAGE_RESULTS + 1], made[IMAGE_MADE + 1];
  struct value values[IMAGE_VARIABLES + 1];
  model_tensor inputs[IMAGE_ARGUMENTS + 1], results[IMAGE_RESULTS + 1];
  int64_t limit;
  int busy, begun;
  char text[512];
};

/* What this file says of calls, beside the statuses of layout.h. */
enum { CALL_NO_ROOM = -100, CALL_EMPTY = -101 };
static const char *const image_types[] = IMAGE_TYPES;
static const int64_t widths[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8};

/* ---- memory */

static void *taken(int64_t bytes) {
  if (bytes < 1) bytes = 1;
  if (bytes > INT64_MAX / 2 || (uint64_t)bytes > SIZE_MAX / 2) return 0;
  return aligned(((size_t)bytes + LINE - 1) / LINE * LINE);
}

static int reserve(struct memory *memory, int64_t bytes) {
  if (memory->data && bytes <= memory->bytes) return 1;
  give_back(memory->data);
  memory->data = taken(bytes);
  memory->bytes = memory->data ? bytes : 0;
  return memory->data != 0;
}

int64_t model_bytes(const model_tensor *tensor) {
  if (tensor->type < MODEL_BOOL || tensor->type > MODEL_F64) return -1;
  if (tensor->rank < 0 || tensor->rank > MODEL_MAX_RANK) return -1;
  int64_t bytes = widths[tensor->type];
  int empty = 0;
  for (int32_t axis = 0; axis < tensor->rank; axis++) {
    if (tensor->sizes[axis] < 0) return -1;
    if (tensor->sizes[axis] == 0) empty = 1;
    else if (__builtin_mul_overflow(bytes, tensor->sizes[axis], &bytes)) return -1;
  }
  return empty ? 0 : bytes;
}

/* ---- words and what they stand for */

static int64_t *table(const int64_t *block, int word) { return (int64_t *)(intptr_t)block[word]; }
static int64_t at(int64_t address) { return *(int64_t *)(intptr_t)address; }

static int64_t native(int64_t function, int64_t argument) {
  return ((int64_t (*)(int64_t))(intptr_t)function)(argument);
}

/* In place of functions of Python: nobody holds a lock of it, and there are no signals. */
static int64_t nothing(void) { return 0; }
static int64_t nothing_of(int64_t what) { return what & 0; }
static int64_t freed(int64_t data) { return free((void *)(intptr_t)data), 0; }
static int64_t reallocated(int64_t data, int64_t bytes) {
  if (bytes < 0 || (uint64_t)bytes > SIZE_MAX / 2) return 0;
  return (int64_t)(intptr_t)realloc((void *)(intptr_t)data, (size_t)bytes);
}

static int64_t symbol(const struct image *image, const char *name) {
  if (!strncmp(name, "dtype:", 6)) {
    for (int type = MODEL_BOOL; type <= MODEL_F64; type++)
      if (!strcmp(image_types[type], name + 6)) return type;
    return 0;
  }
  if (!strcmp(name, "PyMem_RawRealloc")) return (int64_t)(intptr_t)reallocated;
  if (!strcmp(name, "PyMem_RawFree")) return (int64_t)(intptr_t)freed;
#if IMAGE_THREADS
  if (!strcmp(name, "pool")) return pool_of(image);
  if (!strcmp(name, "sched_yield")) return (int64_t)(intptr_t)sched_yield;
#endif
  if (!strcmp(name, "pool")) return 0;
  if (!strcmp(name, "PyEval_RestoreThread") || !strcmp(name, "PyGILState_Release"))
    return (int64_t)(intptr_t)nothing_of;
  return image ? (int64_t)(intptr_t)nothing : 0;
}

/* The words of a plan as they are before its first call. */
static void write_words(const model_instance *instance, struct call *call) {
  const struct image_plan *plan = call->plan;
  memcpy(call->words, plan->words, 8 * (size_t)plan->word_count);
  for (int64_t i = 0; i < plan->relocations; i++) {
    int64_t *word = call->words + plan->relocated[i];
    uint32_t base = plan->bases[i];
    *word = base == 0 ? (int64_t)(intptr_t)call->words + *word
          : base == 1 ? (int64_t)(intptr_t)model_constants + *word
          : base == 2 ? IMAGE_FUNCTION(instance->image, *word)
                      : symbol(instance->image, plan->symbols[base - 3]) + *word;
  }
  for (int32_t i = 0; i < plan->rooms.count; i++)
    call->words[plan->rooms.numbers[i] + ROOM_MOST] = instance->limit / plan->rooms.count;
}

static int prepared(const model_instance *instance, struct call *call) {
  const struct image_plan *plan = call->plan;
  if (call->words) return 1;
  call->working = calloc((size_t)plan->contexts.count, sizeof *call->working);
  call->made = calloc((size_t)plan->made.count + 1, sizeof *call->made);
  call->words = call->working && call->made ? taken(8 * plan->word_count) : 0;
  if (call->words) return write_words(instance, call), 1;
  free(call->working), free(call->made);
  return 0;
}

static void free_rooms(const struct call *call) {
  for (int32_t i = 0; i < call->plan->rooms.count; i++)
    free((void *)(intptr_t)call->words[call->plan->rooms.numbers[i] + ROOM_ADDRESS]);
}

static void close_calls(struct call *calls, int32_t count) {
  for (int32_t i = 0; calls && i < count; i++) {
    if (!calls[i].words) continue;
    free_rooms(calls + i);
    for (int32_t c = 0; c < calls[i].plan->contexts.count; c++)
      give_back(calls[i].working[c].data);
    free(calls[i].working), free(calls[i].made), give_back(calls[i].words);
  }
  free(calls);
}

/* ---- working memory */

static int lacks_memory(const struct call *call) {
  int lacks = 0;
  for (int32_t i = 0; i < call->plan->contexts.count; i++) {
    const int64_t *context = call->words + call->plan->contexts.numbers[i];
    lacks |= context[CONTEXT_NEEDED] > context[CONTEXT_CAPACITY];
  }
  return lacks;
}

static int misfits(const struct call *call) {
  int misfit = 0;  /* a body has met sizes that its plan is not for */
  for (int32_t i = 0; i < call->plan->turns.count; i++)
    misfit |= IMAGE_MISFIT(call->words[call->plan->turns.numbers[i] + TURNS_STATUS]);
  return misfit;
}

/* Takes the working memory that sizes need which were bound last, of bodies too. */
static int grow(const model_instance *instance, struct call *call) {
  int64_t all = 0;
  for (int32_t i = 0; i < call->plan->contexts.count; i++) {
    int64_t *context = call->words + call->plan->contexts.numbers[i];
    int64_t needed = context[CONTEXT_NEEDED], capacity = context[CONTEXT_CAPACITY];
    if (__builtin_add_overflow(all, needed > capacity ? needed : capacity, &all)) return 0;
    if (needed <= capacity) continue;
    if (all > instance->limit) return 0;
    context[CONTEXT_CAPACITY] = context[CONTEXT_MEMORY] = 0;
    context[CONTEXT_VERSION]++;
    give_back(call->working[i].data);  /* the old one goes first */
    call->working[i].data = 0;
    int64_t more = needed + needed / 8;
    if (!reserve(call->working + i, more <= instance->limit ? more : needed)) return 0;
    context[CONTEXT_MEMORY] = (int64_t)(intptr_t)call->working[i].data;
    context[CONTEXT_CAPACITY] = call->working[i].bytes;
  }
  return 1;
}

/* Begins with words as they were, where a body has stopped in the middle, and with the memory that
   it asked for. */
static int renew(const model_instance *instance, struct call *call) {
  const struct image_numbers *contexts = &call->plan->contexts;
  int64_t *needed = malloc(8 * (size_t)contexts->count);
  if (!needed) return 0;
  for (int32_t i = 0; i < contexts->count; i++)
    needed[i] = call->words[contexts->numbers[i] + CONTEXT_NEEDED];
  free_rooms(call);
  write_words(instance, call);
  for (int32_t i = 0; i < contexts->count; i++)
    call->words[contexts->numbers[i] + CONTEXT_NEEDED] = needed[i];
  free(needed);
  return grow(instance, call);
}

/* ---- a call */

static int fits(const struct call *call, const model_tensor *inputs) {
  const int64_t *guard = table(call->words, HEAD_ARRAY_GUARD_TABLE);
  for (int32_t i = 0; i < call->plan->arguments; i++, guard += 4) {
    const int64_t *sizes = (const int64_t *)(intptr_t)guard[3];
    if (inputs[i].type != guard[0] || inputs[i].rank != guard[1]) return 0;
    for (int64_t axis = 0; axis < guard[1]; axis++)
      if (sizes[axis] != -1 && sizes[axis] != inputs[i].sizes[axis]) return 0;
  }
  return 1;
}

static int64_t bind(const int64_t *block, const model_tensor *inputs) {
  int64_t *context = table(block, HEAD_CONTEXT), *row = table(block, HEAD_BIND_TABLE);
  for (int64_t i = 0; i < block[HEAD_BINDS]; i++, row += 4) {
    const model_tensor *tensor = inputs + row[1];
    const char *data = (const char *)tensor->data + row[2];
    int64_t size = row[0] == BIND_SHAPE ? tensor->sizes[row[2]]
                 : row[0] == BIND_I64 ? *(const int64_t *)data : *(const int32_t *)data;
    if (at(row[3]) != size) *(int64_t *)(intptr_t)row[3] = size, context[CONTEXT_VERSION]++;
  }
  if (context[CONTEXT_VERSION] == block[HEAD_STAMP]) return CALL_OK;
  return native(block[HEAD_RESIZE], (int64_t)(intptr_t)block);
}

/* Gives the arrays that a segment makes their sizes, and memory: that of a result, or our own. */
static int64_t make(model_instance *instance, struct call *call, const int64_t *block,
                    model_tensor *results, int with_memory) {
  const int64_t *row = table(block, HEAD_RESULT_TABLE);
  for (int64_t i = 0; i < block[HEAD_RESULTS]; i++, row += 4) {
    model_tensor *made = call->made + row[3];
    const int64_t *sizes = (const int64_t *)(intptr_t)row[2];
    made->type = (int32_t)row[0], made->rank = (int32_t)row[1];
    for (int64_t axis = 0; axis < row[1]; axis++) made->sizes[axis] = sizes[axis];
    made->bytes = model_bytes(made);
    if (made->bytes < 0) return CALL_OVERFLOW;
    if (!with_memory) continue;
    int32_t number = call->plan->made.numbers[row[3]];
    struct memory *own = number < 0 ? instance->made + row[3] : instance->own + number;
    if (number >= 0 && results[number].data && results[number].data != own->data) {
      if (results[number].bytes < made->bytes) return CALL_NO_ROOM;
      made->data = results[number].data;
    } else {
      if (!reserve(own, made->bytes)) return CALL_EMPTY;
      made->data = own->data;
    }
  }
  return CALL_OK;
}

static int64_t attempt(model_instance *instance, struct call *call, const model_tensor *inputs,
                       model_tensor *results, int runs) {
  const int32_t given = call->plan->arguments + call->plan->nothing;
  int64_t step = 0;
  for (const int64_t *block = call->words; block; block = table(block, HEAD_NEXT)) {
    int64_t status = bind(block, inputs);
    if (status == CALL_OK) status = make(instance, call, block, results, runs);
    if (status != CALL_OK) return status;
    if (!runs) return CALL_OK;  /* sizes of later segments are found by the call */
    const int64_t *row = table(block, HEAD_ADDRESS_TABLE);
    for (int64_t i = 0; i < block[HEAD_ADDRESSES]; i++, row += 4) {
      const model_tensor *tensor = row[0] < given ? inputs + row[0] : call->made + (row[0] - given);
      *(int64_t *)(intptr_t)row[3] = (int64_t)(intptr_t)tensor->data + row[1] + at(row[2]);
    }
    row = table(block, HEAD_STEP_TABLE);
    for (int64_t i = 0; i < block[HEAD_STEPS]; i++, row += 3, step++)
      if (at(row[2]) && native(row[0], row[1])) return step;
  }
  return CALL_OK;
}

/* Gives results that are inputs, or have other sizes than what was made, what they are. */
static int64_t finish(model_instance *instance, struct call *call, const model_tensor *inputs,
                      model_tensor *results, int runs) {
  const int64_t *slots = call->words + call->plan->contexts.numbers[0] + CONTEXT_WORDS;
  const int64_t sure = runs ? INT64_MAX : call->words[HEAD_RESULTS];
  for (int32_t r = 0; r < call->plan->result_count; r++) {
    const struct image_result *known = call->plan->results + r;
    const model_tensor *from = known->is_given ? inputs + known->number : call->made + known->number;
    model_tensor *result = results + r;
    int found = known->is_given || known->number < sure;
    result->type = from->type, result->rank = known->rank < 0 ? from->rank : known->rank;
    for (int32_t axis = 0; axis < result->rank; axis++) {
      int64_t size = known->rank < 0 ? from->sizes[axis] : known->sizes[axis];
      if (known->rank >= 0 && size < 0) size = slots[-1 - size];
      result->sizes[axis] = found ? size : -1;
    }
    if (!runs) continue;
    struct memory *own = instance->own + r;
    if (!result->data || result->data == own->data) {
      if (!reserve(own, from->bytes)) return CALL_EMPTY;
      result->data = own->data, result->bytes = own->bytes;
    } else if (result->bytes < from->bytes) {
      return CALL_NO_ROOM;
    }
    if (from->data != result->data && from->bytes)
      memcpy(result->data, from->data, (size_t)from->bytes);
  }
  return CALL_OK;
}

static int fail(model_instance *instance, int code, const char *format, ...) {
  va_list parts;
  va_start(parts, format);
  vsnprintf(instance->text, sizeof instance->text, format, parts);
  va_end(parts);
  return code;
}

/* The code for a status, with what is known of it. */
static int why(model_instance *instance, const struct call *call, int64_t status) {
  const int64_t *context = call->words + call->plan->contexts.numbers[0];
  int64_t failed = context[CONTEXT_FAILED];
  if (status == CALL_NO_MEMORY)
    return fail(instance, MODEL_NO_MEMORY, "it needs %lld bytes of working memory, the limit is %lld",
                (long long)context[CONTEXT_NEEDED], (long long)instance->limit);
  if (status == CALL_EMPTY) return fail(instance, MODEL_NO_MEMORY, "its results need more");
  if (status == CALL_NO_ROOM) return fail(instance, MODEL_NO_ROOM, "");
  if (status == CALL_OVERFLOW)
    return fail(instance, MODEL_WRONG_SIZES, "its sizes are more than 64 bits can count");
  if (status >= 0)
    return fail(instance, MODEL_WRONG_VALUES, "'%s' met a value that kernels do not compute with",
                status < call->plan->step_count ? call->plan->steps[status] : "a layer");
  if (status == CALL_CHECK_FAILED || status == CALL_GUARD_FAILED) {
    int guard = status == CALL_GUARD_FAILED;
    if (failed < 0 || failed >= call->plan->condition_count)
      return fail(instance, MODEL_WRONG_ARGUMENTS, "a size is outside of what the plan is for");
    const struct image_condition *condition = call->plan->conditions + failed;
    return fail(instance, guard ? MODEL_WRONG_ARGUMENTS : MODEL_WRONG_SIZES, "%s %s (%s)",
                guard ? "the plan is for calls in which" : "expected", condition->text,
                condition->where);
  }
  return fail(instance, MODEL_WRONG_ARGUMENTS, "");
}

/* Makes a call by the first of the plans that takes it. */
static int run_plans(model_instance *instance, struct call *calls, int32_t count,
                     const model_tensor *inputs, model_tensor *results, int runs) {
  int code = fail(instance, MODEL_WRONG_ARGUMENTS, "there is no plan");
  for (int32_t i = 0; i < count; i++) {
    struct call *call = calls + i;
    if (!prepared(instance, call))
      return fail(instance, MODEL_NO_MEMORY, "there is no memory for the plan");
    int64_t status = CALL_OTHER_ARGUMENTS;
    if (fits(call, inputs))
      for (;;) {
        status = attempt(instance, call, inputs, results, runs);
        if (status == CALL_NO_MEMORY && grow(instance, call)) continue;
        if (status < 0) break;
        if (lacks_memory(call)) {
          if (renew(instance, call)) continue;
          status = CALL_NO_MEMORY;
        } else if (misfits(call)) {
          status = CALL_GUARD_FAILED;
        }
        break;
      }
    if (status == CALL_OK) status = finish(instance, call, inputs, results, runs);
    if (status == CALL_OK) return MODEL_OK;
    code = why(instance, call, status);
    if (status != CALL_GUARD_FAILED && status != CALL_OTHER_ARGUMENTS) break;
  }
  return code;
}

#if IMAGE_VARIABLES
#include "variables.h"
#endif

/* ---- what programs call */

static int take_inputs(model_instance *instance, const model_tensor *inputs) {
  static char empty[LINE];
  for (int i = 0; i < IMAGE_INPUTS; i++) {
    model_tensor *tensor = instance->inputs + i;
    *tensor = inputs[i];
    int64_t bytes = model_bytes(tensor);
    const char *name = model_input_ports[i].name;
    if (bytes < 0)
      return fail(instance, MODEL_WRONG_ARGUMENTS, "input '%s' has a type, rank or size that no "
                  "array has", name);
    if (bytes && !tensor->data)
      return fail(instance, MODEL_WRONG_ARGUMENTS, "input '%s' has no data", name);
    if (tensor->bytes < bytes)
      return fail(instance, MODEL_WRONG_ARGUMENTS, "input '%s' has %lld bytes, its sizes need %lld",
                  name, (long long)tensor->bytes, (long long)bytes);
    tensor->bytes = bytes;
    if (!tensor->data) tensor->data = empty;
  }
  return MODEL_OK;
}

static int make_call(model_instance *instance, const model_tensor *inputs, model_tensor *outputs,
                     int runs) {
  if (!instance || (IMAGE_INPUTS && !inputs) || (IMAGE_OUTPUTS && !outputs))
    return MODEL_WRONG_ARGUMENTS;
  if (__atomic_exchange_n(&instance->busy, 1, __ATOMIC_ACQUIRE)) return MODEL_BUSY;
  int code = take_inputs(instance, inputs);
#if IMAGE_VARIABLES
  if (!code) code = read_variables(instance);
#endif
  if (!code) {
    model_tensor *results = instance->results;
    memset(results, 0, sizeof instance->results);
    for (int i = 0; i < IMAGE_OUTPUTS; i++) results[i] = outputs[i];
    code = run_plans(instance, instance->calls, instance->image->plan_count, instance->inputs,
                     results, runs);
#if IMAGE_VARIABLES
    if (!code && runs) code = assign_variables(instance);
#endif
    for (int i = 0; !code && i < IMAGE_OUTPUTS; i++) outputs[i] = results[i];
  }
  if (!code) instance->text[0] = 0;
  __atomic_store_n(&instance->busy, 0, __ATOMIC_RELEASE);
  return code;
}

int model_sizes(model_instance *instance, const model_tensor *in, model_tensor *out) {
  return make_call(instance, in, out, 0);
}
int model_run(model_instance *instance, const model_tensor *in, model_tensor *out) {
  return make_call(instance, in, out, 1);
}

int model_reset(model_instance *instance) {
  if (!instance) return MODEL_WRONG_ARGUMENTS;
  if (__atomic_load_n(&instance->busy, __ATOMIC_ACQUIRE)) return MODEL_BUSY;
  instance->begun = 0;
  return MODEL_OK;
}

/* ---- instances */

static struct call *new_calls(const struct image_plan *plans, int32_t count) {
  struct call *calls = calloc((size_t)count + 1, sizeof *calls);
  for (int32_t i = 0; calls && i < count; i++) calls[i].plan = plans + i;
  return calls;
}

int model_open(model_instance **opened, int64_t memory_limit) {
  if (!opened) return MODEL_WRONG_ARGUMENTS;
  *opened = 0;
  const struct image *image = model_image();
  if (!image) return MODEL_OTHER_PROCESSOR;
  model_instance *instance = calloc(1, sizeof *instance);
  if (!instance) return MODEL_NO_MEMORY;
  instance->image = image;
  instance->limit = memory_limit > 0 ? memory_limit : memory_of_machine();
  instance->calls = new_calls(image->plans, image->plan_count);
  instance->initial = new_calls(image->initial, image->initial_count);
  if (!instance->calls || !instance->initial) {
    model_close(instance);
    return MODEL_NO_MEMORY;
  }
  *opened = instance;
  return MODEL_OK;
}

void model_close(model_instance *instance) {
  if (!instance) return;
  close_calls(instance->calls, instance->image->plan_count);
  close_calls(instance->initial, instance->image->initial_count);
  for (int i = 0; i < IMAGE_RESULTS; i++) give_back(instance->own[i].data);
  for (int i = 0; i < IMAGE_MADE; i++) give_back(instance->made[i].data);
  for (int i = 0; i < 2 * IMAGE_VARIABLES; i++)
    give_back(instance->values[i / 2].memories[i % 2].data);
  free(instance);
}

const char *model_text(int code) {
  static const char *const texts[] = {
    "all went well", "there is too little memory", "is compiled for other processors",
    "no plan takes these arguments", "sizes contradict each other",
    "a layer met a value that it does not compute with",
    "the memory that was given for a result is too small",
    "another call is in this instance: give each thread one of its own",
  };
  return code >= 0 && code < (int)(sizeof texts / sizeof *texts) ? texts[code] : "no code of a model";
}

const char *model_why(const model_instance *instance) { return instance ? instance->text : ""; }
