/* Preloaded into a server: its wall clock shows the machine's time and an offset, in ns, which is the first number. The second one is added
 * to that and to all other clocks but those of a processor's time.
 *
 * Not libfaketime: it asks the allocator for memory before it is ready, and the servers' allocator asks for the time. */

#define _GNU_SOURCE
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
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}
