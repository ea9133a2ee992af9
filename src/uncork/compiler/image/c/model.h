/* A compiled model for programs in C, and in whatever calls C.

   Open an instance, run it, close it. An instance makes one call at a time; threads have one each.
   Every function that can fail gives 0 or a code: model_text says what a code means, model_why what
   was wrong with the last call of an instance, in words. */
#ifndef MODEL_HEADER
#define MODEL_HEADER

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MODEL_MAX_RANK 8

enum model_type {
  MODEL_BOOL = 1, MODEL_I8, MODEL_U8, MODEL_I16, MODEL_U16, MODEL_I32, MODEL_U32, MODEL_I64,
  MODEL_U64, MODEL_F16, MODEL_F32, MODEL_F64
};

/* Codes. MODEL_WRONG_ARGUMENTS: no plan takes arrays of these types, ranks and sizes.
   MODEL_WRONG_SIZES: sizes contradict each other. MODEL_WRONG_VALUES: a layer met a value that it
   does not compute with, such as an index outside of its table. MODEL_NO_ROOM: the memory that was
   given for a result is too small. */
enum model_code {
  MODEL_OK = 0, MODEL_NO_MEMORY, MODEL_OTHER_PROCESSOR, MODEL_WRONG_ARGUMENTS, MODEL_WRONG_SIZES,
  MODEL_WRONG_VALUES, MODEL_NO_ROOM, MODEL_BUSY
};

/* An array: its values in C order, the bytes of that memory, its element type (bf16 is given by its
   bits, as MODEL_U16, types of fewer than 8 bits one to a byte), and its sizes. */
typedef struct {
  void *data;
  int64_t bytes;
  int32_t type, rank;
  int64_t sizes[MODEL_MAX_RANK];
} model_tensor;

/* What an input or an output is called and takes: element type and shape as the model has them,
   the type of arrays, and their sizes, -1 for any. */
typedef struct {
  const char *name, *element_type, *shape;
  int32_t type, rank;
  int64_t sizes[MODEL_MAX_RANK];
} model_port;

typedef struct model_instance model_instance;

int model_inputs(void);
int model_outputs(void);
const model_port *model_input(int number);  /* 0 for a number that there is not */
const model_port *model_output(int number);

/* Makes an instance, which takes at most `memory_limit` bytes of working memory; 0 is half of what
   the machine has. */
int model_open(model_instance **opened, int64_t memory_limit);

/* Says which sizes the results of a call have: type, rank and sizes of each output; a size that
   only the call itself finds is -1. */
int model_sizes(model_instance *instance, const model_tensor *inputs, model_tensor *outputs);

/* Makes a call. An output whose data is 0 gets memory of the instance, good until its next call;
   else `bytes` says how much may be written there. Outputs must not overlap inputs. Variables of
   the model, if it has some, go on from call to call; a call that fails changes none. */
int model_run(model_instance *instance, const model_tensor *inputs, model_tensor *outputs);

/* Has variables begin again. */
int model_reset(model_instance *instance);

void model_close(model_instance *instance);

const char *model_text(int code);
const char *model_why(const model_instance *instance);
int64_t model_bytes(const model_tensor *tensor);  /* of its elements; -1 where that is no number */

#ifdef __cplusplus
}
#endif
#endif
