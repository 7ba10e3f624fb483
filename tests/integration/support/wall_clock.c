/* Preloaded into a server, to move its clocks by two offsets in ns: the first moves the wall clock only, the second all clocks but those
 * that count a processor's time.
 *
 * Not libfaketime: it asks the allocator for memory before it is ready, and the servers' allocator asks for the time. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include "preload.h"

int clock_gettime(clockid_t id, struct timespec *time) {
    long failed = syscall(SYS_clock_gettime, id, time);
    int wall = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
    int of_processor = id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID || id < 0;
    if (!failed && number && !of_processor) {
        int64_t by = (wall ? number[0] : 0) + number[1], ns = time->tv_nsec + by % 1000000000;
        time->tv_sec += by / 1000000000 + (ns < 0 ? -1 : ns / 1000000000);
        time->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
    }
    return (int)failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return failed;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return to ? (*to = now.tv_sec) : now.tv_sec;
}

/* Valkey would not use this clock without these two changes: it loads modules so that their own libraries come first, and it reads a
 * processor's counter instead of the clock. */
void *dlopen(const char *path, int flags) {
    __typeof__(dlopen) *next = dlsym(RTLD_NEXT, "dlopen");
    return next(path, flags & ~RTLD_DEEPBIND);
}
FILE *fopen64(const char *path, const char *mode) {
    __typeof__(fopen64) *next = dlsym(RTLD_NEXT, "fopen64");
    return strcmp(path, "/proc/cpuinfo") ? next(path, mode) : NULL;
}
