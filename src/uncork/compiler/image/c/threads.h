/* The pool of threads that steps of a model share: see kernels/runtime/thread_pool.py of uncork. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>

static _Alignas(64) int64_t pool[POOL_BYTES / 8];
static const struct image *pool_image;
_Static_assert(sizeof(pthread_mutex_t) <= 256 && sizeof(pthread_cond_t) <= 256 &&
               sizeof(sigset_t) <= 256 && sizeof(pthread_t) <= 256, "a pool has room for these");

static void begin_pool(void) {
  char *bytes = (char *)pool;
  memset(bytes, 0, 8 * POOL_LOCK);
  memset(bytes + POOL_LOCK_AT, 0, POOL_SIGNALS_AT - POOL_LOCK_AT);
  pthread_mutex_init((pthread_mutex_t *)(bytes + POOL_LOCK_AT), 0);
  pthread_cond_init((pthread_cond_t *)(bytes + POOL_BEGUN_AT), 0);
  pthread_cond_init((pthread_cond_t *)(bytes + POOL_ENDED_AT), 0);
}

static void make_pool(void) {
#define FUNCTION(word, function) pool[POOL_##word] = (int64_t)(intptr_t)function
  FUNCTION(LOCK, pthread_mutex_lock), FUNCTION(UNLOCK, pthread_mutex_unlock);
  FUNCTION(WAIT, pthread_cond_wait), FUNCTION(WAKE_ONE, pthread_cond_signal);
  FUNCTION(WAKE_ALL, pthread_cond_broadcast), FUNCTION(GIVE_WAY, sched_yield);
  FUNCTION(START, pthread_create), FUNCTION(MASK, pthread_sigmask);
  FUNCTION(SERVE, (pool_image->code + pool_image->serve));
  pool[POOL_SET_MASK] = SIG_SETMASK;
  sigset_t *blocked = (sigset_t *)((char *)pool + POOL_SIGNALS_AT);  /* not what a thread's own fault raises */
  sigfillset(blocked);
  sigdelset(blocked, SIGBUS), sigdelset(blocked, SIGFPE), sigdelset(blocked, SIGILL), sigdelset(blocked, SIGSEGV);
  begin_pool();
  pthread_atfork(0, 0, begin_pool);  /* a child process has none of the threads */
}

static int64_t pool_of(const struct image *image) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pool_image = image;
  pthread_once(&once, make_pool);
  return (int64_t)(intptr_t)pool;
}
