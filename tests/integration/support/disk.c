/* Preloaded into a server: what it has written reaches its disk, unless the number in the file REDISLOCK_DISK says that this
 * fails (1), or takes until the number changes (2). */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile const int64_t *trouble;

__attribute__((constructor)) static void open_trouble(void) {
    const char *path = getenv("REDISLOCK_DISK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *trouble, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) trouble = page;
    close(file);
}

static int sync_to_disk(long call, int file) {
    while (trouble && *trouble == 2) usleep(1000);
    if (trouble && *trouble == 1) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(call, file);
}

int fsync(int file) { return sync_to_disk(SYS_fsync, file); }

int fdatasync(int file) { return sync_to_disk(SYS_fdatasync, file); }
