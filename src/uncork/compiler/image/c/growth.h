/* Variables that grow: a storage, of whose elements along an axis the first so many are the value.
   A call writes behind them. A part of runtime.c. */

static int64_t number_at(const model_tensor *numbers, int64_t i) {
  return numbers->type == MODEL_I64 ? ((const int64_t *)numbers->data)[i]
                                    : ((const int32_t *)numbers->data)[i];
}

/* Copies the first elements of a tensor to another one: `box` many of those that both have. */
static void copy_box(char *to, const int64_t *sizes, const char *from, const int64_t *sizes_from,
                     const int64_t *box, int32_t rank, int64_t width) {
  int64_t step = width, step_from = width;
  int whole = 1;
  for (int32_t axis = 1; axis < rank; axis++) {
    whole &= box[axis] == sizes[axis] && box[axis] == sizes_from[axis];
    step *= sizes[axis], step_from *= sizes_from[axis];
  }
  const int64_t bytes = box[0] * step;
  if (whole && bytes) memcpy(to, from, (size_t)bytes);
  if (whole) return;
  for (int64_t i = 0; i < box[0]; i++)
    copy_box(to + i * step, sizes + 1, from + i * step_from, sizes_from + 1, box + 1, rank - 1,
             width);
}

static int64_t width_behind(const model_tensor *tensor, int32_t axis) {
  int64_t bytes = widths[tensor->type];
  while (++axis < tensor->rank) bytes *= tensor->sizes[axis];
  return bytes;
}

static int no_memory_for(model_instance *instance, const struct image_variable *known) {
  return fail(instance, MODEL_NO_MEMORY, "variable '%s' takes more, the limit is %lld",
              known->name, (long long)instance->limit);
}

/* Puts the rows that an input picks into the other memory of a variable. */
static int pick_rows(model_instance *instance, const struct image_variable *known,
                     struct value *value) {
  const model_tensor *picks = instance->inputs + known->pick, *now = &value->now;
  const int32_t axis = known->pick_axis;
  const int64_t rows = now->sizes[axis];
  if ((picks->type != MODEL_I64 && picks->type != MODEL_I32) || picks->rank != 1)
    return MODEL_OK;  /* no plan takes it */
  const int64_t count = picks->sizes[0];
  int moved = count != rows, outside = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t row = number_at(picks, i);
    moved |= row != i, outside |= row < (known->from_end ? -rows : 0) || row >= rows;
  }
  if (!moved) return MODEL_OK;
  if ((outside && (value->length || known->strict)) || (known->shape_is_read && count != rows))
    return fail(instance, MODEL_WRONG_VALUES, "input '%s' picks rows that variable '%s' has not",
                model_input_ports[known->pick].name, known->name);
  model_tensor *next = &value->next;
  *next = *now, next->sizes[axis] = count, next->bytes = model_bytes(next);
  struct memory *memory = value->memories + value->other;
  if (next->bytes < 0 || next->bytes > instance->limit || !reserve(memory, next->bytes))
    return no_memory_for(instance, known);
  next->data = memory->data;
  int64_t box[MODEL_MAX_RANK];
  memcpy(box, now->sizes, sizeof box);
  box[known->axis] = value->length, box[axis] = 1;
  const int64_t step = width_behind(now, axis);
  for (int64_t i = 0; i < count && value->length; i++) {
    int64_t row = number_at(picks, i);
    copy_box((char *)next->data + i * step, next->sizes,
             (const char *)now->data + (row < 0 ? row + rows : row) * step, now->sizes, box,
             now->rank, widths[now->type]);
  }
  return MODEL_OK;
}

/* Gives a storage room for so many elements, and for half as many more where there is memory. */
static int extend(model_instance *instance, const struct image_variable *known,
                  struct value *value, int64_t least) {
  model_tensor *tensor = &value->next, larger = *tensor;
  struct memory *memory = value->memories + (tensor->data != value->memories[0].data);
  int64_t box[MODEL_MAX_RANK], most = INT64_MAX / 2;
  larger.sizes[known->axis] = least < most ? least + least / 2 : least;
  larger.bytes = model_bytes(&larger);
  if (larger.bytes < 0 || larger.bytes > instance->limit)
    larger.sizes[known->axis] = least, larger.bytes = model_bytes(&larger);
  if (larger.bytes < 0 || larger.bytes > instance->limit || !(larger.data = taken(larger.bytes)))
    return no_memory_for(instance, known);
  memcpy(box, tensor->sizes, sizeof box);
  box[known->axis] = value->length;
  copy_box(larger.data, larger.sizes, tensor->data, tensor->sizes, box, tensor->rank,
           widths[tensor->type]);
  give_back(memory->data);
  memory->data = larger.data, memory->bytes = larger.bytes;
  if (tensor->data == value->now.data) value->now = larger;
  *tensor = larger;
  return MODEL_OK;
}

/* Gives a call the storages, with the rows that it picks and room for what it adds, and how much
   of them is there. */
static int read_grown(model_instance *instance) {
  model_tensor *storages = instance->inputs + IMAGE_INPUTS, *lengths = storages + IMAGE_VARIABLES;
  for (int i = IMAGE_VARIABLES - IMAGE_GROWN; i < IMAGE_VARIABLES; i++) {
    struct value *value = instance->values + i;
    const model_tensor length = {&value->length, 8, MODEL_I64, 1, {1}};
    value->next = value->now;
    int code = model_variables[i].pick < 0 ? MODEL_OK
               : pick_rows(instance, model_variables + i, value);
    if (code) return code;
    storages[i] = value->next;
    lengths[i - (IMAGE_VARIABLES - IMAGE_GROWN)] = length;
  }
  for (int32_t p = 0; p < instance->image->plan_count; p++) {
    struct call *call = instance->calls + p;
    if (!prepared(instance, call))
      return fail(instance, MODEL_NO_MEMORY, "there is no memory for the plan");
    if (!fits(call, instance->inputs)) continue;
    bind(call->words, instance->inputs);  /* sizes are there before a check of them fails */
    const int64_t *slots = call->words + call->plan->contexts.numbers[0] + CONTEXT_WORDS;
    for (int32_t e = 0; e < call->plan->extended_count; e++) {
      const struct image_result *known = call->plan->extended + e;
      const int i = known->number - IMAGE_INPUTS;
      struct value *value = instance->values + i;
      int64_t least = 0;
      int others = known->rank == value->next.rank;  /* which the call says, where they are wrong */
      for (int32_t axis = 0; others && axis < known->rank; axis++) {
        int64_t size = known->sizes[axis] < 0 ? slots[-1 - known->sizes[axis]] : known->sizes[axis];
        if (axis == model_variables[i].axis) least = size;
        else others = size == value->next.sizes[axis];
      }
      if (!others || least <= value->next.sizes[model_variables[i].axis]) continue;
      int code = extend(instance, model_variables + i, value, least);
      if (code) return code;
      storages[i] = value->next;
    }
    return MODEL_OK;
  }
  return MODEL_OK;
}
