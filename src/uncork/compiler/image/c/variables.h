/* Variables: what calls read of them, and what they assign. A part of runtime.c. */

static int keep(struct value *value, const model_tensor *from) {
  struct memory *memory = value->memories + value->other;
  int64_t bytes = model_bytes(from);
  if (!reserve(memory, bytes)) return 0;
  value->next = *from;
  if (bytes) memcpy(memory->data, from->data, (size_t)bytes);
  value->next.data = memory->data, value->next.bytes = bytes;
  return 1;
}

static void take_next(struct value *value) {
  value->now = value->next;
  value->other = 1 - value->other;
}

#if IMAGE_GROWN
#include "growth.h"
#endif

/* Gives a call what it reads of variables: what they begin with, or what the call before left. */
static int read_variables(model_instance *instance) {
  model_tensor *values = instance->results;
  int computes = 0;
  for (int i = 0; i < IMAGE_VARIABLES; i++)
    computes |= model_variables[i].begins >= 0 &&
                (!instance->begun || model_variables[i].assigns < 0);
  if (computes) {
    memset(values, 0, sizeof instance->results);
    int code = run_plans(instance, instance->initial, instance->image->initial_count,
                         instance->inputs, values, 1);
    if (code) return code;
  }
  for (int i = 0; i < IMAGE_VARIABLES; i++) {
    const struct image_variable *known = model_variables + i;
    struct value *value = instance->values + i;
    if (!instance->begun || (known->begins >= 0 && known->assigns < 0)) {
      if (!keep(value, known->begins >= 0 ? values + known->begins : &known->begin))
        return fail(instance, MODEL_NO_MEMORY, "there is no memory for the variables");
      take_next(value);
      if (known->axis >= 0) value->length = value->now.sizes[known->axis];
    }
    instance->inputs[IMAGE_INPUTS + i] = value->now;
  }
#if IMAGE_GROWN
  return read_grown(instance);
#else
  return MODEL_OK;
#endif
}

static int assign_variables(model_instance *instance) {
  for (int i = 0; i < IMAGE_VARIABLES - IMAGE_GROWN; i++)
    if (model_variables[i].assigns >= 0 &&
        !keep(instance->values + i, instance->results + model_variables[i].assigns))
      return fail(instance, MODEL_NO_MEMORY, "there is no memory for the variables");
  for (int i = 0; i < IMAGE_VARIABLES; i++) {
    struct value *value = instance->values + i;
    const struct image_variable *known = model_variables + i;
    if (known->axis >= 0) value->length = *(int64_t *)instance->results[known->assigns].data;
    if (known->axis < 0 ? known->assigns >= 0 : value->next.data != value->now.data)
      take_next(value);
  }
  instance->begun = 1;
  return MODEL_OK;
}
