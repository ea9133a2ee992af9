/* What the runtime knows of a model: constant data, which image.c and the files of assembly have. */
#ifndef UNCORK_IMAGE_H
#define UNCORK_IMAGE_H

#include "layout.h"
#include "model.h"

/* A result: which of the arrays that the call makes, or where is_given which of its inputs, and its
   sizes where they are others: a number, or where below 0, one more than the slot. */
struct image_result {
  int32_t number, is_given, rank;  /* rank -1: the sizes are those of the array */
  const int64_t *sizes;
};

struct image_condition {
  const char *text, *where;
  int is_guard;
};

/* Numbers, and how many there are. */
struct image_numbers {
  int32_t count;
  const int32_t *numbers;
};

/* A plan, see format.py and record.py of uncork. */
struct image_plan {
  const int64_t *words;
  int64_t word_count;
  const uint32_t *relocated, *bases;
  int64_t relocations;
  int32_t symbol_count;
  const char *const *symbols;
  struct image_numbers contexts, turns, rooms;
  int32_t arguments, nothing, result_count, condition_count, step_count;
  const struct image_result *results;
  /* For each array that the call makes: the result that it is, or -1. */
  struct image_numbers made;
  const struct image_condition *conditions;
  const char *const *steps;
  /* For variables that grow: the input that is its storage, and its least sizes. */
  int32_t extended_count;
  const struct image_result *extended;
};

/* Functions: of native code where they begin, of WebAssembly each by its number. */
#if defined(__wasm__)
typedef int64_t (*const *image_code)(int64_t);
#define IMAGE_FUNCTION(image, word) ((int64_t)(intptr_t)(image)->code[word])
#else
typedef const unsigned char *image_code;
#define IMAGE_FUNCTION(image, word) ((int64_t)(intptr_t)((image)->code + (word)))
#endif

/* A bit that the processor must have: CPUID's leaf, leaf within, register; or that of AT_HWCAP. */
struct image_feature {
  uint32_t leaf, within, where, bit;
};

/* A variable as it is read, by the inputs that follow those of the model: the result of initial
   plans that it begins with, or -1 and the value; the result that it becomes, or -1. One that grows
   along an axis (else -1) becomes longer by that result; the input that picks which of its rows go
   on, or -1, and their axis. Those that grow are the last. */
struct image_variable {
  const char *name;
  int32_t begins, assigns, axis, pick, pick_axis;
  int from_end, strict, shape_is_read;
  model_tensor begin;
};

struct image {
  const char *level;
  const struct image_feature *features;
  int32_t feature_count;
  uint32_t kept;  /* the state that the system must keep (XCR0) */
  image_code code;
  int64_t serve;
  int32_t plan_count, initial_count;
  const struct image_plan *plans, *initial;
};

#if defined(__wasm__)
extern const unsigned char *model_constants;  /* whoever loads the module puts them there */
#else
extern const unsigned char model_constants[];
#endif
const struct image *model_image(void);  /* the largest that this processor runs; 0: none */
extern const struct image_variable model_variables[];
extern const model_port model_input_ports[], model_output_ports[];

#endif
