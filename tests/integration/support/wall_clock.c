/* Preloaded into a server: its wall clock shows the machine's time and an offset, in ns, that is in the file
 * REDISLOCK_WALL_CLOCK and may change at any time. All other clocks are the machine's.
 *
 * Not libfaketime: it asks the allocator for memory before it is ready, and the servers' allocator asks for the time. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *offset;

__attribute__((constructor)) static void open_offset(void) {
    const char *path = getenv("REDISLOCK_WALL_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) offset = page;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *time) {
    long failed = syscall(SYS_clock_gettime, id, time);
    int wall = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
    if (!failed && wall && offset) {
        int64_t by = *offset, ns = time->tv_nsec + by % 1000000000;
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
