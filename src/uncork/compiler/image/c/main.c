/* Runs a compiled model once: an argument for each input, SIZES or SIZES:FILE, such as 1,3,224,224
   or 64,50:ids.bin; without a file values are 0. "-o PREFIX" writes results to PREFIX0.bin, .. as
   they lie in memory; "-n N" makes N calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static int given(const char *text, const model_port *port, model_tensor *tensor) {
  char *end = (char *)text;
  tensor->type = port->type;
  while (*end && *end != ':' && tensor->rank < MODEL_MAX_RANK) {
    tensor->sizes[tensor->rank++] = strtoll(end, &end, 10);
    if (*end == ',') end++;
    else break;
  }
  tensor->bytes = model_bytes(tensor);
  if ((*end && *end != ':') || tensor->bytes < 0) {
    fprintf(stderr, "input '%s': expected SIZES or SIZES:FILE, got %s\n", port->name, text);
    return 0;
  }
  tensor->data = calloc(1, (size_t)tensor->bytes + 1);
  if (!tensor->data || !*end) return tensor->data != 0;
  FILE *file = fopen(end + 1, "rb");
  size_t read = file ? fread(tensor->data, 1, (size_t)tensor->bytes + 1, file) : 0;
  if (file) fclose(file);
  if ((int64_t)read == tensor->bytes) return 1;
  fprintf(stderr, "%s: expected a file of %lld bytes\n", end + 1, (long long)tensor->bytes);
  return 0;
}

static int write_result(const char *prefix, int number, const model_tensor *result) {
  char path[4096];
  snprintf(path, sizeof path, "%s%d.bin", prefix, number);
  FILE *file = fopen(path, "wb");
  size_t bytes = (size_t)model_bytes(result);
  int written = file && fwrite(result->data, 1, bytes, file) == bytes;
  if (file && fclose(file)) written = 0;
  if (!written) fprintf(stderr, "%s: cannot be written\n", path);
  return written;
}

int main(int argc, char **argv) {
  int inputs = model_inputs(), outputs = model_outputs(), count = 0, calls = 1, code, failed = 0;
  const char *prefix = 0;
  model_instance *instance = 0;
  model_tensor *in = calloc((size_t)inputs + 1, sizeof *in);
  model_tensor *out = calloc((size_t)outputs + 1, sizeof *out);
  if (!in || !out) return 1;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "-o") && i + 1 < argc) prefix = argv[++i];
    else if (!strcmp(argv[i], "-n") && i + 1 < argc) calls = atoi(argv[++i]);
    else if (count == inputs) count = inputs + 1, i = argc;
    else if (!given(argv[i], model_input(count), in + count)) return 2;
    else count++;
  }
  if (count != inputs) {
    fprintf(stderr, "usage: main [-n CALLS] [-o PREFIX] SIZES[:FILE] .. for %d inputs\n", inputs);
    for (int i = 0; i < inputs; i++)
      fprintf(stderr, "  %s: %s %s\n", model_input(i)->name, model_input(i)->element_type,
              model_input(i)->shape);
    return 2;
  }
  code = model_open(&instance, 0);
  for (int i = 0; !code && i < calls; i++) code = model_run(instance, in, out);
  if (code) {
    fprintf(stderr, "%s: %s\n", model_text(code), model_why(instance));
    model_close(instance);
    return 1;
  }
  for (int i = 0; i < outputs; i++) {
    printf("%s: %s [", model_output(i)->name, model_output(i)->element_type);
    for (int axis = 0; axis < out[i].rank; axis++)
      printf(axis ? ", %lld" : "%lld", (long long)out[i].sizes[axis]);
    printf("]");
    for (int k = 0; out[i].type == MODEL_F32 && k < 4 && 4 * k < model_bytes(out + i); k++)
      printf(" %.6g", ((const float *)out[i].data)[k]);
    printf("\n");
    if (prefix) failed |= !write_result(prefix, i, out + i);
  }
  model_close(instance);
  for (int i = 0; i < inputs; i++) free(in[i].data);
  free(in), free(out);
  return failed;
}
