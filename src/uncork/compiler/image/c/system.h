/* Memory, as systems have it. */
#include <stdlib.h>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <malloc.h>
#include <windows.h>
static void *aligned(size_t bytes) { return _aligned_malloc(bytes, LINE); }
static void give_back(void *memory) { _aligned_free(memory); }
static int64_t memory_of_machine(void) {
  MEMORYSTATUSEX status = {.dwLength = sizeof status};
  return GlobalMemoryStatusEx(&status) ? (int64_t)(status.ullTotalPhys / 2) : INT32_MAX;
}
#else
static void *aligned(size_t bytes) { return aligned_alloc(LINE, bytes); }
static void give_back(void *memory) { free(memory); }
#if defined(__wasm__)
static int64_t memory_of_machine(void) { return INT32_MAX; }
#else
#include <unistd.h>
static int64_t memory_of_machine(void) {
  return (int64_t)sysconf(_SC_PHYS_PAGES) / 2 * (int64_t)sysconf(_SC_PAGESIZE);
}
#endif
#endif
