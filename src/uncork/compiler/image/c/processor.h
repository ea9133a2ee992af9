/* Whether this processor has what an image needs. */
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#if defined(__x86_64__)
static uint32_t asked(uint32_t leaf, uint32_t within, uint32_t where) {
  uint32_t r[4] = {0, 0, 0, 0};
  if (within) {
    __cpuid_count(leaf, 0, r[0], r[1], r[2], r[3]);
    if (r[0] < within) return 0;
  }
  return __get_cpuid_count(leaf, within, r, r + 1, r + 2, r + 3) ? r[where] : 0;
}

static int runs_here(const struct image *image) {
  uint32_t low = 0, high = 0;
  if (asked(1, 0, 2) >> 27 & 1) __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & image->kept) != image->kept) return 0;
  for (int32_t i = 0; i < image->feature_count; i++) {
    const struct image_feature *f = image->features + i;
    if (!(asked(f->leaf, f->within, f->where) >> f->bit & 1)) return 0;
  }
  return 1;
}
#else
static int runs_here(const struct image *image) {
#if defined(__aarch64__) && defined(__linux__)
  for (int32_t i = 0; i < image->feature_count; i++)
    if (!(getauxval(AT_HWCAP) >> image->features[i].bit & 1)) return 0;
#endif
  (void)image;
  return 1;
}
#endif
