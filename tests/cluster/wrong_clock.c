/* A wall clock that is SHOAL_TEST_CLOCK_SECONDS ahead, for programs that load this library first.

   The monotonic clock stays right, as on a machine whose wall clock is wrong. libfaketime cannot be used: with it,
   waits of Python's threads never end, or sleeping fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long ahead(void) {
    static long seconds = 0;
    static int known = 0;
    if (!known) {
        const char *text = getenv("SHOAL_TEST_CLOCK_SECONDS");
        seconds = text ? atol(text) : 0;
        known = 1;
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *) = 0;
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*real)(struct timeval *, void *) = 0;
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int failed = real(now, zone);
    if (!failed) now->tv_sec += ahead();
    return failed;
}

time_t time(time_t *now) {
    struct timespec read;
    clock_gettime(CLOCK_REALTIME, &read);
    if (now) *now = read.tv_sec;
    return read.tv_sec;
}

/* Its deadline is one of the wall clock. */
int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
    static int (*real)(sem_t *, const struct timespec *) = 0;
    if (!real) real = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec right = *deadline;
    right.tv_sec -= ahead();
    return real(semaphore, &right);
}
